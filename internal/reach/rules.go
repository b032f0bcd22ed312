package reach

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/platform/work"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// RuleUse says what a rule of a policy is good for.
type RuleUse struct {
	evaluate.RuleRef
	Use Use
	// By are, for Shadowed and Skipped, the rules that leave it nothing, in order.
	By []evaluate.RuleRef
	// Applies counts the entities that the rule applies to.
	Applies int
}

// Use is what becomes of a rule.
type Use string

// The uses.
const (
	// Used: the rule decides, or passes on, some flow of some endpoint.
	Used Use = "Used"
	// AppliesToNobody: no endpoint is selected by its appliedTo.
	AppliesToNobody Use = "AppliesToNobody"
	// PeersNobody: no one is selected by from or to, or no one there has the port of that name.
	PeersNobody Use = "PeersNobody"
	// Shadowed: rules before it decide all that it matches.
	Shadowed Use = "Shadowed"
	// Skipped: Pass rules before it take away all that it matches, alone or together with rules
	// that decide; or it is of the baseline, and Kubernetes NetworkPolicies stand before it
	// wherever it applies.
	Skipped Use = "Skipped"
	// Unjudged: it is about certain source ports or about Services, of which flows as they are
	// given here know nothing.
	Unjudged Use = "Unjudged"
)

// Useless reports whether the rule decides about no flow. An Allow rule that applies to a VM
// isolates it all the same.
func (u Use) Useless() bool {
	return u == Shadowed || u == Skipped || u == PeersNobody || u == AppliesToNobody
}

// RuleUses says of every rule of the policies what it is good for, in the order of evaluation of
// ingress, then egress. The rules that no one wrote, by which Kubernetes NetworkPolicies isolate,
// are left out. Copies of one written rule, one per Namespace, count as one.
//
// A rule that is Shadowed or Skipped is so for every endpoint it applies to now: with other
// endpoints or other members of groups it may become useful.
func (w *World) RuleUses() []RuleUse {
	found := make([]finding, len(w.policies.rules))
	for half := range w.kinds {
		for _, a := range w.applications(half) {
			w.find(&a.class, different(a.endpoints), found)
		}
	}
	return w.uses(found)
}

// application is a class and the endpoints in it.
type application struct {
	class
	endpoints []*Endpoint
}

// applications groups all endpoints by what applies to them in a direction, whether or not it is
// enforced there. Classes without rules are left out.
func (w *World) applications(half int) []*application {
	var out []*application
	at := map[string]*application{}
	w.budget.Spend(len(w.endpoints))
	for _, e := range w.endpoints {
		c := e.halves[half].class
		if e.Suspended != "" {
			c = w.policies.class(directionOf(half), e.enforced())
		}
		if len(c.rules) == 0 {
			continue
		}
		key := c.key()
		if at[key] == nil {
			c.index = w.policies.indexOf(&c)
			at[key] = &application{class: c}
			out = append(out, at[key])
		}
		at[key].endpoints = append(at[key].endpoints, e.Endpoint)
	}
	return out
}

// different counts entities: one has an endpoint for each of its interfaces, and for its public
// addresses.
func different(all []*Endpoint) int {
	seen := map[policy.EntityRef]bool{}
	for _, e := range all {
		seen[e.EntityRef] = true
	}
	return len(seen)
}

// enforced is the endpoint as if policies were enforced on it.
func (e *Endpoint) enforced() *Endpoint {
	plain := *e
	plain.Suspended = ""
	return &plain
}

// finding is what was seen of a rule.
type finding struct {
	applies int
	used    bool
	// lost are the rules that took what it matches; skipped tells that a Pass rule or Kubernetes
	// NetworkPolicies did.
	lost    map[int]bool
	skipped bool
}

// find looks at the rules of a kind.
func (w *World) find(c *class, endpoints int, found []finding) {
	for _, i := range c.rules {
		found[i].applies += endpoints
	}
	t := &follower{
		used: func(i int) { found[i].used = true },
		lost: func(i, to int, _ addrset.Set) {
			f := &found[i]
			if f.lost == nil {
				f.lost = map[int]bool{}
			}
			if to == noRule {
				f.skipped = true
				return
			}
			f.lost[to] = true
			f.skipped = f.skipped || w.policies.rules[to].rule.Action == policy.Pass
		},
	}
	w.policies.follow(w.budget, c, t)
}

// follow takes all traffic of a class through its rules.
func (p *policies) follow(b *work.Budget, c *class, t *follower) {
	services := p.services(c)
	b.Spend(len(services))
	for _, s := range flow.Partition(services) {
		p.decide(b, c, s, addrset.All(), false, t)
	}
}

func (w *World) uses(found []finding) []RuleUse {
	type written struct {
		policy    string
		direction policy.Direction
		index     int
	}
	at := map[written]int{}
	var out []RuleUse
	for i := range found {
		r, f := &w.policies.rules[i], &found[i]
		if r.index < 0 {
			continue
		}
		u := RuleUse{RuleRef: *r.ref(), Use: w.use(r, f), Applies: f.applies}
		for by := range f.lost {
			u.By = append(u.By, *w.policies.rules[by].ref())
		}
		slices.SortFunc(u.By, compareRefs)
		if u.Use != Shadowed && u.Use != Skipped {
			u.By = nil
		}
		key := written{r.policy.Source.UID, r.rule.Direction, r.index}
		k, known := at[key]
		if !known {
			at[key] = len(out)
			out = append(out, u)
			continue
		}
		out[k] = out[k].With(u)
	}
	slices.SortStableFunc(out, func(a, b RuleUse) int { return cmp.Compare(a.Direction, b.Direction) })
	return out
}

// With puts together what is said of one rule twice: in copies of it, or in other worlds. The one
// that is of more use counts.
func (a RuleUse) With(b RuleUse) RuleUse {
	rank := []Use{AppliesToNobody, PeersNobody, Shadowed, Skipped, Unjudged, Used}
	a.Applies += b.Applies
	if slices.Index(rank, b.Use) > slices.Index(rank, a.Use) {
		a.Use, a.By, a.RuleRef = b.Use, b.By, b.RuleRef
	}
	return a
}

func (w *World) use(r *rule, f *finding) Use {
	switch {
	case f.used:
		return Used
	case f.applies == 0:
		return AppliesToNobody
	case slices.ContainsFunc(r.rule.Services, func(s policy.ServiceMatch) bool { return s.SrcPort != nil }), len(r.rule.ToServices) > 0:
		return Unjudged
	case f.skipped:
		return Skipped
	case len(f.lost) > 0:
		return Shadowed
	}
	return PeersNobody
}

func compareRefs(a, b evaluate.RuleRef) int {
	return cmp.Or(
		cmp.Compare(a.TierPriority, b.TierPriority), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Index, b.Index),
		cmp.Compare(a.Policy.Name, b.Policy.Name), cmp.Compare(a.Policy.Namespace, b.Policy.Namespace),
	)
}

// Override is a rule that takes flows away from a rule of another policy that comes after it and
// would decide otherwise.
type Override struct {
	// Winner decides, or is a Pass rule after which the loser is not asked.
	Winner evaluate.RuleRef
	// Loser is the rule that would have decided.
	Loser evaluate.RuleRef
	// Skips tells that the winner is a Pass rule.
	Skips bool
	// Endpoints are those at which it happens, and Peers the other ends.
	Endpoints []*Endpoint
	Peers     addrset.Set
}

// Overrides returns what the rules of a policy take away from rules of other policies: where its
// Pass rules skip them, or its decisions come before theirs and are others. of is the UID of the
// policy; empty means all policies. In order of the loser, then the winner.
func (w *World) Overrides(of string) []Override {
	type pair struct{ winner, loser int }
	found := map[pair]*Override{}
	for half := range w.kinds {
		for _, a := range w.applications(half) {
			seen := map[pair]bool{}
			t := &follower{used: func(int) {}, lost: func(i, to int, peers addrset.Set) {
				if to == noRule || !w.overrides(to, i) || of != "" && w.policies.rules[to].policy.Source.UID != of {
					return
				}
				key := pair{to, i}
				o := found[key]
				if o == nil {
					winner := &w.policies.rules[to]
					o = &Override{Winner: *winner.ref(), Loser: *w.policies.rules[i].ref(), Skips: winner.rule.Action == policy.Pass}
					found[key] = o
				}
				o.Peers = o.Peers.Union(peers)
				if !seen[key] {
					seen[key] = true
					o.Endpoints = append(o.Endpoints, a.endpoints...)
				}
			}}
			w.policies.follow(w.budget, &a.class, t)
		}
	}
	keys := make([]pair, 0, len(found))
	for key := range found {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b pair) int { return cmp.Or(cmp.Compare(a.loser, b.loser), cmp.Compare(a.winner, b.winner)) })
	out := make([]Override, 0, len(keys))
	for _, key := range keys {
		o := *found[key]
		slices.SortFunc(o.Endpoints, (*Endpoint).compare)
		out = append(out, o)
	}
	return out
}

// overrides reports whether one rule's coming first makes a difference to another of another
// policy.
func (w *World) overrides(winner, loser int) bool {
	a, b := &w.policies.rules[winner], &w.policies.rules[loser]
	return a.policy != b.policy && a.rule.Action != b.rule.Action
}

// Effective is what holds for one endpoint.
type Effective struct {
	Ingress, Egress EffectiveDirection
}

// EffectiveDirection is one direction of it.
type EffectiveDirection struct {
	// Rules apply, in order of evaluation.
	Rules []EffectiveRule
	// Default is the outcome of what no rule decides, and IsolatedBy the policies that make it
	// Drop.
	Default    Outcome
	IsolatedBy []policy.PolicyRef
	// Suspended says why none of the rules is enforced; empty if they are.
	Suspended string
	// Openings is whose flows are allowed before any rule; no one's if none are.
	Openings Owner
}

// EffectiveRule is a rule that applies to an endpoint.
type EffectiveRule struct {
	evaluate.RuleRef
	// Peers are the addresses at the other end now. Names are domain names besides.
	Peers addrset.Set
	Names []string
	// Decides tells that the rule decides something at this endpoint, or passes it on; By are
	// otherwise the rules that leave it nothing.
	Decides bool
	By      []evaluate.RuleRef
}

// Traffic says in words what the rule matches besides its peers.
func (r *EffectiveRule) Traffic() string { return trafficText(r.Rule.Services) }

// Effective returns what holds for an endpoint of the world.
func (w *World) Effective(e *Endpoint) Effective {
	var out Effective
	for half, d := range []*EffectiveDirection{&out.Ingress, &out.Egress} {
		*d = w.effective(half, e.enforced())
		d.Suspended = e.Suspended
	}
	return out
}

func (w *World) effective(half int, e *Endpoint) EffectiveDirection {
	k := w.newKind(half, e)
	k.index = w.policies.indexOf(&k.class)
	w.budget.Spend(len(w.policies.rules))
	found := make([]finding, len(w.policies.rules))
	w.find(&k.class, 1, found)
	d := EffectiveDirection{Default: Outcome(k.byDefault().outcome())}
	if len(k.implicitAllows) > 0 {
		d.Openings = k.owner
	}
	for _, i := range k.rules {
		r := &w.policies.rules[i]
		if r.stage == stageKubernetes || k.semantics == evaluate.VMSemantics && r.rule.Action == policy.Allow {
			if !slices.Contains(d.IsolatedBy, r.policy.Source) {
				d.IsolatedBy = append(d.IsolatedBy, r.policy.Source)
			}
		}
		if r.index < 0 {
			continue
		}
		u := EffectiveRule{RuleRef: *r.ref(), Peers: r.peersIn(k.region), Names: r.rule.FQDNs, Decides: found[i].used}
		if !u.Decides {
			for by := range found[i].lost {
				u.By = append(u.By, *w.policies.rules[by].ref())
			}
			slices.SortFunc(u.By, compareRefs)
		}
		d.Rules = append(d.Rules, u)
	}
	return d
}
