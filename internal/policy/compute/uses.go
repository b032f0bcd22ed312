package compute

import (
	"slices"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/selectors"
	"github.com/nephele-io/nephele/internal/policy/slab"
	"github.com/nephele-io/nephele/internal/policy/translate"
	"github.com/nephele-io/nephele/internal/policy/world"
)

// uses is what one policy uses of the rest, as its translation asks for it: it is the Resolver of
// the Engine. Of what is in it the policy has a use each.
type uses struct {
	e *Engine
	// serial marks the groups that are in atgs and ags already.
	serial    uint64
	atgs, ags []*group
	// defs are the definitions of the Groups that the policy names, fences the fences of their
	// selections.
	defs   []*groupDef
	fences []*fence
	lists  slab.Slab[*group]
}

// reset begins another policy. What the last one used is not given up: it has been taken over.
func (u *uses) reset() {
	u.serial++
	u.atgs, u.ags, u.defs, u.fences = slab.Scratch(u.atgs), nil, nil, nil
}

// Restart implements Resolver.
func (u *uses) Restart() {
	u.releaseGroups()
	for _, f := range u.fences {
		u.e.fences.release(&u.e.world, f)
	}
	u.reset()
}

// releaseGroups gives up the groups, of which a policy that computes to nothing uses none.
func (u *uses) releaseGroups() {
	for _, g := range u.atgs {
		u.e.groups.release(g)
	}
	for _, g := range u.ags {
		u.e.groups.release(g)
	}
	u.atgs, u.ags = u.atgs[:0], nil
}

// keep takes over a use of a group: one, however often the policy names it.
func (u *uses) keep(g *group) string {
	if g.mark == u.serial {
		u.e.groups.release(g)
		return g.name
	}
	g.mark = u.serial
	if g.role == policy.AddressGroup {
		if u.ags == nil {
			u.ags = slab.Room(u.e.arena, &u.lists, 1)
		}
		u.ags = append(u.ags, g)
	} else {
		u.atgs = append(u.atgs, g)
	}
	return g.name
}

// Group implements Resolver.
func (u *uses) Group(role policy.GroupRole, t selectors.Terms) string {
	return u.keep(u.e.groups.acquire(&u.e.world, role, &t))
}

// ServiceGroup implements Resolver.
func (u *uses) ServiceGroup(name policy.NamespacedName) string {
	return u.keep(u.e.groups.acquireService(name))
}

// Definition implements Resolver.
func (u *uses) Definition(name policy.NamespacedName) translate.Definition {
	d := u.e.definitions.named(name)
	if !slices.Contains(u.defs, d) {
		u.defs = append(u.defs, d)
	}
	return d
}

// DefinedGroup implements Resolver.
func (u *uses) DefinedGroup(role policy.GroupRole, name policy.NamespacedName) (string, bool) {
	g := u.e.definitions.groupOf(role, u.e.definitions.named(name))
	if g == nil {
		return "", false
	}
	return u.keep(g), true
}

// Foreign implements Resolver. The fence has the policy computed again when the answer changes.
func (u *uses) Foreign(t *selectors.Terms, home string) bool {
	f := u.e.fences.acquire(&u.e.world, t, home)
	u.fences = append(u.fences, f)
	return f.foreign > 0
}

// Tier implements Resolver.
func (u *uses) Tier(name string) (int32, bool) {
	priority, known := u.e.tiers[name]
	return priority, known
}

// Logs implements Resolver.
func (u *uses) Logs(namespace string) bool { return u.e.world.Logs(namespace) }

// Namespaces implements Resolver.
func (u *uses) Namespaces(t *selectors.Terms, f func(name string, labels *selectors.Set)) {
	u.e.world.EachNamespace(t, func(n *world.Namespace) { f(n.Name, n.Labels) })
}
