package evaluate

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/policy"
)

// Priorities that order policies beside their tiers.
const (
	// knpTierPriority is where Kubernetes NetworkPolicies stand among the tiers.
	knpTierPriority = 251
	// BaselineTierPriority is the first tier that comes after Kubernetes NetworkPolicies.
	BaselineTierPriority = policy.BaselineTierPriority
)

// stage is one of the three stages of evaluation.
type stage uint8

const (
	stageTiers stage = iota
	stageKubernetes
	stageBaseline
)

// rankedRule is a rule with its place in the order of evaluation.
type rankedRule struct {
	policy *policy.ComputedPolicy
	rule   *policy.ComputedRule
	stage  stage
	// index is RuleRef.Index.
	index int
}

// Rules returns all rules in the order in which they are asked. The copies that a rule has in
// several Namespaces are told apart by RuleRef.Rule only.
func (v *Evaluator) Rules() []RuleRef {
	out := make([]RuleRef, len(v.rules))
	for i := range v.rules {
		out[i] = v.rules[i].ref(nil)
	}
	return out
}

func (r *rankedRule) ref(through []policy.EntityRef) RuleRef {
	out := RuleRef{
		Policy: r.policy.Source, Direction: r.rule.Direction, Rule: r.rule, Index: r.index, TierPriority: knpTierPriority, Through: through,
	}
	if r.policy.TierPriority != nil {
		out.TierPriority = *r.policy.TierPriority
	}
	if r.policy.Priority != nil {
		out.Priority = *r.policy.Priority
	}
	return out
}

// CompareRules orders rules of computed policies as they are evaluated in one direction: by stage,
// tier priority, policy priority and rule index. Antrea leaves the order of equals undefined; here
// the policies' kind, namespace, name and UID decide.
func CompareRules(p *policy.ComputedPolicy, r *policy.ComputedRule, q *policy.ComputedPolicy, s *policy.ComputedRule) int {
	tier := func(p *policy.ComputedPolicy) (stage, int32, float64) {
		if p.TierPriority == nil {
			return stageKubernetes, 0, 0
		}
		st := stageTiers
		if *p.TierPriority >= BaselineTierPriority {
			st = stageBaseline
		}
		priority := 0.0
		if p.Priority != nil {
			priority = *p.Priority
		}
		return st, *p.TierPriority, priority
	}
	stage1, tier1, priority1 := tier(p)
	stage2, tier2, priority2 := tier(q)
	return cmp.Or(
		cmp.Compare(stage1, stage2), cmp.Compare(tier1, tier2), cmp.Compare(priority1, priority2),
		cmp.Compare(r.Priority, s.Priority),
		cmp.Compare(p.Source.Kind, q.Source.Kind), cmp.Compare(p.Source.Namespace, q.Source.Namespace),
		cmp.Compare(p.Source.Name, q.Source.Name), cmp.Compare(p.Source.UID, q.Source.UID),
	)
}

// Evaluator answers for flows from computed objects, reading them as an enforcer does: address
// groups by the addresses of their members, applied-to groups by reference. It is immutable and
// safe for concurrent use.
type Evaluator struct {
	// rules are all rules in order of evaluation; applied lists, by applied-to group, the indexes
	// of its rules.
	rules   []rankedRule
	applied map[string][]int
	// groupsOf lists the applied-to groups of an entity with its member value there.
	groupsOf map[policy.EntityRef][]membership
	// byAddress and byRef find the members of an address group.
	byAddress map[string]map[netip.Addr][]*policy.Member
	byRef     map[string]map[policy.EntityRef]*policy.Member
	// unseen are the address groups that may have members which are not in sight.
	unseen map[string]bool
	// leads is what WithServices was given, delegated what WithDelegated was.
	leads     func(policy.NamespacedName, *Flow) bool
	delegated func(local policy.EntityRef, a netip.Addr) []policy.EntityRef
}

type membership struct {
	group  string
	member *policy.Member
}

// New indexes a Listing.
func New(l *policy.Listing) *Evaluator {
	v := &Evaluator{
		applied:   make(map[string][]int),
		groupsOf:  make(map[policy.EntityRef][]membership),
		byAddress: make(map[string]map[netip.Addr][]*policy.Member),
		byRef:     make(map[string]map[policy.EntityRef]*policy.Member),
		unseen:    make(map[string]bool),
	}
	for _, p := range l.Policies {
		written := map[policy.Direction]int{}
		for i := range p.Rules {
			r := rankedRule{policy: p.ComputedPolicy, rule: &p.Rules[i], index: int(p.Rules[i].Priority)}
			switch {
			case p.TierPriority == nil:
				r.stage = stageKubernetes
				r.index = written[r.rule.Direction]
				written[r.rule.Direction]++
				if r.rule.Action == "" {
					r.index = -1
				}
			case *p.TierPriority >= BaselineTierPriority:
				r.stage = stageBaseline
			}
			v.rules = append(v.rules, r)
		}
	}
	slices.SortStableFunc(v.rules, func(a, b rankedRule) int { return CompareRules(a.policy, a.rule, b.policy, b.rule) })
	for i, r := range v.rules {
		groups := r.rule.AppliedToGroups
		if len(groups) == 0 {
			groups = r.policy.AppliedToGroups
		}
		for _, g := range groups {
			v.applied[g] = append(v.applied[g], i)
		}
	}
	for _, g := range l.AppliedToGroups {
		for _, m := range g.Members {
			v.groupsOf[m.EntityRef] = append(v.groupsOf[m.EntityRef], membership{g.Name, m})
		}
	}
	for _, g := range l.AddressGroups {
		addresses := make(map[netip.Addr][]*policy.Member, len(g.Members))
		refs := make(map[policy.EntityRef]*policy.Member, len(g.Members))
		for _, m := range g.Members {
			refs[m.EntityRef] = m
			for _, a := range m.IPs {
				addresses[a] = append(addresses[a], m)
			}
		}
		v.byAddress[g.Name], v.byRef[g.Name] = addresses, refs
		if g.Unseen {
			v.unseen[g.Name] = true
		}
	}
	return v
}

// WithServices returns an Evaluator that knows Services. Where a flow does not say by which address
// its destination is reached, leads tells whether it may be by that of a Service; without it, it
// may be by that of any. It must be safe for concurrent use.
func (v *Evaluator) WithServices(leads func(policy.NamespacedName, *Flow) bool) *Evaluator {
	out := *v
	out.leads = leads
	return &out
}

// WithDelegated returns an Evaluator that knows blocks of addresses which a cloud has delegated to
// machines as a whole: delegated returns the holders of an address in such a block, as far as the
// enforcer at the local end counts the block among their addresses. It must be safe for concurrent
// use.
func (v *Evaluator) WithDelegated(delegated func(local policy.EntityRef, a netip.Addr) []policy.EntityRef) *Evaluator {
	out := *v
	out.delegated = delegated
	return &out
}

// Evaluate returns the verdict on a flow.
func (v *Evaluator) Evaluate(f Flow) Verdict {
	for _, a := range []*netip.Addr{&f.Source.Addr, &f.Destination.Addr, &f.GroupAddress} {
		*a = a.Unmap().WithZone("")
	}
	var out Verdict
	exempt := v.exemptions(&f)
	if out.Egress = (Decision{Outcome: OutcomeNative, Exempt: exempt[0]}); exempt[0] == "" {
		out.Egress = v.decide(&f, policy.Egress, &f.Source, &f.Destination)
	}
	if out.Ingress = (Decision{Outcome: OutcomeNative, Exempt: exempt[1]}); exempt[1] == "" {
		out.Ingress = v.decide(&f, policy.Ingress, &f.Destination, &f.Source)
	}
	fromCluster := f.Source.Kind == policy.KindPod || f.Source.Kind == policy.KindNode
	if service := f.service(); v.groupsOf[service.EntityRef] != nil && !fromCluster {
		d := v.decide(&f, policy.Ingress, &service, &f.Source)
		out.Service = &d
	}
	return out
}

// staysThere reports whether a packet never leaves its sender. From one address of a machine to
// another it may, through the interfaces where its policies are enforced.
func staysThere(from, to *Endpoint) bool {
	if from.Addr.IsValid() && from.Addr == to.Addr {
		return true
	}
	twoInterfaces := from.Kind == policy.KindExternalEntity && from.Addr.IsValid() && to.Addr.IsValid()
	return from.EntityRef == to.EntityRef && from.EntityRef != (policy.EntityRef{}) && !twoInterfaces
}

// service is the Service of the flow as what rules apply to; zero if there is none.
func (f *Flow) service() Endpoint {
	if f.Service == (policy.NamespacedName{}) {
		return Endpoint{}
	}
	return Endpoint{EntityRef: policy.EntityRef{Kind: policy.KindService, Namespace: f.Service.Namespace, Name: f.Service.Name}}
}

// exemptions returns the exemptions from egress and ingress policies.
func (v *Evaluator) exemptions(f *Flow) [2]Exemption {
	if f.Relayed {
		return [2]Exemption{}
	}
	from, to := &f.Source, &f.Destination
	switch {
	case staysThere(from, to):
		if f.Service != (policy.NamespacedName{}) { // it leaves, and only then is found to come back
			return [2]Exemption{"", ExemptItself}
		}
		return [2]Exemption{ExemptItself, ExemptItself}
	case from.Kind == policy.KindNode && to.Kind == policy.KindPod:
		if m := v.groupsOf[to.EntityRef]; m != nil && m[0].member.Host == from.Name {
			return [2]Exemption{"", ExemptOwnNode}
		}
	}
	return [2]Exemption{}
}

// candidates returns the rules of a direction that apply to an endpoint, in order, and its member
// values.
func (v *Evaluator) candidates(d policy.Direction, local *Endpoint) ([]*rankedRule, []*policy.Member) {
	var indexes []int
	var members []*policy.Member
	if local.EntityRef == (policy.EntityRef{}) {
		return nil, nil
	}
	for _, m := range v.groupsOf[local.EntityRef] {
		members = append(members, m.member)
		for _, i := range v.applied[m.group] {
			if v.rules[i].rule.Direction == d {
				indexes = append(indexes, i)
			}
		}
	}
	slices.Sort(indexes)
	indexes = slices.Compact(indexes)
	out := make([]*rankedRule, len(indexes))
	for i, at := range indexes {
		out[i] = &v.rules[at]
	}
	return out, members
}

// decide evaluates one direction at the local endpoint.
//
// Rules that may or may not match split the evaluation: live says in which states it can be, and
// possible collects the outcomes that the branches left behind have.
func (v *Evaluator) decide(f *Flow, d policy.Direction, local, remote *Endpoint) Decision {
	rules, members := v.candidates(d, local)
	w := walk{flow: f, direction: d, remote: remote, members: members, evaluator: v, inTiers: true}
	if v.delegated != nil && remote.Addr.IsValid() {
		w.holders = v.delegated(local.EntityRef, remote.Addr)
	}
	w.out.IsolatedBy = isolating(rules, local.Semantics)
	w.out.Isolated = len(w.out.IsolatedBy) > 0
	isolatedByKubernetes := slices.ContainsFunc(rules, func(r *rankedRule) bool { return r.stage == stageKubernetes })
	for _, r := range rules {
		if r.stage == stageBaseline && isolatedByKubernetes {
			break
		}
		if w.step(r); !w.inTiers && !w.passed {
			break
		}
	}
	if w.inTiers || w.passed {
		w.end(w.byDefault(), nil)
	}
	return w.out
}

// isolating returns the policies that make Drop the default of the direction in which the rules
// apply.
func isolating(rules []*rankedRule, semantics Semantics) []policy.PolicyRef {
	var out []policy.PolicyRef
	for _, r := range rules {
		isolates := r.stage == stageKubernetes || semantics == VMSemantics && r.rule.Action == policy.Allow
		if isolates && !slices.Contains(out, r.policy.Source) {
			out = append(out, r.policy.Source)
		}
	}
	return out
}

// walk is the evaluation of one direction.
type walk struct {
	evaluator *Evaluator
	flow      *Flow
	direction policy.Direction
	remote    *Endpoint
	members   []*policy.Member
	// holders are the entities that have the block with the address of the remote end.
	holders []policy.EntityRef
	// inTiers and passed are the states the evaluation can be in: before, and after a Pass rule.
	inTiers, passed bool
	// possible are the outcomes of branches that an uncertain rule would have ended.
	possible []Outcome
	// unseen tells that the rule at hand may match by a member that is not in sight.
	unseen bool
	out    Decision
}

// step takes one rule into account.
func (w *walk) step(r *rankedRule) {
	if r.stage == stageTiers && !w.inTiers || r.rule.Action == "" {
		return
	}
	w.unseen = false
	matches, through := w.evaluator.matches(w, r.rule)
	switch matches {
	case matchMaybe:
		ref := r.ref(nil)
		ref.Unseen = w.unseen
		w.out.Uncertain = append(w.out.Uncertain, ref)
		switch {
		case r.rule.Action == policy.Pass && r.stage == stageBaseline:
			w.possible = append(w.possible, w.byDefault())
		case r.rule.Action == policy.Pass:
			w.passed = true
		default:
			w.possible = append(w.possible, outcomeOf(r.rule.Action))
		}
	case matchYes:
		ref := r.ref(through)
		switch {
		case r.rule.Action == policy.Pass && r.stage == stageBaseline:
			// There is no level below the last one but the default.
			w.out.Passed = append(w.out.Passed, ref)
			w.end(w.byDefault(), nil)
		case r.rule.Action == policy.Pass:
			w.out.Passed = append(w.out.Passed, ref)
			w.inTiers, w.passed = false, true
		case r.stage == stageTiers && w.passed:
			// Only the branch that has not passed ends here.
			w.possible = append(w.possible, outcomeOf(r.rule.Action))
			w.inTiers = false
		default:
			w.end(outcomeOf(r.rule.Action), &ref)
		}
	}
}

// byDefault is the outcome if no rule decides.
func (w *walk) byDefault() Outcome {
	if w.out.Isolated {
		return OutcomeDrop
	}
	return OutcomeNative
}

// end ends the evaluation with the outcome of the branches that are left.
func (w *walk) end(o Outcome, by *RuleRef) {
	w.inTiers, w.passed = false, false
	w.out.Outcome, w.out.By = o, by
	possible := append(w.possible, o)
	slices.Sort(possible)
	if possible = slices.Compact(possible); len(possible) > 1 {
		w.out.Outcome, w.out.By, w.out.Possible = OutcomeUnknown, nil, possible
	}
}

func outcomeOf(a policy.Action) Outcome {
	switch a {
	case policy.Allow:
		return OutcomeAllow
	case policy.Reject:
		return OutcomeReject
	}
	return OutcomeDrop
}
