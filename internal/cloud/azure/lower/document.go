package lower

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Document is a rule of a network security group as Azure's JSON has it.
type Document struct {
	Name       string     `json:"name"`
	Properties Properties `json:"properties"`
}

// Properties are what a rule says.
type Properties struct {
	Description        string      `json:"description,omitempty"`
	Protocol           string      `json:"protocol"`
	Access             string      `json:"access"`
	Direction          string      `json:"direction"`
	Priority           int         `json:"priority"`
	SourcePort         string      `json:"sourcePortRange,omitempty"`
	SourcePorts        []string    `json:"sourcePortRanges,omitempty"`
	DestinationPort    string      `json:"destinationPortRange,omitempty"`
	DestinationPorts   []string    `json:"destinationPortRanges,omitempty"`
	Source             string      `json:"sourceAddressPrefix,omitempty"`
	Sources            []string    `json:"sourceAddressPrefixes,omitempty"`
	Destination        string      `json:"destinationAddressPrefix,omitempty"`
	Destinations       []string    `json:"destinationAddressPrefixes,omitempty"`
	SourceGroups       []Reference `json:"sourceApplicationSecurityGroups,omitempty"`
	DestinationsGroups []Reference `json:"destinationApplicationSecurityGroups,omitempty"`
}

// Reference names a resource.
type Reference struct {
	ID string `json:"id"`
}

// The words of rules.
const (
	inbound, outbound = "Inbound", "Outbound"
	allow, deny       = "Allow", "Deny"
	star              = "*"

	tagNetwork  = "virtualnetwork"
	tagInternet = "internet"
	tagBalancer = "azureloadbalancer"
)

// PlatformAddress is that of the load balancer's probes.
var PlatformAddress = netip.MustParsePrefix("168.63.129.16/32")

// side is the source or the destination of a rule: everything, prefixes, application security
// groups or one tag.
type side struct {
	any      bool
	tag      string
	prefixes []netip.Prefix
	groups   []string
	bad      bool
}

func sideOf(one string, many []string, groups []Reference) side {
	var out side
	for _, g := range groups {
		out.groups = append(out.groups, strings.ToLower(g.ID))
	}
	slices.Sort(out.groups)
	texts := slices.Clone(many)
	if one != "" {
		texts = append(texts, one)
	}
	for _, text := range texts {
		if text == star {
			return side{any: true}
		}
		if a, err := netip.ParseAddr(text); err == nil {
			out.prefixes = append(out.prefixes, netip.PrefixFrom(a, a.BitLen()))
		} else if p, err := netip.ParsePrefix(text); err == nil {
			out.prefixes = append(out.prefixes, p.Masked())
		} else {
			out.tag = text
		}
	}
	kinds := 0
	for _, there := range []bool{out.tag != "", len(out.prefixes) > 0, len(out.groups) > 0} {
		if there {
			kinds++
		}
	}
	out.bad = kinds != 1 || out.tag != "" && len(texts) > 1
	return out
}

// ports is a list of ranges; all means every port.
type ports struct {
	all    bool
	ranges [][2]int
	bad    bool
}

func portsOf(one string, many []string) ports {
	texts := slices.Clone(many)
	if one != "" {
		texts = append(texts, one)
	}
	var out ports
	for _, text := range texts {
		if text == star {
			return ports{all: true}
		}
		from, to, isRange := strings.Cut(text, "-")
		if !isRange {
			to = from
		}
		a, errA := strconv.Atoi(strings.TrimSpace(from))
		b, errB := strconv.Atoi(strings.TrimSpace(to))
		if errA != nil || errB != nil || a < 0 || b > 0xffff || a > b {
			return ports{bad: true}
		}
		out.ranges = append(out.ranges, [2]int{a, b})
	}
	if len(out.ranges) == 0 {
		return ports{all: true}
	}
	out.all = len(out.ranges) == 1 && out.ranges[0] == [2]int{0, 0xffff}
	return out
}

// parsed is a rule made ready.
type parsed struct {
	name, description string
	direction         cloud.Direction
	priority          int
	allow, bad        bool
	protocols         []int
	sources, ports    ports
	own, peer         side
}

// protocolsOf returns the numbers that a word means; none for an unknown word. ICMP means ICMP of
// both families.
func protocolsOf(word string) []int {
	switch strings.ToLower(word) {
	case star:
		return []int{cloud.AnyProtocol}
	case "tcp":
		return []int{cloud.TCP}
	case "udp":
		return []int{cloud.UDP}
	case "icmp":
		return []int{cloud.ICMP, cloud.ICMPv6}
	case "esp":
		return []int{protocolESP}
	case "ah":
		return []int{protocolAH}
	}
	return nil
}

const (
	protocolESP = 50
	protocolAH  = 51
)

func parse(d Document) parsed {
	p := d.Properties
	out := parsed{
		name: d.Name, description: p.Description, priority: p.Priority, allow: strings.EqualFold(p.Access, allow), protocols: protocolsOf(p.Protocol),
		sources: portsOf(p.SourcePort, p.SourcePorts), ports: portsOf(p.DestinationPort, p.DestinationPorts),
	}
	from, to := sideOf(p.Source, p.Sources, p.SourceGroups), sideOf(p.Destination, p.Destinations, p.DestinationsGroups)
	if strings.EqualFold(p.Direction, outbound) {
		out.direction, out.own, out.peer = cloud.Egress, from, to
	} else {
		out.direction, out.own, out.peer = cloud.Ingress, to, from
	}
	out.bad = len(out.protocols) == 0 || out.sources.bad || out.ports.bad || from.bad || to.bad || !out.allow && !strings.EqualFold(p.Access, deny)
	return out
}

// ordered are the rules of a direction in the order in which they are asked.
func ordered(all []Document, d cloud.Direction) []parsed {
	var out []parsed
	for i := range all {
		if r := parse(all[i]); r.direction == d {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b parsed) int { return cmp.Compare(a.priority, b.priority) })
	return out
}

// defaults are the rules that every group ends with.
func defaults(d cloud.Direction) []parsed {
	rule := func(name string, permits bool, own, peer side) parsed {
		return parsed{name: name, direction: d, allow: permits, protocols: []int{cloud.AnyProtocol}, sources: ports{all: true}, ports: ports{all: true}, own: own, peer: peer}
	}
	any := side{any: true}
	network := side{tag: tagNetwork}
	if d == cloud.Ingress {
		return []parsed{
			rule("AllowVnetInBound", true, network, network), rule("AllowAzureLoadBalancerInBound", true, any, side{tag: tagBalancer}), rule("DenyAllInBound", false, any, any),
		}
	}
	return []parsed{
		rule("AllowVnetOutBound", true, network, network), rule("AllowInternetOutBound", true, any, side{tag: tagInternet}), rule("DenyAllOutBound", false, any, any),
	}
}
