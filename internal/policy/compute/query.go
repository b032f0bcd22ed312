package compute

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/selectors"
	"github.com/nephele-io/nephele/internal/policy/world"
)

// The methods in this file answer questions about what the Engine holds. Like Listing they must be
// called right after Commit. They change nothing, and cost what they touch. What they return never
// changes and may be read anywhere.

// Size returns how many policies and groups there are. Policies that compute to nothing count.
func (e *Engine) Size() (policies, addressGroups, appliedToGroups int) {
	return e.policies.Len(), e.groups.count[policy.AddressGroup], e.groups.count[policy.AppliedToGroup]
}

// EntityState is what is known of an entity.
type EntityState struct {
	policy.EntityRef
	// Addresses holds the addresses of the entity, IPv4-mapped ones as IPv4.
	Addresses []netip.Addr
	// Excluded marks a Pod that is in no group: one that shares its Node's addresses, or has ended.
	Excluded bool
	// Host is the key of the enforcer responsible, as in Entity; that of a Node is its name.
	Host string
}

// Entity returns what is known of an entity; false if there is none.
func (e *Engine) Entity(ref policy.EntityRef) (EntityState, bool) {
	x := e.world.Entity(ref)
	if x == nil || !x.Alive {
		return EntityState{}, false
	}
	return EntityState{EntityRef: ref, Addresses: x.IPs, Excluded: x.Excluded, Host: x.Host}, true
}

// LabelSets calls f with the labels of the entities of a kind, once for each set of labels in a
// namespace: of one namespace, or with an empty name of all. It ends when f returns false.
func LabelSets(e *Engine, kind policy.EntityKind, namespaceName string, f func(namespace string, labels map[string]string) bool) {
	e.world.LabelSets(kind, namespaceName, func(name string, set *selectors.Set) bool {
		labels := set.AsMap()
		delete(labels, selectors.ServiceAccountLabel)
		return f(name, labels)
	})
}

// GroupRef points at a Group, or at a ClusterGroup if Namespace is empty.
type GroupRef struct {
	policy.NamespacedName
	UID string
}

func compareGroupRefs(a, b GroupRef) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// GroupContent is everything in a Group or ClusterGroup, including what its child groups bring.
type GroupContent struct {
	GroupRef
	// Members are in no order, each once. They are those that an address group made from the group
	// has.
	Members []*policy.Member
	Blocks  []policy.CIDRBlock
	// Problems say why the group counts as empty; nil if it does not.
	Problems []policy.FieldError
}

// GroupContent returns what is in a group, whether or not a policy refers to it; false if there is
// no such group.
func (e *Engine) GroupContent(name policy.NamespacedName) (GroupContent, bool) {
	d := e.definitions.byName[name]
	if d == nil || d.in == nil {
		return GroupContent{}, false
	}
	out := GroupContent{GroupRef: d.groupRef()}
	if out.Problems = d.problems(); len(out.Problems) > 0 {
		return out, true
	}
	out.Blocks = d.IPBlocks()
	cells, most := e.cellsOf(d)
	out.Members = make([]*policy.Member, 0, most)
	for _, c := range cells {
		for _, x := range c.Entities {
			if m := x.In(policy.AddressGroup); m != nil {
				out.Members = append(out.Members, m)
			}
		}
	}
	return out, true
}

// cellsOf returns the cells that a group selects, each once, and how many entities they hold.
func (e *Engine) cellsOf(d *groupDef) (cells []*world.Cell, entities int) {
	leaves := d.Leaves()
	var seen map[*world.Cell]struct{}
	if len(leaves) > 1 {
		seen = make(map[*world.Cell]struct{})
	}
	for _, t := range leaves {
		e.world.EachCell(t, func(c *world.Cell) {
			if seen != nil {
				if _, ok := seen[c]; ok {
					return
				}
				seen[c] = struct{}{}
			}
			cells = append(cells, c)
			entities += len(c.Entities)
		})
	}
	return cells, entities
}

// GroupsOf returns the groups that select the entity, sorted by namespace and name; false if there
// is no such entity. An entity that is excluded is in no group.
func (e *Engine) GroupsOf(ref policy.EntityRef) ([]GroupRef, bool) {
	x := e.world.Entity(ref)
	if x == nil || !x.Alive {
		return nil, false
	}
	var out []GroupRef
	if x.Excluded {
		return out, true
	}
	for _, d := range e.definitions.byName {
		if d.Usable() && slices.ContainsFunc(d.Leaves(), func(t *selectors.Terms) bool { return world.Selects(t, x.Cell) }) {
			out = append(out, d.groupRef())
		}
	}
	slices.SortFunc(out, compareGroupRefs)
	return out, true
}

// BlockGroup is a group with ipBlocks, of its own or of its child groups.
type BlockGroup struct {
	GroupRef
	blocks [][]policy.CIDRBlock
}

// Contains reports whether a block of the group, less its exceptions, contains the address.
func (g *BlockGroup) Contains(a netip.Addr) bool {
	return slices.ContainsFunc(g.blocks, func(b []policy.CIDRBlock) bool { return policy.AnyContains(b, a) })
}

// BlockGroups returns the groups that contain addresses as such, sorted by namespace and name.
func (e *Engine) BlockGroups() []BlockGroup {
	var out []BlockGroup
	for _, d := range e.definitions.byName {
		if !d.Usable() {
			continue
		}
		g := BlockGroup{GroupRef: d.groupRef()}
		if len(d.blocks) > 0 {
			g.blocks = append(g.blocks, d.blocks)
		}
		for _, c := range d.children {
			if c.Usable() && len(c.blocks) > 0 {
				g.blocks = append(g.blocks, c.blocks)
			}
		}
		if len(g.blocks) > 0 {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b BlockGroup) int { return compareGroupRefs(a.GroupRef, b.GroupRef) })
	return out
}

// AppliedTo returns the part of the Listing that decides about flows between the given entities:
// the policies that apply to any of them, the applied-to groups and address groups that they are
// in, and of the members of those the given entities only. Spans are left out. An Evaluator made of
// it decides flows between these entities as one made of the whole Listing does, if every entity
// that has an address of the flow is given.
func (e *Engine) AppliedTo(refs ...policy.EntityRef) *policy.Listing { return e.around(refs, false) }

// Naming is AppliedTo with the policies, too, whose rules have any of the entities in an address
// group.
func (e *Engine) Naming(refs ...policy.EntityRef) *policy.Listing { return e.around(refs, true) }

func (e *Engine) around(refs []policy.EntityRef, named bool) *policy.Listing {
	found := [2]map[*group][]*policy.Member{make(map[*group][]*policy.Member), make(map[*group][]*policy.Member)}
	for _, ref := range refs {
		x := e.world.Entity(ref)
		if x == nil || !x.Alive {
			continue
		}
		for _, link := range x.Cell.SelectedBy {
			link.Selection.EachFollower(func(f world.Follower) {
				g, is := f.(*group)
				if !is {
					return
				}
				m := x.In(g.role)
				if m != nil && !slices.Contains(found[g.role][g], m) {
					found[g.role][g] = append(found[g.role][g], m)
				}
			})
		}
	}
	policies := make(map[*policyState]struct{})
	for g := range found[policy.AppliedToGroup] {
		g.reaches.each(func(r *reach) {
			for _, p := range r.policies {
				if p.appliesTo(g.name) {
					policies[p] = struct{}{}
				}
			}
		})
	}
	if named {
		for g := range found[policy.AddressGroup] {
			g.reaches.each(func(r *reach) {
				for _, p := range r.policies {
					if slices.Contains(p.ags, g) {
						policies[p] = struct{}{}
					}
				}
			})
		}
	}
	l := &policy.Listing{AddressGroups: partial(found[policy.AddressGroup]), AppliedToGroups: partial(found[policy.AppliedToGroup])}
	for p := range policies {
		if p.out != nil {
			l.Policies = append(l.Policies, policy.PolicySpan{ComputedPolicy: p.out})
		}
	}
	slices.SortFunc(l.Policies, func(a, b policy.PolicySpan) int { return strings.Compare(a.Source.UID, b.Source.UID) })
	return l
}

// appliesTo reports whether a rule of the policy applies to the group. A policy with rules relative
// to the Namespace may refer to groups in Namespaces for which none of its rules has come out.
func (p *policyState) appliesTo(group string) bool {
	if p.out == nil || !p.relative {
		return p.out != nil
	}
	return slices.ContainsFunc(p.out.Rules, func(r policy.ComputedRule) bool { return slices.Contains(r.AppliedToGroups, group) })
}

// partial lists groups with some of their members.
func partial(found map[*group][]*policy.Member) []policy.ComputedGroup {
	out := make([]policy.ComputedGroup, 0, len(found))
	for g, members := range found {
		slices.SortFunc(members, policy.CompareMembers)
		out = append(out, policy.ComputedGroup{Role: g.role, Name: g.name, UID: g.uidOf(), Members: members})
	}
	slices.SortFunc(out, func(a, b policy.ComputedGroup) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (d *groupDef) groupRef() GroupRef { return GroupRef{d.name, d.in.UID} }
