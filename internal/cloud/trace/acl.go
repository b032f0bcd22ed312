package trace

import (
	"net/netip"

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

// Stop says which entry of which network ACL denies a packet, or the answer to it.
type Stop struct {
	ACL, Subnet string
	// Entry is the number of the entry; 0 if no entry matches, and the end of the ACL denies.
	Entry int
	// Egress tells the direction at the subnet.
	Egress bool
	// Answer tells that the packet itself gets through, and what comes back does not.
	Answer bool
}

// answerPort stands for the ports that answers go to: those that a system takes for its own end of
// a connection.
const answerPort = 49152

// Stops follows the first packet of a connection, and the answer to it, through the network ACLs of
// both subnets; nil if they let it through, as far as they and the addresses are known. Within a
// subnet they are not asked.
func (b Borders) Stops(src, dst Point, p Path, s flow.Service) *Stop {
	if p.Way == WayItself || src.Interface != nil && dst.Interface != nil && src.Interface.SubnetID == dst.Interface.SubnetID && p.Way != WayInternet {
		return nil
	}
	back, answered := answer(s)
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
		if !leg.asked || leg.self.Interface == nil || !leg.other.IsValid() {
			continue
		}
		acl := b[leg.self.Interface.SubnetID]
		if acl == nil {
			continue
		}
		if number, allowed := decides(acl, leg.egress, leg.other, leg.s); !allowed {
			return &Stop{ACL: acl.ID, Subnet: leg.self.Interface.SubnetID, Entry: number, Egress: leg.egress, Answer: leg.answer}
		}
	}
	return nil
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

// decides finds the first entry that matches a single service.
func decides(acl *cloud.NetworkACL, egress bool, other netip.Addr, s flow.Service) (number int, allowed bool) {
	for _, e := range acl.Entries {
		if e.Egress == egress && e.CIDR.Contains(other) && about(e, s) && (number == 0 || e.Number < number) {
			number, allowed = e.Number, e.Allow
		}
	}
	return number, allowed
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
