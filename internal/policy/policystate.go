package policy

import (
	"reflect"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/table"
)

// policyState is a policy and what it computes to.
type policyState struct {
	source PolicySource
	at     int32 // index in reach.policies
	// dirty policies are on the Engine's list.
	alive, dirty bool
	// changed policies have been computed again since the last Commit; moved ones have another
	// reach than they had.
	changed, moved bool
	relative       bool
	// out is the computed form, nil if there is none; former is that of the last Commit.
	out, former *ComputedPolicy
	// ags are the address groups that the computed form refers to, each once. The applied-to groups
	// are those of the reach.
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
	errs, warns []FieldError
	formerSpan  []uint32
}

// rest returns what the policy has of what few have.
func (p *policyState) rest() policyMore {
	if p.more == nil {
		return policyMore{}
	}
	return *p.more
}

// PolicySource makes a policy whenever the Engine computes it: what the policy is made from, which
// the caller holds anyway, then need not be held by the Engine a second time.
type PolicySource interface {
	// Ref says which policy it is.
	Ref() PolicyRef
	// Policy returns the policy, the same each time. It may make it in scratch, where it finds what
	// a source made there before and may use its lists and selectors again. The Engine looks at it
	// until it asks for another one.
	Policy(scratch *Policy) *Policy
}

// givenPolicy is a policy that is held.
type givenPolicy Policy

// Ref implements PolicySource.
func (g *givenPolicy) Ref() PolicyRef { return PolicyRef{g.Kind, g.Namespace, g.Name, g.UID} }

// Policy implements PolicySource.
func (g *givenPolicy) Policy(*Policy) *Policy { return (*Policy)(g) }

// touchPolicy puts a policy on the list of policies to compute again.
func (e *Engine) touchPolicy(p *policyState) {
	if !p.dirty {
		p.dirty = true
		e.dirtyPolicies = table.Append(e.dirtyPolicies, p)
	}
}

// PutPolicy adds the policy, or replaces the one with the same UID.
func (e *Engine) PutPolicy(in Policy) { e.PutPolicySource((*givenPolicy)(&in)) }

// PutPolicySource is PutPolicy of the policy that the source makes.
func (e *Engine) PutPolicySource(in PolicySource) {
	uid := in.Ref().UID
	p := e.policies.named(uid)
	if p == nil {
		p = one(&e.slabs, &e.slabs.policies)
		e.policies.Insert(e.policies.Hash(uid), p)
	}
	p.source, p.alive = in, true
	e.touchPolicy(p)
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
		e.touchPolicy(p)
	}
}

// updatePolicies computes the dirty policies again.
func (e *Engine) updatePolicies() []*policyState {
	done := e.dirtyPolicies
	if !e.slabs.closed {
		e.dirtyGroups = slices.Grow(e.dirtyGroups, 2*len(done)) // most have two
	}
	for _, p := range done {
		p.dirty = false
		var t translation
		if p.alive {
			t = e.translate(p.source.Policy(&e.policyScratch))
		}
		p.changed = true
		p.former = p.out
		if t.out == nil || p.out == nil || !reflect.DeepEqual(p.out, t.out) {
			p.out = t.out
		}
		former := p.rest()
		e.rebind(p, &t)
		e.atgScratch = scratchOf(t.atgs)
		if len(former.errs)+len(former.warns)+len(t.errs.list)+len(t.warns.list) > 0 {
			e.touchReport(reportKey{policy: p.source.Ref().UID})
		}
	}
	e.dirtyPolicies = e.donePolicies
	e.donePolicies = nil
	return done
}

// rebind makes the policy refer to what its new translation uses, then gives up what the old one
// used: what both use never goes away in between.
func (e *Engine) rebind(p *policyState, t *translation) {
	oldReach, oldAt, oldAGs, old := p.reach, p.at, p.ags, p.rest()
	p.reach = nil
	if t.out != nil {
		slices.SortFunc(t.atgs, func(a, b *group) int { return strings.Compare(a.name, b.name) })
		e.join(e.reachOf(t.atgs), p, t.ags)
	}
	next := policyMore{defs: t.defs, tier: t.tier, errs: t.errs.list, warns: t.warns.list}
	p.moved = p.former != nil && oldReach != p.reach
	if p.moved && oldReach != nil {
		next.formerSpan = oldReach.hostSpan().snapshot()
	}
	if oldReach != nil {
		at := p.at
		e.quit(oldReach, oldAt, oldAGs)
		if p.reach != nil && oldReach != p.reach {
			p.at = at
		}
		for _, g := range oldReach.atgs() {
			e.releaseGroup(g)
		}
	}
	for _, g := range oldAGs {
		e.releaseGroup(g)
	}
	p.ags, p.more = t.ags, nil
	if len(next.defs)+len(next.errs)+len(next.warns)+len(next.formerSpan) > 0 || next.tier != "" {
		more := next // so that next itself needs no memory
		p.more = &more
	}
	e.refence(p, t.fences)
	for _, d := range t.defs {
		d.policies[p] = struct{}{}
	}
	for _, d := range old.defs {
		if !slices.Contains(t.defs, d) {
			delete(d.policies, p)
			e.dropGroupDef(d)
		}
	}
	if old.tier != t.tier {
		if old.tier != "" {
			removeFrom(e.byTier, old.tier, p)
		}
		if t.tier != "" {
			addTo(e.byTier, t.tier, p)
		}
	}
	if p.relative = t.relative; t.relative {
		e.relative[p] = struct{}{}
	} else {
		delete(e.relative, p)
	}
}
