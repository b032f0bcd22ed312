package azure

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// EffectiveGroup is a security group that filters an interface, with its rules as they work there.
//
// The form is that of
// https://learn.microsoft.com/rest/api/virtualnetwork/network-interfaces/list-effective-network-security-groups
// with the values seen in
// https://learn.microsoft.com/azure/network-watcher/diagnose-vm-network-traffic-filtering-problem-cli.
// Nothing there says how a side that names application security groups is shown: here it is the
// addresses of their members.
type EffectiveGroup struct {
	Group       Reference       `json:"networkSecurityGroup"`
	Association Association     `json:"association"`
	Rules       []EffectiveRule `json:"effectiveSecurityRules"`
}

// Reference names a resource.
type Reference struct {
	ID string `json:"id"`
}

// Association is by what a group filters an interface.
type Association struct {
	Subnet    *Reference `json:"subnet,omitempty"`
	Interface *Reference `json:"networkInterface,omitempty"`
}

// EffectiveRule is a rule with its tags written out.
type EffectiveRule struct {
	Name                string   `json:"name"`
	Protocol            string   `json:"protocol"`
	SourcePorts         string   `json:"sourcePortRange,omitempty"`
	SourcePortRanges    []string `json:"sourcePortRanges"`
	TargetPorts         string   `json:"destinationPortRange,omitempty"`
	TargetPortRanges    []string `json:"destinationPortRanges"`
	Source              string   `json:"sourceAddressPrefix,omitempty"`
	Sources             []string `json:"sourceAddressPrefixes"`
	Destination         string   `json:"destinationAddressPrefix,omitempty"`
	Destinations        []string `json:"destinationAddressPrefixes"`
	ExpandedSource      []string `json:"expandedSourceAddressPrefix"`
	ExpandedDestination []string `json:"expandedDestinationAddressPrefix"`
	Access              string   `json:"access"`
	Priority            int      `json:"priority"`
	Direction           string   `json:"direction"`
}

// EffectiveGroups are the groups that filter an interface: the groups of its subnets, and its own.
// The virtual machine that has it must run. It is a read.
func (c Verdicts) EffectiveGroups(by *Principal, id document.ID) ([]EffectiveGroup, error) {
	if err := access(c).admit(by, "Microsoft.Network/networkInterfaces/effectiveNetworkSecurityGroups/action", id); err != nil {
		return nil, err
	}
	r := c.cloud.resources[id.Key()]
	if r == nil {
		return nil, document.NotFound(id)
	}
	n, ok := r.parsed.(*document.NIC)
	if !ok {
		return nil, document.NotFound(id)
	}
	if m := c.cloud.resources[document.Key(c.cloud.now().machineOf[id.Key()])]; m == nil || m.Power != "running" {
		// The pages about diagnosis say that the machine must run, not which code this has.
		return nil, document.Refuse(http.StatusBadRequest, "NicMustBeAttachedToRunningVm", "The network interface %s must be attached to a virtual machine that runs, to tell its effective security groups.", r.ID)
	}
	var out []EffectiveGroup
	var seen []string
	for i := range n.Configurations {
		at := located{r, n, &n.Configurations[i]}
		subnet, ok := document.ParseID(at.at.Subnet)
		if g := c.groupOfSubnet(at); ok && g != "" && !slices.Contains(seen, at.at.Subnet) {
			seen = append(seen, at.at.Subnet)
			whole := c.cloud.resources[subnet.Parent().Key()].id.Child("subnets", checks(c).subnetOf(at.at.Subnet).Name)
			out = append(out, reading{c.cloud, at}.group(g, Association{Subnet: &Reference{whole.String()}}))
		}
	}
	if n.NSG != "" && len(n.Configurations) > 0 {
		out = append(out, reading{c.cloud, located{r, n, &n.Configurations[0]}}.group(n.NSG, Association{Interface: &Reference{r.ID}}))
	}
	return out, nil
}

// reading reads rules as they work at an interface.
type reading struct {
	cloud *Cloud
	own   located
}

// group is a group as it works there.
func (x reading) group(key string, by Association) EffectiveGroup {
	c := x.cloud
	r := c.resources[key]
	out := EffectiveGroup{Group: Reference{r.ID}, Association: by}
	s := c.subscriptions[strings.ToLower(r.id.Subscription)]
	voids := s != nil && s.EmptyGroupsVoidRules
	own := r.parsed.(*document.SecurityGroup).Rules
	for i, given := range slices.Concat(own, document.DefaultRules()) {
		if voids && (c.Verdicts().void(&given.From) || c.Verdicts().void(&given.To)) {
			continue
		}
		e := EffectiveRule{Name: "securityRules/" + given.Name, Protocol: protocolWord(given.Protocol), Access: "Deny", Priority: given.Priority, Direction: given.Direction}
		if i >= len(own) {
			e.Name = "defaultSecurityRules/" + given.Name
		}
		if given.Allow {
			e.Access = "Allow"
		}
		e.SourcePorts, e.SourcePortRanges = portWords(given.Sources)
		e.TargetPorts, e.TargetPortRanges = portWords(given.Targets)
		e.Source, e.Sources, e.ExpandedSource = x.side(given.From)
		e.Destination, e.Destinations, e.ExpandedDestination = x.side(given.To)
		out.Rules = append(out.Rules, e)
	}
	return out
}

func protocolWord(p int) string {
	return map[int]string{-1: "All", 1: "Icmp", 6: "Tcp", 17: "Udp", 50: "Esp", 51: "Ah"}[p]
}

// portWords are ports as effective rules have them: one range alone, and all of them.
func portWords(s document.PortSet) (one string, all []string) {
	if s == nil {
		s = document.PortSet{{First: 0, Last: 65535}}
	}
	for _, r := range s {
		all = append(all, fmt.Sprintf("%d-%d", r.First, r.Last))
	}
	if len(all) == 1 {
		one = all[0]
	}
	return one, all
}

// side is the addresses of a side: one prefix or tag alone, all, and what a tag means there.
func (x reading) side(s document.Side) (one string, all, expanded []string) {
	words := func(list []netip.Prefix) (out []string) {
		for _, p := range list {
			out = append(out, p.String())
		}
		return out
	}
	switch {
	case s.Any:
		return "0.0.0.0/0", []string{"0.0.0.0/0"}, nil
	case len(s.Groups) > 0:
		for _, g := range s.Groups {
			for _, m := range x.cloud.now().members[g] {
				all = append(all, netip.PrefixFrom(m.at.Addr, m.at.Addr.BitLen()).String())
			}
		}
	case s.Tag != "":
		return s.Word, []string{s.Word}, words(x.tag(s.Tag))
	default:
		all = words(s.Prefixes)
	}
	if len(all) == 1 {
		one = all[0]
	}
	return one, all, nil
}

// tag is the blocks that a tag means there.
func (x reading) tag(tag string) []netip.Prefix {
	alone := func(a netip.Addr) []netip.Prefix { return []netip.Prefix{netip.PrefixFrom(a, a.BitLen())} }
	switch tag {
	case document.TagVirtualNetwork:
		var out []netip.Prefix
		for p := range x.cloud.Verdicts().virtualNetwork(x.own) {
			if !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
		return out
	case document.TagInternet:
		var inside []netip.Prefix
		for p, isDefault := range x.cloud.Verdicts().virtualNetwork(x.own) {
			if !isDefault {
				inside = append(inside, p)
			}
		}
		return append(without(netip.PrefixFrom(netip.IPv4Unspecified(), 0), inside), without(netip.PrefixFrom(netip.IPv6Unspecified(), 0), inside)...)
	case document.TagLoadBalancer, "azureplatformdns", "azureplatformlkm":
		return alone(hostAddress)
	case "azureplatformimds":
		return alone(metadataAddress)
	}
	return x.cloud.serviceTags[tag]
}

// without is a block less others.
func without(p netip.Prefix, others []netip.Prefix) []netip.Prefix {
	var within []netip.Prefix
	for _, o := range others {
		switch {
		case !o.Overlaps(p):
		case o.Bits() <= p.Bits():
			return nil
		default:
			within = append(within, o)
		}
	}
	if len(within) == 0 {
		return []netip.Prefix{p}
	}
	low := netip.PrefixFrom(p.Addr(), p.Bits()+1)
	bytes := p.Addr().AsSlice()
	bytes[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	high, _ := netip.AddrFromSlice(bytes)
	return append(without(low, within), without(netip.PrefixFrom(high, p.Bits()+1), within)...)
}
