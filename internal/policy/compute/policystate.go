package compute

import (
	"reflect"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/slab"
	"github.com/nephele-io/nephele/internal/policy/translate"
	"github.com/nephele-io/nephele/internal/table"
)

// policyState is a policy and what it computes to.
type policyState struct {
	source policy.PolicySource
	at     int32 // index in reach.policies
	// dirty policies are on the Engine's list.
	alive, dirty bool
	// changed policies have been computed again since the last Commit; moved ones have another
	// reach than they had.
	changed, moved bool
	relative       bool
	// out is the computed form, nil if there is none; former is that of the last Commit.
	out, former *policy.ComputedPolicy
	// ags are the address groups that the computed form refers to, each once. The reach has
	// the applied-to groups.
	ags   []*group
	reach *reach
	// more is nil for most Kubernetes policies.
	more *policyMore
}

// policyMore is what few policies have: the defs that the computed form refers to, each once, its
// Tier, what is wrong, and what a policy that has moved concerned.
type policyMore struct {
	defs        []*groupDef
	tier        string
	errs, warns []policy.FieldError
	formerSpan  []uint32
}

// rest returns what the policy has of what few have.
func (p *policyState) rest() policyMore {
	if p.more == nil {
		return policyMore{}
	}
	return *p.more
}

// givenPolicy is a policy that is held.
type givenPolicy policy.Policy

// Ref implements PolicySource.
func (g *givenPolicy) Ref() policy.PolicyRef {
	return policy.PolicyRef{Kind: g.Kind, Namespace: g.Namespace, Name: g.Name, UID: g.UID}
}

// Policy implements PolicySource.
func (g *givenPolicy) Policy(*policy.Policy) *policy.Policy { return (*policy.Policy)(g) }

// policies are the policies that are given, and the ones among them that are to be computed again.
type policies struct {
	policyTable
	slab slab.Slab[policyState]
	// byTier and relative are the policies to compute again when a Tier or any Namespace changes.
	byTier   map[string]map[*policyState]struct{}
	relative map[*policyState]struct{}
	dirty    []*policyState
	done     []*policyState // where the next are listed
}

// touch puts a policy on the list of policies to compute again.
func (ps *policies) touch(p *policyState) {
	if !p.dirty {
		p.dirty = true
		ps.dirty = table.Append(ps.dirty, p)
	}
}

// touchTier puts the policies of a Tier on the list.
func (ps *policies) touchTier(name string) {
	for p := range ps.byTier[name] {
		ps.touch(p)
	}
}

// touchKubernetes puts the Kubernetes NetworkPolicies of a Namespace on the list.
func (ps *policies) touchKubernetes(namespace string) {
	for p := range ps.All() {
		if ref := p.source.Ref(); ref.Kind == policy.KubernetesNetworkPolicy && ref.Namespace == namespace {
			ps.touch(p)
		}
	}
}

// touchRelative puts all policies with rules relative to the Namespace on the list.
func (ps *policies) touchRelative() {
	for p := range ps.relative {
		ps.touch(p)
	}
}

// PutPolicy adds the policy, or replaces the one with the same UID.
func (e *Engine) PutPolicy(in policy.Policy) { e.PutPolicySource((*givenPolicy)(&in)) }

// PutPolicySource is PutPolicy of the policy that the source makes.
func (e *Engine) PutPolicySource(in policy.PolicySource) {
	uid := in.Ref().UID
	p := e.policies.named(uid)
	if p == nil {
		p = slab.One(e.arena, &e.policies.slab)
		e.policies.Insert(e.policies.Hash(uid), p)
	}
	p.source, p.alive = in, true
	e.policies.touch(p)
}

// policyTable finds policies by UID.
type policyTable struct{ table.Table[policyState] }

// named returns the policy with the given UID; nil if there is none.
func (t *policyTable) named(uid string) *policyState {
	return t.Find(t.Hash(uid), func(p *policyState) bool { return p.source.Ref().UID == uid })
}

// DeletePolicy forgets the policy with the given UID.
func (e *Engine) DeletePolicy(uid string) {
	if p := e.policies.named(uid); p != nil && p.alive {
		p.alive = false
		e.policies.touch(p)
	}
}

// updatePolicies computes the dirty policies again.
func (e *Engine) updatePolicies() []*policyState {
	done := e.policies.dirty
	if e.arena.Open() {
		e.groups.dirty = slices.Grow(e.groups.dirty, 2*len(done)) // most have two
	}
	for _, p := range done {
		p.dirty = false
		var now translate.Translated
		e.uses.reset()
		if p.alive {
			now = e.translator.Translate(p.source.Policy(&e.scratch), &e.uses)
		}
		if now.Policy == nil {
			e.uses.releaseGroups()
		}
		p.changed = true
		p.former = p.out
		if now.Policy == nil || p.out == nil || !reflect.DeepEqual(p.out, now.Policy) {
			p.out = now.Policy
		}
		former := p.rest()
		e.rebind(p, &now)
		if len(former.errs)+len(former.warns)+len(now.Errors)+len(now.Warnings) > 0 {
			e.reports.touch(reportKey{policy: p.source.Ref().UID})
		}
	}
	e.uses.reset()
	e.policies.dirty = e.policies.done
	e.policies.done = nil
	return done
}

// rebind makes the policy refer to what its new translation uses, then gives up what the old one
// used: what both use never goes away in between.
func (e *Engine) rebind(p *policyState, t *translate.Translated) {
	u := &e.uses
	oldReach, oldAt, oldAGs, old := p.reach, p.at, p.ags, p.rest()
	p.reach = nil
	if t.Policy != nil {
		slices.SortFunc(u.atgs, func(a, b *group) int { return strings.Compare(a.name, b.name) })
		e.reaches.join(e.reaches.of(u.atgs), p, u.ags)
	}
	next := policyMore{defs: u.defs, tier: t.Tier, errs: t.Errors, warns: t.Warnings}
	p.moved = p.former != nil && oldReach != p.reach
	if p.moved && oldReach != nil {
		next.formerSpan = oldReach.hostSpan().IDs()
	}
	if oldReach != nil {
		at := p.at
		e.reaches.quit(oldReach, oldAt, oldAGs)
		if p.reach != nil && oldReach != p.reach {
			p.at = at
		}
		for _, g := range oldReach.atgs() {
			e.groups.release(g)
		}
	}
	for _, g := range oldAGs {
		e.groups.release(g)
	}
	p.ags, p.more = u.ags, nil
	if len(next.defs)+len(next.errs)+len(next.warns)+len(next.formerSpan) > 0 || next.tier != "" {
		more := next // so that next itself needs no memory
		p.more = &more
	}
	e.fences.refence(&e.world, p, u.fences)
	for _, d := range u.defs {
		d.policies[p] = struct{}{}
	}
	for _, d := range old.defs {
		if !slices.Contains(u.defs, d) {
			delete(d.policies, p)
			e.definitions.drop(d)
		}
	}
	if old.tier != t.Tier {
		if old.tier != "" {
			removeFrom(e.policies.byTier, old.tier, p)
		}
		if t.Tier != "" {
			addTo(e.policies.byTier, t.Tier, p)
		}
	}
	if p.relative = t.Relative; t.Relative {
		e.policies.relative[p] = struct{}{}
	} else {
		delete(e.policies.relative, p)
	}
}
