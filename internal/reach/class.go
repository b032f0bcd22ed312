package reach

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/platform/work"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// outcomes is a set of outcomes.
type outcomes uint8

const (
	allow outcomes = 1 << iota
	drop
	reject
	native
)

func outcomeOf(a policy.Action) outcomes {
	switch a {
	case policy.Allow:
		return allow
	case policy.Reject:
		return reject
	}
	return drop
}

// list returns the outcomes, sorted by name.
func (o outcomes) list() []evaluate.Outcome {
	var out []evaluate.Outcome
	for _, x := range []struct {
		bit  outcomes
		name evaluate.Outcome
	}{{allow, evaluate.OutcomeAllow}, {drop, evaluate.OutcomeDrop}, {native, evaluate.OutcomeNative}, {reject, evaluate.OutcomeReject}} {
		if o&x.bit != 0 {
			out = append(out, x.name)
		}
	}
	return out
}

// outcome is the one outcome of the set, or Unknown.
func (o outcomes) outcome() evaluate.Outcome {
	if list := o.list(); len(list) == 1 {
		return list[0]
	}
	return evaluate.OutcomeUnknown
}

// class is what one direction of endpoints with equal treatment has in common.
type class struct {
	// rules are those that apply, in order, by their index among the policies'; index finds them.
	// set is equal for classes of equal rules.
	rules     []int
	index     *serviceIndex
	set       int
	semantics evaluate.Semantics
	// ports are the named ports of the endpoints, where a rule looks at them.
	ports []policy.NamedPort
	// region is that of the security groups which enforce the rules, if some of their peers have
	// delegated blocks there.
	region string
	// isolated makes Drop the default; byKubernetes tells that the baseline is not asked.
	isolated, byKubernetes bool
}

// class finds what applies to an endpoint in a direction.
func (p *policies) class(d policy.Direction, e *Endpoint) class {
	c := class{semantics: e.Semantics}
	if e.EntityRef == (policy.EntityRef{}) || e.Suspended != "" {
		return c
	}
	s := p.ruleSet(d, p.groups[e.EntityRef])
	c.rules, c.set, c.byKubernetes = s.rules, s.number, s.kubernetes
	c.isolated = s.kubernetes || e.Semantics == evaluate.VMSemantics && s.allows
	if s.named && d == policy.Ingress {
		c.ports = e.Ports
	}
	if e.Grouped && p.regions[e.Region] {
		c.region = e.Region
	}
	return c
}

// ruleSet is the rules of a direction that apply to the members of some groups.
type ruleSet struct {
	rules []int
	// number is equal for equal rules.
	number int
	// kubernetes tells that some are of Kubernetes NetworkPolicies, allows that some allow, named
	// that some look at named ports.
	kubernetes, allows, named bool
}

// ruleSet returns that of some groups. Many endpoints are in the same ones.
func (p *policies) ruleSet(d policy.Direction, groups []string) *ruleSet {
	p.setting.Lock()
	defer p.setting.Unlock()
	key := string(d) + " " + strings.Join(groups, " ")
	if s := p.sets[key]; s != nil {
		return s
	}
	s := &ruleSet{}
	for _, g := range groups {
		for _, i := range p.applied[g] {
			if p.rules[i].rule.Direction == d {
				s.rules = append(s.rules, i)
			}
		}
	}
	slices.Sort(s.rules)
	s.rules = slices.Compact(s.rules)
	var text []byte
	for _, i := range s.rules {
		r := &p.rules[i]
		s.kubernetes = s.kubernetes || r.stage == stageKubernetes
		s.allows = s.allows || r.rule.Action == policy.Allow
		s.named = s.named || len(r.traffic.named) > 0
		text = binary.AppendUvarint(text, uint64(i))
	}
	s.number = p.numbers.of(text)
	p.sets[key] = s
	return s
}

// key is equal for classes that are the same.
func (c *class) key() string { return fmt.Sprint(c.set, c.semantics, c.ports, c.region) }

// byDefault is the outcome if no rule decides.
func (c *class) byDefault() outcomes {
	if c.isolated {
		return drop
	}
	return native
}

// services are what the rules of the class tell apart.
func (p *policies) services(c *class) []flow.Service {
	var out []flow.Service
	for _, i := range c.rules {
		out = append(out, p.rules[i].services(c.ports)...)
	}
	return out
}

// part is a set of addresses at the other end for which a direction is decided alike.
type part struct {
	peers    addrset.Set
	possible outcomes
	// by is the index of the deciding rule, noRule if there is none or not one alone.
	by int
	// ended is the rule at which evaluation came to its end, noRule if that was the default.
	ended int
	// passed are the Pass rules on the way.
	passed []int
}

// noRule is where the default decides, or where several rules may.
const noRule = -1

// region is a part on its way: see evaluate.Evaluator, whose states these are.
type region struct {
	peers           addrset.Set
	inTiers, passed bool
	possible        outcomes
	passes          []int
}

func (r *region) same(o *region) bool {
	return r.inTiers == o.inTiers && r.passed == o.passed && r.possible == o.possible && slices.Equal(r.passes, o.passes)
}

// follower is given what becomes of rules. used: the rule decides something, passes it on, or may.
// lost: another rule has decided or passed on what it matches; noRule represents Kubernetes
// NetworkPolicies, which keep the baseline from being asked.
type follower struct {
	used func(rule int)
	lost func(rule, to int, peers addrset.Set)
}

// walk is the evaluation of one direction of a class for one service.
type walk struct {
	*policies
	*class
	follower *follower
	budget   *work.Budget
	// active are the regions that nothing has decided yet, done the others.
	active, next []region
	done         []part
}

// decide cuts the addresses of within into parts for a service, which lies in one piece of the
// partition. See rule.matches for blocksOnly.
func (p *policies) decide(b *work.Budget, c *class, s flow.Service, within addrset.Set, blocksOnly bool, t *follower) []part {
	within = within.Intersect(flow.Family(s.Protocol))
	if within.Empty() {
		return nil
	}
	w := walk{policies: p, class: c, follower: t, budget: b, active: []region{{peers: within, inTiers: true}}}
	rules := c.rules
	if c.index != nil {
		rules = c.index.rules(s)
	}
	for _, i := range rules {
		b.Spend(1)
		r := &p.rules[i]
		if r.rule.Action == "" {
			continue
		}
		if yes, maybe := r.matches(s, c, blocksOnly, p.outside); !yes.Empty() || !maybe.Empty() {
			w.step(i, yes, maybe)
		}
		if len(w.active) == 0 && t == nil {
			break
		}
	}
	for i := range w.active {
		w.end(&w.active[i], c.byDefault(), noRule)
	}
	return w.done
}

// step takes one rule into account.
func (w *walk) step(i int, yes, maybe addrset.Set) {
	r := &w.policies.rules[i]
	cost := yes.Len() + maybe.Len()
	for k := range w.active {
		cost += 2 + w.active[k].peers.Len()
	}
	w.budget.Spend(cost)
	if w.follower != nil {
		w.budget.Spend(len(w.done))
		w.reportLost(i, yes)
	}
	if r.stage == stageBaseline && w.byKubernetes {
		for k := range w.active {
			if lost := w.active[k].peers.Intersect(yes); w.follower != nil && !lost.Empty() {
				w.follower.lost(i, noRule, lost)
			}
		}
		return
	}
	active := w.active
	w.next = nil
	for _, g := range active {
		if r.stage == stageTiers && !g.inTiers {
			w.keep(g)
			continue
		}
		hit, open, rest := g, g, g
		hit.peers, rest.peers = g.peers.Intersect(yes), g.peers.Minus(yes)
		open.peers, rest.peers = rest.peers.Intersect(maybe), rest.peers.Minus(maybe)
		if w.follower != nil && (!hit.peers.Empty() || !open.peers.Empty()) {
			w.follower.used(i)
		}
		if !hit.peers.Empty() {
			w.hit(i, hit)
		}
		if !open.peers.Empty() {
			w.keep(w.may(r, open))
		}
		w.keep(rest)
	}
	w.active = w.next
}

// reportLost reports what the rule would match, but what is decided or passed on.
func (w *walk) reportLost(i int, yes addrset.Set) {
	for k := range w.done {
		if lost := w.done[k].peers.Intersect(yes); w.done[k].ended != noRule && !lost.Empty() {
			w.follower.lost(i, w.done[k].ended, lost)
		}
	}
	for k := range w.active {
		g := &w.active[k]
		if w.policies.rules[i].stage == stageTiers && !g.inTiers && len(g.passes) > 0 {
			if lost := g.peers.Intersect(yes); !lost.Empty() {
				w.follower.lost(i, g.passes[len(g.passes)-1], lost)
			}
		}
	}
}

// keep goes on with a region, together with those that are in the same state.
func (w *walk) keep(g region) {
	if g.peers.Empty() {
		return
	}
	for k := range w.next {
		if w.next[k].same(&g) {
			w.next[k].peers = w.next[k].peers.Union(g.peers)
			return
		}
	}
	w.next = append(w.next, g)
}

// end decides about a region.
func (w *walk) end(g *region, o outcomes, by int) {
	done := part{peers: g.peers, possible: g.possible | o, by: by, ended: by, passed: g.passes}
	if g.possible&^o != 0 || by != noRule && w.policies.rules[by].rule.Action == policy.Pass {
		done.by = noRule
	}
	w.done = append(w.done, done)
}

// hit applies a rule that matches all of a region.
func (w *walk) hit(i int, g region) {
	r := &w.policies.rules[i]
	switch {
	case r.rule.Action == policy.Pass:
		g.passes = append(slices.Clone(g.passes), i)
		if r.stage == stageBaseline {
			w.end(&g, w.byDefault(), i)
			return
		}
		g.inTiers, g.passed = false, true
		w.keep(g)
	case r.stage == stageTiers && g.passed:
		// Only the branch that has not passed ends here.
		g.possible |= outcomeOf(r.rule.Action)
		g.inTiers = false
		w.keep(g)
	default:
		w.end(&g, outcomeOf(r.rule.Action), i)
	}
}

// may applies a rule that may match all of a region.
func (w *walk) may(r *rule, g region) region {
	switch {
	case r.rule.Action == policy.Pass && r.stage == stageBaseline:
		g.possible |= w.byDefault()
	case r.rule.Action == policy.Pass:
		g.passed = true
	default:
		g.possible |= outcomeOf(r.rule.Action)
	}
	return g
}
