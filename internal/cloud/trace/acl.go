package trace

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Borders are the network ACLs of subnets, by the ids of these. A subnet that is not named has none
// that is known.
type Borders map[string]*cloud.NetworkACL

// BordersOf arranges network ACLs.
func BordersOf(all []cloud.NetworkACL) Borders {
	out := Borders{}
	for i := range all {
		for _, s := range all[i].SubnetIDs {
			out[s] = &all[i]
		}
	}
	return out
}

// Crossing is what a network ACL says to a packet, or to the answer to it.
type Crossing struct {
	ACL    *cloud.NetworkACL
	Subnet string
	// Entry is the one that decides; nil if none matches, and the end of the ACL denies.
	Entry *cloud.ACLEntry
	// Egress tells the direction at the subnet.
	Egress bool
	// Answer tells that the packet itself gets through, and that this is about what comes back.
	Answer bool
	// Allowed is what it says. Where Unsure is true, that depends on what is not known, and Allowed
	// is false.
	Allowed, Unsure bool
}

// answerPort is used for the ports that answers go to: the ports that a system takes for its own
// end of a connection.
const answerPort = 49152

// Crosses follows the first packet of a connection, and the answer to it, through the network ACLs
// of both subnets, as far as they and the addresses are known. The list ends with the first one
// that denies.
func (b Borders) Crosses(src, dst Point, p Path, s flow.Service) []Crossing {
	if p.Way == WayItself {
		return nil
	}
	within := src.Interface != nil && dst.Interface != nil && src.Interface.SubnetID == dst.Interface.SubnetID && p.Way != WayInternet
	back, answered := answer(s)
	var out []Crossing
	for _, leg := range []struct {
		self   Point
		other  netip.Addr
		egress bool
		s      flow.Service
		asked  bool
		answer bool
	}{
		{src, p.SeenDestination, true, s, true, false}, {dst, p.SeenSource, false, s, true, false},
		{dst, p.SeenSource, true, back, answered, true}, {src, p.SeenDestination, false, back, answered, true},
	} {
		if !leg.asked || leg.self.Interface == nil {
			continue
		}
		acl := b[leg.self.Interface.SubnetID]
		if acl == nil || acl.Stateful && leg.answer || !acl.Stateful && (within || !leg.other.IsValid()) {
			continue
		}
		c := Crossing{ACL: acl, Subnet: leg.self.Interface.SubnetID, Egress: leg.egress, Answer: leg.answer}
		c.Entry, c.Allowed, c.Unsure = decides(acl, leg.egress, leg.self.Addr, leg.other, leg.s)
		out = append(out, c)
		if !c.Allowed && !c.Unsure {
			break
		}
	}
	return out
}

// answer is what comes back; false where nothing does.
func answer(s flow.Service) (flow.Service, bool) {
	const request, reply, request6, reply6 = 8 << 8, 0, 128 << 8, 129 << 8
	switch {
	case s.Protocol == cloud.ICMP && s.From == request:
		s.From, s.To = reply, reply
	case s.Protocol == cloud.ICMPv6 && s.From == request6:
		s.From, s.To = reply6, reply6
	case s.Protocol == cloud.ICMP || s.Protocol == cloud.ICMPv6:
		return s, false
	case s.Protocol == cloud.TCP || s.Protocol == cloud.UDP:
		s.From, s.To = answerPort, answerPort
	}
	return s, true
}

// decides finds the first entry that matches a single service between an address of the subnet and
// another one. Where one before it may match, and would say otherwise, the answer is not sure, and
// the entry is that one.
func decides(acl *cloud.NetworkACL, egress bool, own, other netip.Addr, s flow.Service) (entry *cloud.ACLEntry, allowed, unsure bool) {
	var doubtful []*cloud.ACLEntry
	for _, e := range inOrder(acl.Entries, egress) {
		m := concerns(e, own, other, s)
		if m == perhaps {
			doubtful = append(doubtful, e)
		}
		if m == yes {
			entry, allowed = e, e.Allow
			break
		}
	}
	for _, e := range doubtful {
		if e.Allow != allowed {
			return e, false, true
		}
	}
	return entry, allowed, false
}

// inOrder are the entries of a direction in the order in which they are asked.
func inOrder(all []cloud.ACLEntry, egress bool) []*cloud.ACLEntry {
	var out []*cloud.ACLEntry
	for i := range all {
		if all[i].Egress == egress {
			out = append(out, &all[i])
		}
	}
	slices.SortStableFunc(out, func(a, b *cloud.ACLEntry) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

// concerns reports whether an entry is about a packet.
func concerns(e *cloud.ACLEntry, own, other netip.Addr, s flow.Service) match {
	if !about(*e, s) {
		return no
	}
	out := yes
	if e.Peers != nil {
		out = amid(other, e.Peers)
	}
	if e.Own != nil {
		out = min(out, amid(own, e.Own))
	}
	if e.Unsure {
		out = min(out, perhaps)
	}
	return out
}

// amid reports whether an address is in one of the blocks; perhaps, if it is not known.
func amid(a netip.Addr, blocks []netip.Prefix) match {
	switch {
	case !a.IsValid():
		return perhaps
	case slices.ContainsFunc(blocks, func(b netip.Prefix) bool { return b.Contains(a) }):
		return yes
	}
	return no
}

func about(e cloud.ACLEntry, s flow.Service) bool {
	switch {
	case e.Protocol == cloud.AnyProtocol:
		return true
	case e.Protocol != s.Protocol:
		return false
	case s.Protocol == cloud.TCP || s.Protocol == cloud.UDP:
		return e.From <= int(s.From) && int(s.From) <= e.To
	case s.Protocol == cloud.ICMP || s.Protocol == cloud.ICMPv6:
		return (e.From == -1 || e.From == int(s.From>>8)) && (e.To == -1 || e.To == int(s.From&0xff))
	}
	return true
}
