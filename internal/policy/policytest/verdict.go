package policytest

import (
	"slices"
	"sort"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// Decide is the naive evaluator: the outcome of one direction at the local end, from a listing.
// Rules that only the enforcer can resolve are tried both ways, in all combinations.
func Decide(l *policy.Listing, f evaluate.Flow, d policy.Direction) evaluate.Outcome {
	local, remote := f.Destination, f.Source
	if d == policy.Egress {
		local, remote = f.Source, f.Destination
	}
	if exempt(l, f, d) {
		return evaluate.OutcomeNative
	}
	a := attempt{l, f, local, remote}
	var rules []plainRule
	isolated := false
	for _, p := range l.Policies {
		for i, r := range p.Rules {
			groups := append(append([]string(nil), r.AppliedToGroups...), p.AppliedToGroups...)
			if r.Direction != d || !memberOf(l.AppliedToGroups, groups, local.EntityRef) {
				continue
			}
			if p.TierPriority == nil || local.Semantics == evaluate.VMSemantics && r.Action == policy.Allow {
				isolated = true
			}
			rules = append(rules, plainRule{
				p: p.ComputedPolicy, index: i, action: r.Action,
				yes: a.hits(r, false), maybe: a.hits(r, true),
			})
		}
	}
	sort.SliceStable(rules, func(i, j int) bool { return rules[i].before(rules[j]) })
	var open []int
	for i, r := range rules {
		if r.maybe && !r.yes {
			open = append(open, i)
		}
	}
	var outcomes []evaluate.Outcome
	for combination := range 1 << len(open) {
		tried := slices.Clone(rules)
		for bit, i := range open {
			tried[i].yes = combination>>bit&1 == 1
		}
		o := run(tried, isolated)
		if !slices.Contains(outcomes, o) {
			outcomes = append(outcomes, o)
		}
	}
	if len(outcomes) > 1 {
		return evaluate.OutcomeUnknown
	}
	return outcomes[0]
}

// exempt reports whether no policy is asked about the flow in the direction: it ends where it
// begins, or comes to a Pod from its Node. What goes through a Service to where it came from has
// been out first.
func exempt(l *policy.Listing, f evaluate.Flow, d policy.Direction) bool {
	nobody := policy.EntityRef{}
	same := f.Source.EntityRef != nobody && f.Source.EntityRef == f.Destination.EntityRef
	if f.Source.Addr.IsValid() && f.Destination.Addr.IsValid() && (!same || f.Source.Kind == policy.KindExternalEntity) {
		same = f.Source.Addr == f.Destination.Addr
	}
	if same {
		return d == policy.Ingress || f.Service == (policy.NamespacedName{})
	}
	if d == policy.Egress || f.Source.Kind != policy.KindNode || f.Destination.Kind != policy.KindPod {
		return false
	}
	for _, g := range l.AppliedToGroups {
		for _, m := range g.Members {
			if m.EntityRef == f.Destination.EntityRef {
				return m.Host == f.Source.Name
			}
		}
	}
	return false
}

type plainRule struct {
	p          *policy.ComputedPolicy
	index      int
	action     policy.Action
	yes, maybe bool
}

func (r plainRule) stage() int {
	switch {
	case r.p.TierPriority == nil:
		return 1
	case *r.p.TierPriority >= 253:
		return 2
	}
	return 0
}

func (r plainRule) before(s plainRule) bool {
	if r.stage() != s.stage() {
		return r.stage() < s.stage()
	}
	if r.stage() != 1 {
		if *r.p.TierPriority != *s.p.TierPriority {
			return *r.p.TierPriority < *s.p.TierPriority
		}
		if *r.p.Priority != *s.p.Priority {
			return *r.p.Priority < *s.p.Priority
		}
	}
	if x, y := r.p.Rules[r.index].Priority, s.p.Rules[s.index].Priority; x != y {
		return x < y
	}
	key := func(p *policy.ComputedPolicy) string {
		return string(p.Source.Kind) + "\x00" + p.Source.Namespace + "\x00" + p.Source.Name + "\x00" + p.Source.UID
	}
	return key(r.p) < key(s.p)
}

// run decides when it is known which rules match.
func run(rules []plainRule, isolated bool) evaluate.Outcome {
	passed, kubernetes := false, false
	for _, r := range rules {
		kubernetes = kubernetes || r.stage() == 1
	}
	for _, r := range rules {
		if !r.yes || r.stage() == 0 && passed || r.stage() == 2 && kubernetes {
			continue
		}
		switch r.action {
		case policy.Allow:
			return evaluate.OutcomeAllow
		case policy.Drop:
			return evaluate.OutcomeDrop
		case policy.Reject:
			return evaluate.OutcomeReject
		case policy.Pass:
			if r.stage() == 2 {
				return byDefault(isolated)
			}
			passed = true
		}
	}
	return byDefault(isolated)
}

func byDefault(isolated bool) evaluate.Outcome {
	if isolated {
		return evaluate.OutcomeDrop
	}
	return evaluate.OutcomeNative
}

func memberOf(list []policy.ComputedGroup, names []string, ref policy.EntityRef) bool {
	for _, g := range list {
		for _, m := range g.Members {
			if slices.Contains(names, g.Name) && m.EntityRef == ref {
				return true
			}
		}
	}
	return false
}

// attempt is a flow in one direction.
type attempt struct {
	l             *policy.Listing
	f             evaluate.Flow
	local, remote evaluate.Endpoint
}

// hits reports whether the rule matches; with hopeful, whether it may.
func (a attempt) hits(r policy.ComputedRule, hopeful bool) bool {
	l, local, remote := a.l, a.local, a.remote
	peer := r.Peer()
	found := hopeful && len(peer.FQDNs) > 0
	if a.f.Protocol != policy.ICMP && a.f.Protocol != policy.IGMP && !a.f.Direct {
		through := a.f.Service != (policy.NamespacedName{})
		found = found || through && slices.Contains(peer.ToServices, a.f.Service) || hopeful && !through && len(peer.ToServices) > 0
	}
	var ports []policy.NamedPort
	for _, g := range l.AddressGroups {
		for _, m := range g.Members {
			same := slices.Contains(m.IPs, remote.Addr)
			if !remote.Addr.IsValid() {
				same = m.EntityRef == remote.EntityRef
			}
			if slices.Contains(peer.AddressGroups, g.Name) && same {
				found = true
				if r.Direction == policy.Egress {
					ports = append(ports, m.Ports...)
				}
			}
		}
	}
	for _, b := range peer.IPBlocks {
		in := remote.Addr.IsValid() && b.CIDR.Contains(remote.Addr)
		for _, e := range b.Except {
			in = in && !e.Contains(remote.Addr)
		}
		found = found || in
	}
	if r.Direction == policy.Ingress {
		for _, g := range l.AppliedToGroups {
			for _, m := range g.Members {
				if m.EntityRef == local.EntityRef {
					ports = append(ports, m.Ports...)
				}
			}
		}
	}
	service := len(r.Services) == 0
	for _, s := range r.Services {
		service = service || covers(a.f, s, ports)
	}
	return found && service
}

func covers(f evaluate.Flow, s policy.ServiceMatch, ports []policy.NamedPort) bool {
	if f.Protocol == policy.ICMP {
		return s.Protocol == policy.ICMP && (s.ICMPType == nil || *s.ICMPType == int32(f.ICMPType)) &&
			(s.ICMPCode == nil || *s.ICMPCode == int32(f.ICMPCode))
	}
	if s.Protocol != f.Protocol && (s.Protocol != "" || f.Protocol == policy.IGMP) {
		return false
	}
	if s.SrcPort != nil {
		last := *s.SrcPort
		if s.SrcEndPort != nil {
			last = *s.SrcEndPort
		}
		if int32(f.SourcePort) < *s.SrcPort || int32(f.SourcePort) > last {
			return false
		}
	}
	if s.Port == nil {
		return true
	}
	if s.Port.Name != "" {
		return slices.Contains(ports, policy.NamedPort{Name: s.Port.Name, Protocol: f.Protocol, Port: int32(f.Port)})
	}
	last := s.Port.Number
	if s.EndPort != nil {
		last = *s.EndPort
	}
	return int32(f.Port) >= s.Port.Number && int32(f.Port) <= last
}
