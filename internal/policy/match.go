package policy

import (
	"net/netip"
	"slices"
)

// match is the result of holding a rule against a flow.
type match uint8

const (
	matchNo match = iota
	matchMaybe
	matchYes
)

// matches holds a rule against the flow of the walk.
func (v *Evaluator) matches(w *walk, r *ComputedRule) match {
	peer := &r.From
	if r.Direction == Egress {
		peer = &r.To
	}
	remote := v.remoteMembers(w.remote, peer)
	ports := w.members
	if r.Direction == Egress {
		ports = remote
	}
	if !servicesMatch(w.flow, r.Services, ports) {
		return matchNo
	}
	if len(remote) > 0 || inBlocks(w.remote.Addr, peer.IPBlocks) {
		return matchYes
	}
	if len(peer.FQDNs)+len(peer.ToServices) > 0 {
		return matchMaybe
	}
	return matchNo
}

// remoteMembers returns the members of the peer's address groups that the endpoint is.
func (v *Evaluator) remoteMembers(remote *Endpoint, peer *ComputedPeer) []*Member {
	var out []*Member
	for _, name := range peer.AddressGroups {
		if remote.Addr.IsValid() {
			out = append(out, v.byAddress[name][remote.Addr]...)
		} else if m := v.byRef[name][remote.EntityRef]; m != nil {
			out = append(out, m)
		}
	}
	return out
}

// inBlocks reports whether a block, less its exceptions, contains the address.
func inBlocks(a netip.Addr, blocks []CIDRBlock) bool {
	contains := func(p netip.Prefix) bool { return p.Contains(a) }
	return a.IsValid() && slices.ContainsFunc(blocks, func(b CIDRBlock) bool {
		return contains(b.CIDR) && !slices.ContainsFunc(b.Except, contains)
	})
}

// servicesMatch reports whether any of the services matches; none at all match everything. Named ports are looked up in
// the given members.
func servicesMatch(f *Flow, services []ServiceMatch, named []*Member) bool {
	if len(services) == 0 {
		return true
	}
	return slices.ContainsFunc(services, func(s ServiceMatch) bool { return serviceMatches(f, &s, named) })
}

func serviceMatches(f *Flow, s *ServiceMatch, named []*Member) bool {
	if s.Protocol != f.Protocol && (s.Protocol != "" || f.Protocol == ICMP || f.Protocol == IGMP) {
		return false
	}
	octet := func(want *int32, got uint8) bool { return want == nil || *want == int32(got) }
	switch f.Protocol {
	case ICMP:
		return octet(s.ICMPType, f.ICMPType) && octet(s.ICMPCode, f.ICMPCode)
	case IGMP:
		if s.GroupAddress != "" {
			if group, err := netip.ParseAddr(s.GroupAddress); err != nil || group.Unmap() != f.Destination.Addr {
				return false
			}
		}
		return octet(s.IGMPType, f.IGMPType)
	}
	if s.SrcPort != nil && !inRange(f.SourcePort, *s.SrcPort, s.SrcEndPort) {
		return false
	}
	switch {
	case s.Port == nil:
		return true
	case s.Port.Name == "":
		return inRange(f.Port, s.Port.Number, s.EndPort)
	}
	for _, m := range named {
		for _, p := range m.Ports {
			if p.Name == s.Port.Name && p.Protocol == f.Protocol && p.Port == int32(f.Port) {
				return true
			}
		}
	}
	return false
}

// inRange reports whether the port is in first..last; a nil last means first alone.
func inRange(port uint16, first int32, last *int32) bool {
	if last == nil {
		return int32(port) == first
	}
	return int32(port) >= first && int32(port) <= *last
}
