package azure

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
	inbound  = "Inbound"
	outbound = "Outbound"
)

// The words of rules that stand for many addresses.
const (
	tagVirtualNetwork = "virtualnetwork"
	tagInternet       = "internet"
	tagLoadBalancer   = "azureloadbalancer"
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

// securityGroup is a network security group made ready to decide.
type securityGroup struct {
	rules []rule // by direction, then by priority
}

// rule is one rule made ready.
type rule struct {
	name      string
	direction string
	priority  int
	allow     bool
	protocol  int // -1 is any
	sources   portSet
	targets   portSet
	from, to  side
}

type portRange struct{ first, last int }

// portSet is a list of ranges; nil is every port.
type portSet []portRange

func (s portSet) has(port int) bool {
	return s == nil || slices.ContainsFunc(s, func(r portRange) bool { return r.first <= port && port <= r.last })
}

// side is the source or the destination of a rule: everything, a tag, prefixes or application
// security groups.
type side struct {
	any      bool
	tag      string // lower case
	word     string // the tag as it was written
	prefixes []netip.Prefix
	groups   []string // keys of application security groups
}

var resourceName = regexp.MustCompile(`^[\p{L}\p{N}]([\p{L}\p{N}._-]{0,78}[\p{L}\p{N}_])?$`)

func checkName(name string) error {
	if !resourceName.MatchString(name) {
		return bad("InvalidResourceName", "Resource name %s is invalid. The name can be up to 80 characters long. It must begin with a word "+
			"character, and it must end with a word character or with '_'. The name may contain word characters or '.', '-', '_'.", name)
	}
	return nil
}

// badFormat is the refusal of a document that does not have the form of its type.
func badFormat(code, message string) *Error {
	e := bad("InvalidRequestFormat", "Cannot parse the request.")
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
func parseSecurityGroup(id ID, properties map[string]any) (*securityGroup, error) {
	var documents []ruleDocument
	if err := decode(properties["securityRules"], &documents); err != nil {
		return nil, err
	}
	out := &securityGroup{}
	names := map[string]bool{}
	type place struct {
		direction string
		priority  int
	}
	places := map[place]string{}
	for i := range documents {
		d := &documents[i]
		if err := checkName(d.Name); err != nil {
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
		other, taken := places[place{r.direction, r.priority}]
		for _, name := range defaultNames() {
			if strings.EqualFold(name, d.Name) {
				other, taken = name, true
			}
		}
		if taken {
			return nil, bad("SecurityRuleConflict", "Security rule %s conflicts with rule %s. Rules cannot have the same Priority and Direction. "+
				"To learn more, see aka.ms/nsgrules.", other, d.Name)
		}
		places[place{r.direction, r.priority}] = d.Name
		out.rules = append(out.rules, r)
	}
	out.sort()
	return out, nil
}

// sort brings the rules into the order in which they decide.
func (g *securityGroup) sort() {
	slices.SortFunc(g.rules, func(a, b rule) int {
		return cmp.Or(cmp.Compare(a.direction, b.direction), cmp.Compare(a.priority, b.priority))
	})
}

// The codes of the rarer refusals below (priority, protocol, access, description) are not
// published; they are named after the known ones.
func (d *ruleDocument) parse(id string) (rule, error) {
	p := &d.Properties
	r := rule{name: d.Name, priority: p.Priority}
	if p.Priority < 100 || p.Priority > 4096 {
		return r, bad("SecurityRuleInvalidPriority", "Security rule has invalid Priority. Value provided: %d. Allowed range 100-4096.", p.Priority)
	}
	switch strings.ToLower(p.Direction) {
	case "inbound":
		r.direction = inbound
	case "outbound":
		r.direction = outbound
	default:
		return r, badFormat("InvalidJson", "Error converting value \""+p.Direction+"\" to type SecurityRuleDirection.")
	}
	switch strings.ToLower(p.Access) {
	case "allow":
		r.allow = true
	case "deny":
	default:
		return r, badFormat("InvalidJson", "Error converting value \""+p.Access+"\" to type SecurityRuleAccess.")
	}
	known := map[string]int{"*": -1, "icmp": 1, "tcp": 6, "udp": 17, "esp": 50, "ah": 51}
	protocol, ok := known[strings.ToLower(p.Protocol)]
	if !ok {
		return r, bad("SecurityRuleInvalidProtocol", "Security rule %s has invalid Protocol. Value provided: %s", id, p.Protocol)
	}
	r.protocol = protocol
	if len(p.Description) > 140 {
		return r, bad("SecurityRuleInvalidDescription", "Security rule %s has a description of %d characters. At most 140 are allowed.", id, len(p.Description))
	}
	var err error
	if r.sources, err = parsePorts(id, "SourcePortRange", p.SourcePortRange, p.SourcePortRanges); err != nil {
		return r, err
	}
	if r.targets, err = parsePorts(id, "DestinationPortRange", p.DestinationPortRange, p.DestinationPortRanges); err != nil {
		return r, err
	}
	if r.from, err = parseSide(id, "SourceAddressPrefix", p.SourceAddressPrefix, p.SourceAddressPrefixes, p.SourceApplicationGroups); err != nil {
		return r, err
	}
	if r.to, err = parseSide(id, "DestinationAddressPrefix", p.DestinationAddressPrefix, p.DestinationAddressPrefixes, p.DestinationApplicationGroups); err != nil {
		return r, err
	}
	both := slices.Concat(r.from.prefixes, r.to.prefixes)
	for _, x := range both {
		if x.Addr().Is4() != both[0].Addr().Is4() {
			return r, bad("ResourceCannotContainAddressPrefixesFromDifferentAddressFamilies", "%s contains IP addresses or prefixes that belong "+
				"to different address families. All IP addresses or prefixes in the resource should belong to the same address family.", id)
		}
	}
	return r, nil
}

func parsePorts(id, parameter, one string, many []string) (portSet, error) {
	invalid := func(value string) error {
		return bad("SecurityRuleParameterContainsInvalidPortRanges", "Security rule parameter %s for rule with Id %s has invalid port ranges. "+
			"Value provided: %s. Value should be an integer OR integer range with '-' delimiter. Valid range 0-65535.", parameter, id, value)
	}
	switch {
	case one != "" && len(many) > 0:
		return nil, bad("SecurityRuleParametersCannotBeSpecifiedTogether", "Security rule %s has values for both %s and %ss.", id, parameter, parameter)
	case one == "*":
		return nil, nil
	case one != "":
		many = []string{one}
	case len(many) == 0:
		return nil, invalid("")
	}
	out := portSet{}
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
			if a <= other.last && other.first <= b {
				return nil, bad("SecurityRuleParameterContainsOverlappingPortRanges", "Security rule parameter %s for rule with Id %s has overlapping "+
					"port ranges. Value provided: %s.", parameter, id, text)
			}
		}
		out = append(out, portRange{a, b})
	}
	return out, nil
}

func parseSide(id, parameter, one string, many []string, groups []reference) (side, error) {
	given := 0
	for _, present := range []bool{one != "", len(many) > 0, len(groups) > 0} {
		if present {
			given++
		}
	}
	switch {
	case given > 1:
		return side{}, bad("SecurityRuleParametersCannotBeSpecifiedTogether", "Security rule %s has values for more than one of %s, %ses and "+
			"application security groups.", id, parameter, parameter)
	case given == 0:
		return side{}, bad("SecurityRuleInvalidAddressPrefix", "Security rule %s has invalid Address prefix. Value provided: ", id)
	}
	var out side
	for _, g := range groups {
		ref, ok := ParseID(g.ID)
		if !ok || ref.Type() != typeASG {
			return side{}, badFormat("InvalidReference", "The reference "+g.ID+" of "+id+" is not the id of an application security group.")
		}
		if slices.Contains(out.groups, ref.Key()) {
			return side{}, badFormat("DuplicateReference", "The reference "+g.ID+" is in "+id+" twice.")
		}
		out.groups = append(out.groups, ref.Key())
	}
	if one != "" {
		if one == "*" {
			return side{any: true}, nil
		}
		prefix, ok := parsePrefix(one)
		switch {
		case ok:
			out.prefixes = []netip.Prefix{prefix}
		case knownTag(one):
			out.tag, out.word = strings.ToLower(one), one
		default:
			return side{}, bad("SecurityRuleInvalidAddressPrefix", "Security rule %s has invalid Address prefix. Value provided: %s", id, one)
		}
		return out, nil
	}
	for _, text := range many {
		prefix, ok := parsePrefix(text)
		switch {
		case !ok && (text == "*" || knownTag(text)):
			return side{}, bad("SecurityRuleParameterContainsUnsupportedValue", "Security rule parameter %s for rule with Id %s cannot specify "+
				"existing VIRTUALNETWORK, INTERNET, AZURELOADBALANCER, '*' or system tags. Unsupported value used: %s.", parameter, id, text)
		case !ok:
			return side{}, bad("SecurityRuleInvalidAddressPrefix", "Security rule %s has invalid Address prefix. Value provided: %s", id, text)
		}
		out.prefixes = append(out.prefixes, prefix)
	}
	if a, b, overlap := overlapping(out.prefixes); overlap {
		return side{}, bad("OverlappingSubnetsNotPermittedInSecurityRule", "Security rule parameter %s for rule with Id %s cannot specify overlapping "+
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

// defaultRules are the rules that every group ends in.
func defaultRules() []rule {
	words := map[string]string{tagVirtualNetwork: "VirtualNetwork", tagInternet: "Internet", tagLoadBalancer: "AzureLoadBalancer"}
	tag := func(t string) side { return side{tag: t, word: words[t]} }
	every := side{any: true, word: "*"}
	return []rule{
		{name: "AllowVnetInBound", direction: inbound, priority: 65000, allow: true, protocol: -1, from: tag(tagVirtualNetwork), to: tag(tagVirtualNetwork)},
		{name: "AllowAzureLoadBalancerInBound", direction: inbound, priority: 65001, allow: true, protocol: -1, from: tag(tagLoadBalancer), to: every},
		{name: "DenyAllInBound", direction: inbound, priority: 65500, protocol: -1, from: every, to: every},
		{name: "AllowVnetOutBound", direction: outbound, priority: 65000, allow: true, protocol: -1, from: tag(tagVirtualNetwork), to: tag(tagVirtualNetwork)},
		{name: "AllowInternetOutBound", direction: outbound, priority: 65001, allow: true, protocol: -1, from: every, to: tag(tagInternet)},
		{name: "DenyAllOutBound", direction: outbound, priority: 65500, protocol: -1, from: every, to: every},
	}
}

// defaultRuleDocuments are the default rules as a group shows them.
func defaultRuleDocuments(id ID, etag string) []any {
	describe := map[string]string{
		"AllowVnetInBound": "Allow inbound traffic from all VMs in VNET", "AllowAzureLoadBalancerInBound": "Allow inbound traffic from azure load balancer",
		"DenyAllInBound": "Deny all inbound traffic", "AllowVnetOutBound": "Allow outbound traffic from all VMs to all VMs in VNET",
		"AllowInternetOutBound": "Allow outbound traffic from all VMs to Internet", "DenyAllOutBound": "Deny all outbound traffic",
	}
	var out []any
	for _, r := range defaultRules() {
		access := "Deny"
		if r.allow {
			access = "Allow"
		}
		out = append(out, map[string]any{
			"name": r.name, "id": id.Child("defaultSecurityRules", r.name).String(), "etag": etag,
			"type": "Microsoft.Network/networkSecurityGroups/defaultSecurityRules",
			"properties": map[string]any{
				"provisioningState": Succeeded, "description": describe[r.name], "protocol": "*", "sourcePortRange": "*", "destinationPortRange": "*",
				"sourceAddressPrefix": r.from.word, "destinationAddressPrefix": r.to.word, "access": access, "priority": float64(r.priority),
				"direction": r.direction, "sourcePortRanges": []any{}, "destinationPortRanges": []any{}, "sourceAddressPrefixes": []any{},
				"destinationAddressPrefixes": []any{},
			},
		})
	}
	return out
}

// IsDefaultRule reports whether a name is that of a rule that every security group has.
func IsDefaultRule(name string) bool {
	return slices.ContainsFunc(defaultRules(), func(r rule) bool { return r.name == name })
}
