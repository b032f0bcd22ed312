package intent

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// Flatten turns rules, in the order of evaluation, into what an interface allows in a direction. If
// none of them isolates it, its former groups decide what they leave.
func (s *Region) Flatten(n *NIC, d cloud.Direction, rules []*Bound) flow.Permit {
	rules = slices.DeleteFunc(slices.Clone(rules), func(r *Bound) bool { return r.Direction != d })
	var native []cloud.Rule
	if OpenUnder(rules)[flow.Index(d)] {
		native = s.GroupRules(n.Groups.Former, d)
	}
	var services []flow.Service
	for _, r := range rules {
		services = append(services, r.services...)
	}
	for _, r := range native {
		services = append(services, flow.ServiceOf(r.Match))
	}
	cells := flow.Partition(services)
	open := s.Evaluate(s.spelled(native, rules, cells, n.Network), n.Network, func(p cloud.Peer) addrset.Set { return s.FormerAddrs(p.GroupID, n.Network) })
	var out flow.Permit
	for _, cell := range cells {
		s.Account.MayStop()
		out.Grants = append(out.Grants, s.decide(rules, n.Network, open.At(cell)))
	}
	return out.CollapseTypes().CollapseProtocols()
}

// decide is what rules make of what is granted of a service where they leave it open. Of a peer
// whose addresses are not known all has to stay, where the cloud cannot leave addresses out.
func (s *Region) decide(rules []*Bound, view *Network, open flow.Grant) flow.Grant {
	family := flow.Family(open.Service.Protocol)
	matched, named := s.walked(rules, open.Service, view)
	out := flow.Grant{Service: open.Service, All: matched.over(open.All).Intersect(family)}
	out.Anonymous = named.over(open.Anonymous).Intersect(out.All)
	out.Plain = named.over(open.Plain).Intersect(out.All)
	if len(open.Opaque) == 0 {
		return out
	}
	stays := matched.allowed.Union(matched.left)
	for _, p := range open.Opaque {
		may := s.mayBe(p, view).Intersect(family).Minus(flow.Excepted(p))
		switch {
		case may.Within(stays):
			out.Opaque = append(out.Opaque, p)
		case p.PrefixListID == "" || !s.Limits.Excepts:
			s.Note(view.ID, reason.Why(reason.OpaqueDropped, p.String()))
		case may.Overlaps(stays):
			out.Opaque = append(out.Opaque, flow.Except(p, addrset.All().Minus(stays)))
		}
	}
	return out
}

// mayBe returns the addresses that an opaque peer may have.
func (s *Region) mayBe(p cloud.Peer, view *Network) addrset.Set {
	entries, known := s.Entries(p)
	switch {
	case known:
		return entries
	case p.GroupID != "":
		return view.around
	}
	return addrset.All()
}

// spelled returns native rules with the entries of a prefix list in its place, where policies take
// something out of them in any of the cells. Else the list is named as it is: what its owner
// changes takes effect at once then, and a list of the cloud itself may count far less than it
// holds.
func (s *Region) spelled(native []cloud.Rule, rules []*Bound, cells []flow.Service, view *Network) []cloud.Rule {
	var out []cloud.Rule
	for _, r := range native {
		entries, known := s.Entries(r.Peer)
		taken := known && slices.ContainsFunc(cells, func(cell flow.Service) bool {
			if !flow.ServiceOf(r.Match).Covers(cell) {
				return false
			}
			matched, _ := s.walked(rules, cell, view)
			return !entries.Intersect(flow.Family(cell.Protocol)).Within(matched.allowed.Union(matched.left))
		})
		if !taken && !(known && entries.Empty()) {
			out = append(out, r)
			continue
		}
		for _, block := range entries.Prefixes() {
			out = append(out, cloud.Rule{Direction: r.Direction, Match: r.Match, Peer: cloud.Peer{CIDR: block}})
		}
	}
	return out
}

// OpenUnder tells which directions the former groups decide under the rules: those in which none
// isolates.
func OpenUnder(rules []*Bound) [2]bool {
	out := [2]bool{true, true}
	for _, r := range rules {
		if r.Verdict == Allow {
			out[flow.Index(r.Direction)] = false
		}
	}
	return out
}
