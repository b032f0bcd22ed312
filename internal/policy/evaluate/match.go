package evaluate

import (
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/policy"
)

// match is the result of holding a rule against a flow.
type match uint8

const (
	matchNo match = iota
	matchMaybe
	matchYes
)

// matches holds a rule against the flow of the walk. If it matches only by other entities that have
// the address of the remote end, these are returned as well.
func (v *Evaluator) matches(w *walk, r *policy.ComputedRule) (match, []policy.EntityRef) {
	peer := r.Peer()
	remote := v.remoteMembers(w, &peer)
	itself, others := remote, []policy.EntityRef(nil)
	if w.remote.EntityRef != (policy.EntityRef{}) {
		itself = nil
		for _, m := range remote {
			if m.EntityRef == w.remote.EntityRef {
				itself = append(itself, m)
			} else if !slices.Contains(others, m.EntityRef) {
				others = append(others, m.EntityRef)
			}
		}
	}
	ports := func(remote []*policy.Member) []*policy.Member {
		if r.Direction == policy.Egress {
			return remote
		}
		return w.members
	}
	inside := policy.AnyContains(peer.IPBlocks, w.remote.Addr)
	switch {
	case (len(itself) > 0 || inside) && servicesMatch(w.flow, r.Services, ports(itself)):
		return matchYes, nil
	case v.mayBeUnseen(w, &peer) && (servicesMatch(w.flow, r.Services, ports(remote)) || r.Direction == policy.Egress && namesPorts(r.Services)):
		w.unseen = true
		return matchMaybe, nil
	case !servicesMatch(w.flow, r.Services, ports(remote)):
		return matchNo, nil
	case len(remote) > 0 || inside:
		return matchYes, others
	case len(peer.FQDNs) > 0 || slices.ContainsFunc(peer.ToServices, func(n policy.NamespacedName) bool { return v.mayLead(n, w.flow) }):
		return v.byName(w.flow, &peer), nil
	}
	return matchNo, nil
}

// mayBeUnseen reports whether the remote end, which is no entity in sight, may be a member of the
// peer's groups that is not.
func (v *Evaluator) mayBeUnseen(w *walk, peer *policy.ComputedPeer) bool {
	return w.remote.EntityRef == (policy.EntityRef{}) && slices.ContainsFunc(peer.AddressGroups, func(g string) bool { return v.unseen[g] })
}

// namesPorts reports whether services name ports, of which the members of a peer say what they are.
func namesPorts(services []policy.ServiceMatch) bool {
	return slices.ContainsFunc(services, func(s policy.ServiceMatch) bool { return s.Port != nil && s.Port.Name != "" })
}

// byName tells how a peer matches that does so, if at all, by a domain name or a Service.
func (v *Evaluator) byName(f *Flow, peer *policy.ComputedPeer) match {
	if f.Service != (policy.NamespacedName{}) && slices.Contains(peer.ToServices, f.Service) {
		return matchYes
	}
	return matchMaybe
}

// mayLead reports whether the packet may have been sent to the Service. Services have ports of TCP,
// UDP and SCTP only.
func (v *Evaluator) mayLead(name policy.NamespacedName, f *Flow) bool {
	switch {
	case f.Protocol == policy.ICMP || f.Protocol == policy.IGMP || f.Direct:
		return false
	case f.Service != (policy.NamespacedName{}):
		return f.Service == name
	}
	return v.leads == nil || v.leads(name, f)
}

// remoteMembers returns the members of the peer's address groups that the remote end is.
func (v *Evaluator) remoteMembers(w *walk, peer *policy.ComputedPeer) []*policy.Member {
	var out []*policy.Member
	for _, name := range peer.AddressGroups {
		if !w.remote.Addr.IsValid() {
			if m := v.byRef[name][w.remote.EntityRef]; m != nil {
				out = append(out, m)
			}
			continue
		}
		out = append(out, v.byAddress[name][w.remote.Addr]...)
		for _, ref := range w.holders {
			if m := v.byRef[name][ref]; m != nil && !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	return out
}

// servicesMatch reports whether any of the services matches; none at all match everything. Named
// ports are looked up in the given members.
func servicesMatch(f *Flow, services []policy.ServiceMatch, named []*policy.Member) bool {
	if len(services) == 0 {
		return true
	}
	return slices.ContainsFunc(services, func(s policy.ServiceMatch) bool { return serviceMatches(f, &s, named) })
}

func serviceMatches(f *Flow, s *policy.ServiceMatch, named []*policy.Member) bool {
	if s.Protocol != f.Protocol && (s.Protocol != "" || f.Protocol == policy.ICMP || f.Protocol == policy.IGMP) {
		return false
	}
	octet := func(want *int32, got uint8) bool { return want == nil || *want == int32(got) }
	switch f.Protocol {
	case policy.ICMP:
		return octet(s.ICMPType, f.ICMPType) && octet(s.ICMPCode, f.ICMPCode)
	case policy.IGMP:
		if s.GroupAddress != "" {
			about := f.GroupAddress
			if !about.IsValid() {
				about = f.Destination.Addr
			}
			if group, err := netip.ParseAddr(s.GroupAddress); err != nil || group.Unmap() != about {
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
