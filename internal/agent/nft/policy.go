package nft

import (
	"cmp"
	"iter"
	"slices"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// policyParts are what a policy is on a host. They are kept as long as the policy and the host stay
// as they are.
type policyParts struct {
	source *v1beta2.NetworkPolicy
	// run is the last one that knew the policy.
	run       uint64
	reference v1beta2.NetworkPolicyReference
	// stage is one of the three of evaluation: tiers, Kubernetes, baseline.
	stage    int
	tier     int32
	priority float64
	// invalid says why it cannot be expressed, whatever groups are known.
	invalid *Refusal
	// named is a rule with domain names; nil if there is none.
	named *v1beta2.NetworkPolicyRule
	// services is a rule with Services as peers; nil if there is none.
	services *v1beta2.NetworkPolicyRule
	// igmp tells that it is about IGMP.
	igmp bool
	// groups are the address groups that it names, sorted, each with a rule that names it.
	groups []namedGroup
	// complete is the Compiler.gathered at which all of them were there.
	complete uint64
	// rules are those that apply to the host, by direction, in the order of evaluation, and origins
	// what the rules of the kernel say that are made of them.
	rules   [2][]*v1beta2.NetworkPolicyRule
	origins [2][]ruleset.Origin
	// isolates tells that what no rule allows is dropped because of it.
	isolates [2]bool
	segments map[segmentKey]*segment
}

// namedGroup is an address group that a rule names.
type namedGroup struct {
	group string
	rule  *v1beta2.NetworkPolicyRule
}

// segmentKey tells the segments of a policy apart: each is of a range of its rules.
type segmentKey struct {
	direction   ruleset.Direction
	family      ruleset.Family
	first, last int
}

// segment is a chain of rules of one policy, and what they refer to.
type segment struct {
	name string
	// chain is nil if the rules match nothing in this family.
	chain  *ruleset.Chain
	family ruleset.Family
	ranges map[ruleset.SetName][]ruleset.Range
	// members are the groups whose members are peers.
	members []*groupKeys
	ports   []partRef
	names   []partRef
	// services are the Services that are peers.
	services []partRef
	// opens are the protocols and ports that the rules are about, sorted, in the form of
	// BlockPorts; nil if they are about more than a few, or about others.
	opens []string
	// first tells that a block begins with it, whatever comes before.
	first bool
	// run is the last one that had it in its program. live tells that what it refers to is counted
	// in Compiler.refers.
	run  uint64
	live bool
}

// refs are all that the rules refer to, but for members of groups.
func (s *segment) refs() iter.Seq[partRef] {
	return func(yield func(partRef) bool) {
		for _, list := range [][]partRef{s.ports, s.names, s.services} {
			for _, r := range list {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// partRef is an element list that rules refer to: the ports of members of a group that have a name,
// the addresses of a domain name, or where a Service is reached; these two then are the group.
type partRef struct {
	key         *ruleset.PartKey
	group, port string
}

// place is that of a family in pairs.
func place(f ruleset.Family) int {
	if f == ruleset.IPv6 {
		return 1
	}
	return 0
}

// normalize sorts what the order of does not count.
func (h *host) normalize() {
	slices.Sort(h.applied)
	slices.SortFunc(h.ports, func(a, b v1beta2.NamedPort) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	h.ports = slices.Compact(h.ports)
}

func (h host) equal(o host) bool {
	return slices.Equal(h.applied, o.applied) && slices.Equal(h.ports, o.ports)
}

// policy returns what a policy is in a class, found out now or before.
func (w *work) policy(c *class, p *v1beta2.NetworkPolicy) *policyParts {
	parts := c.policies[p.Name]
	if parts == nil || parts.source != p {
		parts = c.newPolicy(p)
		c.policies[p.Name] = parts
	}
	parts.run = w.run
	return parts
}

// names reports whether a rule that applies has domain names.
func (p *policyParts) names() bool {
	return p.named != nil && slices.ContainsFunc(p.rules[ruleset.Egress], func(r *v1beta2.NetworkPolicyRule) bool { return len(r.To.FQDNs) > 0 })
}

func (c *class) newPolicy(p *v1beta2.NetworkPolicy) *policyParts {
	out := &policyParts{source: p, reference: reference(p), stage: 1, igmp: aboutIGMP(p), segments: map[segmentKey]*segment{}}
	if p.TierPriority != nil {
		out.tier, out.stage = *p.TierPriority, 0
		if out.tier >= v1beta1.TierPriorityBaseline {
			out.stage = 2
		}
		if p.Priority != nil {
			out.priority = *p.Priority
		}
	}
	if out.invalid = invalid(p); out.invalid != nil {
		return out
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		if len(peerOf(r).FQDNs) > 0 {
			out.named = r
		}
		if len(peerOf(r).ToServices) > 0 {
			out.services = r
		}
		for _, g := range peerOf(r).AddressGroups {
			out.groups = append(out.groups, namedGroup{g, r})
		}
		if !c.applies(p, r) {
			continue
		}
		d := directionOf(r)
		out.rules[d] = append(out.rules[d], r)
		out.isolates[d] = out.isolates[d] || out.stage == 1 || c.allowIsolates && r.Action != nil && *r.Action == v1beta2.RuleActionAllow
	}
	for d := range out.rules {
		slices.SortStableFunc(out.rules[d], func(a, b *v1beta2.NetworkPolicyRule) int { return cmp.Compare(a.Priority, b.Priority) })
		out.origins[d] = make([]ruleset.Origin, 0, len(out.rules[d]))
		for _, r := range out.rules[d] {
			out.origins[d] = append(out.origins[d], ruleset.Origin{Kind: ruleset.OriginPolicy, Policy: out.reference, Name: r.Name, Index: r.Priority})
		}
	}
	return out
}

// applies reports whether the rule is applied to the class.
func (c *class) applies(p *v1beta2.NetworkPolicy, r *v1beta2.NetworkPolicyRule) bool {
	groups := r.AppliedToGroups
	if len(groups) == 0 {
		groups = p.AppliedToGroups
	}
	return slices.ContainsFunc(groups, func(g string) bool {
		_, in := slices.BinarySearch(c.host.applied, g)
		return in
	})
}

func directionOf(r *v1beta2.NetworkPolicyRule) ruleset.Direction {
	if r.Direction == v1beta2.DirectionOut {
		return ruleset.Egress
	}
	return ruleset.Ingress
}

// peerOf returns the other end of a rule.
func peerOf(r *v1beta2.NetworkPolicyRule) *v1beta2.NetworkPolicyPeer {
	if directionOf(r) == ruleset.Egress {
		return &r.To
	}
	return &r.From
}

// run is a range of the rules of a policy that are evaluated one after the other.
type run struct {
	policy      *policyParts
	direction   ruleset.Direction
	first, last int
}

func (r run) rules() []*v1beta2.NetworkPolicyRule {
	return r.policy.rules[r.direction][r.first : r.last+1]
}

// order appends the rules of policies in the order of evaluation: stage, tier and priority of the
// policy, then the place of the rule. The order of equals, which Antrea leaves open, is that of the
// policy engine. It sorts the policies.
func order(out []run, d ruleset.Direction, policies []*policyParts) []run {
	rank := func(a, b *policyParts) int {
		return cmp.Or(cmp.Compare(a.stage, b.stage), cmp.Compare(a.tier, b.tier), cmp.Compare(a.priority, b.priority))
	}
	slices.SortStableFunc(policies, func(a, b *policyParts) int {
		x, y := &a.reference, &b.reference
		return cmp.Or(rank(a, b), cmp.Compare(x.Type, y.Type), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
	})
	for len(policies) > 0 {
		n := 1
		for n < len(policies) && rank(policies[0], policies[n]) == 0 {
			n++
		}
		out = interleave(out, d, policies[:n])
		policies = policies[n:]
	}
	return out
}

// interleave appends the rules of policies of the same rank, which are sorted, in their order.
func interleave(out []run, d ruleset.Direction, policies []*policyParts) []run {
	if len(policies) == 1 {
		return append(out, run{policies[0], d, 0, len(policies[0].rules[d]) - 1})
	}
	var single []run
	for _, p := range policies {
		for i := range p.rules[d] {
			single = append(single, run{p, d, i, i})
		}
	}
	slices.SortStableFunc(single, func(a, b run) int {
		return cmp.Compare(a.policy.rules[d][a.first].Priority, b.policy.rules[d][b.first].Priority)
	})
	first := len(out)
	for _, r := range single {
		if k := len(out) - 1; k >= first && out[k].policy == r.policy && out[k].last+1 == r.first {
			out[k].last = r.last
			continue
		}
		out = append(out, r)
	}
	return out
}
