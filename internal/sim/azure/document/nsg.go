package document

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Directions of rules.
const (
	Inbound  = "Inbound"
	Outbound = "Outbound"
)

// The words of rules that represent many addresses.
const (
	TagVirtualNetwork = "virtualnetwork"
	TagInternet       = "internet"
	TagLoadBalancer   = "azureloadbalancer"
)

// ruleDocument is a rule as it is written.
type ruleDocument struct {
	Name       string `json:"name"`
	Properties struct {
		Description                  string      `json:"description"`
		Protocol                     string      `json:"protocol"`
		Access                       string      `json:"access"`
		Direction                    string      `json:"direction"`
		Priority                     int         `json:"priority"`
		SourcePortRange              string      `json:"sourcePortRange"`
		SourcePortRanges             []string    `json:"sourcePortRanges"`
		DestinationPortRange         string      `json:"destinationPortRange"`
		DestinationPortRanges        []string    `json:"destinationPortRanges"`
		SourceAddressPrefix          string      `json:"sourceAddressPrefix"`
		SourceAddressPrefixes        []string    `json:"sourceAddressPrefixes"`
		DestinationAddressPrefix     string      `json:"destinationAddressPrefix"`
		DestinationAddressPrefixes   []string    `json:"destinationAddressPrefixes"`
		SourceApplicationGroups      []reference `json:"sourceApplicationSecurityGroups"`
		DestinationApplicationGroups []reference `json:"destinationApplicationSecurityGroups"`
	} `json:"properties"`
}

// SecurityGroup is a network security group made ready to decide.
type SecurityGroup struct {
	Rules []Rule // by direction, then by priority
}

// Rule is one rule made ready.
type Rule struct {
	Name      string
	Direction string
	Priority  int
	Allow     bool
	Protocol  int // -1 is any
	Sources   PortSet
	Targets   PortSet
	From, To  Side
}

type portRange struct{ First, Last int }

// PortSet is a list of ranges; nil is every port.
type PortSet []portRange

// Has reports whether a port is one of them.
func (s PortSet) Has(port int) bool {
	return s == nil || slices.ContainsFunc(s, func(r portRange) bool { return r.First <= port && port <= r.Last })
}

// Side is the source or the destination of a rule: everything, a tag, prefixes or application
// security groups.
type Side struct {
	Any      bool
	Tag      string // lower case
	Word     string // the tag as it was written
	Prefixes []netip.Prefix
	Groups   []string // keys of application security groups
}

var resourceName = regexp.MustCompile(`^[\p{L}\p{N}]([\p{L}\p{N}._-]{0,78}[\p{L}\p{N}_])?$`)

// CheckName refuses a name that no resource of a network may have.
func CheckName(name string) error {
	if !resourceName.MatchString(name) {
		return BadRequest("InvalidResourceName", "Resource name %s is invalid. The name can be up to 80 characters long. It must begin with a word "+
			"character, and it must end with a word character or with '_'. The name may contain word characters or '.', '-', '_'.", name)
	}
	return nil
}

// badFormat is the refusal of a document that does not have the form of its type.
func badFormat(code, message string) *Error {
	e := BadRequest("InvalidRequestFormat", "Cannot parse the request.")
	e.Details = []Detail{{Code: code, Message: message}}
	return e
}

// decode reads a document into its form.
func decode(document, into any) error {
	raw, err := json.Marshal(document)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return badFormat("InvalidJson", "Error converting value: "+err.Error())
	}
	return nil
}

// parseSecurityGroup reads and checks the rules of a group as far as that needs nothing but the
// group.
func parseSecurityGroup(id ID, properties map[string]any) (*SecurityGroup, error) {
	var documents []ruleDocument
	if err := decode(properties["securityRules"], &documents); err != nil {
		return nil, err
	}
	out := &SecurityGroup{}
	names := map[string]bool{}
	type place struct {
		direction string
		priority  int
	}
	places := map[place]string{}
	for i := range documents {
		d := &documents[i]
		if err := CheckName(d.Name); err != nil {
			return nil, err
		}
		if names[strings.ToLower(d.Name)] {
			return nil, badFormat("DuplicateResourceName", "Resource "+id.String()+" has two child resources with the same name ("+d.Name+").")
		}
		names[strings.ToLower(d.Name)] = true
		r, err := d.parse(id.Child("securityRules", d.Name).String())
		if err != nil {
			return nil, err
		}
		other, taken := places[place{r.Direction, r.Priority}]
		for _, name := range defaultNames() {
			if strings.EqualFold(name, d.Name) {
				other, taken = name, true
			}
		}
		if taken {
			return nil, BadRequest("SecurityRuleConflict", "Security rule %s conflicts with rule %s. Rules cannot have the same Priority and Direction. "+
				"To learn more, see aka.ms/nsgrules.", other, d.Name)
		}
		places[place{r.Direction, r.Priority}] = d.Name
		out.Rules = append(out.Rules, r)
	}
	out.Sort()
	return out, nil
}

// Sort brings the rules into the order in which they decide.
func (g *SecurityGroup) Sort() {
	slices.SortFunc(g.Rules, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Priority, b.Priority))
	})
}

// The codes of the rarer refusals below (priority, protocol, access, description) are not
// published; they are named after the known ones.
func (d *ruleDocument) parse(id string) (Rule, error) {
	p := &d.Properties
	r := Rule{Name: d.Name, Priority: p.Priority}
	if p.Priority < 100 || p.Priority > 4096 {
		return r, BadRequest("SecurityRuleInvalidPriority", "Security rule has invalid Priority. Value provided: %d. Allowed range 100-4096.", p.Priority)
	}
	switch strings.ToLower(p.Direction) {
	case "inbound":
		r.Direction = Inbound
	case "outbound":
		r.Direction = Outbound
	default:
		return r, badFormat("InvalidJson", "Error converting value \""+p.Direction+"\" to type SecurityRuleDirection.")
	}
	switch strings.ToLower(p.Access) {
	case "allow":
		r.Allow = true
	case "deny":
	default:
		return r, badFormat("InvalidJson", "Error converting value \""+p.Access+"\" to type SecurityRuleAccess.")
	}
	known := map[string]int{"*": -1, "icmp": 1, "tcp": 6, "udp": 17, "esp": 50, "ah": 51}
	protocol, ok := known[strings.ToLower(p.Protocol)]
	if !ok {
		return r, BadRequest("SecurityRuleInvalidProtocol", "Security rule %s has invalid Protocol. Value provided: %s", id, p.Protocol)
	}
	r.Protocol = protocol
	if len(p.Description) > 140 {
		return r, BadRequest("SecurityRuleInvalidDescription", "Security rule %s has a description of %d characters. At most 140 are allowed.", id, len(p.Description))
	}
	var err error
	if r.Sources, err = parsePorts(id, "SourcePortRange", p.SourcePortRange, p.SourcePortRanges); err != nil {
		return r, err
	}
	if r.Targets, err = parsePorts(id, "DestinationPortRange", p.DestinationPortRange, p.DestinationPortRanges); err != nil {
		return r, err
	}
	if r.From, err = parseSide(id, "SourceAddressPrefix", p.SourceAddressPrefix, p.SourceAddressPrefixes, p.SourceApplicationGroups); err != nil {
		return r, err
	}
	if r.To, err = parseSide(id, "DestinationAddressPrefix", p.DestinationAddressPrefix, p.DestinationAddressPrefixes, p.DestinationApplicationGroups); err != nil {
		return r, err
	}
	both := slices.Concat(r.From.Prefixes, r.To.Prefixes)
	for _, x := range both {
		if x.Addr().Is4() != both[0].Addr().Is4() {
			return r, BadRequest("ResourceCannotContainAddressPrefixesFromDifferentAddressFamilies", "%s contains IP addresses or prefixes that belong "+
				"to different address families. All IP addresses or prefixes in the resource should belong to the same address family.", id)
		}
	}
	return r, nil
}

func parsePorts(id, parameter, one string, many []string) (PortSet, error) {
	invalid := func(value string) error {
		return BadRequest("SecurityRuleParameterContainsInvalidPortRanges", "Security rule parameter %s for rule with Id %s has invalid port ranges. "+
			"Value provided: %s. Value should be an integer OR integer range with '-' delimiter. Valid range 0-65535.", parameter, id, value)
	}
	switch {
	case one != "" && len(many) > 0:
		return nil, BadRequest("SecurityRuleParametersCannotBeSpecifiedTogether", "Security rule %s has values for both %s and %ss.", id, parameter, parameter)
	case one == "*":
		return nil, nil
	case one != "":
		many = []string{one}
	case len(many) == 0:
		return nil, invalid("")
	}
	out := PortSet{}
	for _, text := range many {
		first, last, isRange := strings.Cut(text, "-")
		a, err1 := strconv.Atoi(first)
		b, err2 := a, error(nil)
		if isRange {
			b, err2 = strconv.Atoi(last)
		}
		if err1 != nil || err2 != nil || a < 0 || b > 65535 || a > b {
			return nil, invalid(text)
		}
		for _, other := range out {
			if a <= other.Last && other.First <= b {
				return nil, BadRequest("SecurityRuleParameterContainsOverlappingPortRanges", "Security rule parameter %s for rule with Id %s has overlapping "+
					"port ranges. Value provided: %s.", parameter, id, text)
			}
		}
		out = append(out, portRange{a, b})
	}
	return out, nil
}

func parseSide(id, parameter, one string, many []string, groups []reference) (Side, error) {
	given := 0
	for _, present := range []bool{one != "", len(many) > 0, len(groups) > 0} {
		if present {
			given++
		}
	}
	switch {
	case given > 1:
		return Side{}, BadRequest("SecurityRuleParametersCannotBeSpecifiedTogether", "Security rule %s has values for more than one of %s, %ses and "+
			"application security groups.", id, parameter, parameter)
	case given == 0:
		return Side{}, BadRequest("SecurityRuleInvalidAddressPrefix", "Security rule %s has invalid Address prefix. Value provided: ", id)
	}
	var out Side
	for _, g := range groups {
		ref, ok := ParseID(g.ID)
		if !ok || ref.Type() != TypeASG {
			return Side{}, badFormat("InvalidReference", "The reference "+g.ID+" of "+id+" is not the id of an application security group.")
		}
		if slices.Contains(out.Groups, ref.Key()) {
			return Side{}, badFormat("DuplicateReference", "The reference "+g.ID+" is in "+id+" twice.")
		}
		out.Groups = append(out.Groups, ref.Key())
	}
	if one != "" {
		if one == "*" {
			return Side{Any: true}, nil
		}
		prefix, ok := parsePrefix(one)
		switch {
		case ok:
			out.Prefixes = []netip.Prefix{prefix}
		case knownTag(one):
			out.Tag, out.Word = strings.ToLower(one), one
		default:
			return Side{}, BadRequest("SecurityRuleInvalidAddressPrefix", "Security rule %s has invalid Address prefix. Value provided: %s", id, one)
		}
		return out, nil
	}
	for _, text := range many {
		prefix, ok := parsePrefix(text)
		switch {
		case !ok && (text == "*" || knownTag(text)):
			return Side{}, BadRequest("SecurityRuleParameterContainsUnsupportedValue", "Security rule parameter %s for rule with Id %s cannot specify "+
				"existing VIRTUALNETWORK, INTERNET, AZURELOADBALANCER, '*' or system tags. Unsupported value used: %s.", parameter, id, text)
		case !ok:
			return Side{}, BadRequest("SecurityRuleInvalidAddressPrefix", "Security rule %s has invalid Address prefix. Value provided: %s", id, text)
		}
		out.Prefixes = append(out.Prefixes, prefix)
	}
	if a, b, overlap := overlapping(out.Prefixes); overlap {
		return Side{}, BadRequest("OverlappingSubnetsNotPermittedInSecurityRule", "Security rule parameter %s for rule with Id %s cannot specify overlapping "+
			"subnets. Overlapping subnets: %s, %s.", parameter, id, a, b)
	}
	return out, nil
}

// overlapping finds two prefixes that overlap.
func overlapping(all []netip.Prefix) (a, b netip.Prefix, found bool) {
	sorted := slices.SortedFunc(slices.Values(all), func(x, y netip.Prefix) int {
		return cmp.Or(x.Addr().Compare(y.Addr()), cmp.Compare(x.Bits(), y.Bits()))
	})
	for i := 1; i < len(sorted); i++ {
		if sorted[i-1].Overlaps(sorted[i]) {
			return sorted[i-1], sorted[i], true
		}
	}
	return a, b, false
}

// parsePrefix reads an address or a block without bits behind its mask.
func parsePrefix(text string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), a.Zone() == "" && !a.Is4In6()
	}
	p, err := netip.ParsePrefix(text)
	return p, err == nil && p == p.Masked() && !p.Addr().Is4In6()
}

// serviceTag is the form of a service tag: a name, perhaps with a region.
var serviceTag = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)?$`)

// serviceTags are tags of services that rules are known to use. It is never written to.
var serviceTags = []string{
	"virtualnetwork", "internet", "azureloadbalancer", "azurecloud", "azuretrafficmanager", "storage", "sql", "sqlmanagement", "azurecosmosdb",
	"azurekeyvault", "eventhub", "servicebus", "azurecontainerregistry", "microsoftcontainerregistry", "appservice", "appservicemanagement",
	"apimanagement", "azureconnectors", "gatewaymanager", "azuredatalake", "azureactivedirectory", "azuremonitor", "servicefabric",
	"azuremachinelearning", "batchnodemanagement", "azurebackup", "azureactivedirectorydomainservices", "azurefrontdoor", "azuredevops",
	"azureresourcemanager", "azureplatformdns", "azureplatformimds", "azureplatformlkm", "corpnetpublic", "corpnetsaw", "actiongroup", "azuresiterecovery",
	"guestandhybridmanagement", "logicapps", "hdinsight", "datafactory", "cognitiveservicesmanagement", "azurebastion", "windowsvirtualdesktop",
}

func knownTag(text string) bool {
	if !serviceTag.MatchString(text) {
		return false
	}
	name, _, _ := strings.Cut(strings.ToLower(text), ".")
	return slices.Contains(serviceTags, name)
}

func defaultNames() []string {
	return []string{"AllowVnetInBound", "AllowAzureLoadBalancerInBound", "DenyAllInBound", "AllowVnetOutBound", "AllowInternetOutBound", "DenyAllOutBound"}
}

// DefaultRules are the rules that every group ends in. They are not to be changed.
func DefaultRules() []Rule { return defaultRules }

var defaultRules = func() []Rule {
	words := map[string]string{TagVirtualNetwork: "VirtualNetwork", TagInternet: "Internet", TagLoadBalancer: "AzureLoadBalancer"}
	tag := func(t string) Side { return Side{Tag: t, Word: words[t]} }
	every := Side{Any: true, Word: "*"}
	return []Rule{
		{Name: "AllowVnetInBound", Direction: Inbound, Priority: 65000, Allow: true, Protocol: -1, From: tag(TagVirtualNetwork), To: tag(TagVirtualNetwork)},
		{Name: "AllowAzureLoadBalancerInBound", Direction: Inbound, Priority: 65001, Allow: true, Protocol: -1, From: tag(TagLoadBalancer), To: every},
		{Name: "DenyAllInBound", Direction: Inbound, Priority: 65500, Protocol: -1, From: every, To: every},
		{Name: "AllowVnetOutBound", Direction: Outbound, Priority: 65000, Allow: true, Protocol: -1, From: tag(TagVirtualNetwork), To: tag(TagVirtualNetwork)},
		{Name: "AllowInternetOutBound", Direction: Outbound, Priority: 65001, Allow: true, Protocol: -1, From: every, To: tag(TagInternet)},
		{Name: "DenyAllOutBound", Direction: Outbound, Priority: 65500, Protocol: -1, From: every, To: every},
	}
}()

// DefaultRuleDocuments are the default rules as a group shows them.
func DefaultRuleDocuments(id ID, etag string) []any {
	describe := map[string]string{
		"AllowVnetInBound": "Allow inbound traffic from all VMs in VNET", "AllowAzureLoadBalancerInBound": "Allow inbound traffic from azure load balancer",
		"DenyAllInBound": "Deny all inbound traffic", "AllowVnetOutBound": "Allow outbound traffic from all VMs to all VMs in VNET",
		"AllowInternetOutBound": "Allow outbound traffic from all VMs to Internet", "DenyAllOutBound": "Deny all outbound traffic",
	}
	var out []any
	for _, r := range DefaultRules() {
		access := "Deny"
		if r.Allow {
			access = "Allow"
		}
		out = append(out, map[string]any{
			"name": r.Name, "id": id.Child("defaultSecurityRules", r.Name).String(), "etag": etag,
			"type": "Microsoft.Network/networkSecurityGroups/defaultSecurityRules",
			"properties": map[string]any{
				"provisioningState": Succeeded, "description": describe[r.Name], "protocol": "*", "sourcePortRange": "*", "destinationPortRange": "*",
				"sourceAddressPrefix": r.From.Word, "destinationAddressPrefix": r.To.Word, "access": access, "priority": float64(r.Priority),
				"direction": r.Direction, "sourcePortRanges": []any{}, "destinationPortRanges": []any{}, "sourceAddressPrefixes": []any{},
				"destinationAddressPrefixes": []any{},
			},
		})
	}
	return out
}

// IsDefaultRule reports whether a name is that of a rule that every security group has.
func IsDefaultRule(name string) bool {
	return slices.ContainsFunc(DefaultRules(), func(r Rule) bool { return r.Name == name })
}
