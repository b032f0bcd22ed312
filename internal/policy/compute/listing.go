package compute

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
)

// Listing returns everything computed. It must be called right after Commit: changes made since may
// show in part. Its cost is the size of the result.
func (e *Engine) Listing() *policy.Listing {
	l := &policy.Listing{
		AddressGroups:   e.listGroups(policy.AddressGroup),
		AppliedToGroups: e.listGroups(policy.AppliedToGroup),
	}
	for p := range e.policies.All() {
		if p.out != nil {
			l.Policies = append(l.Policies, policy.PolicySpan{ComputedPolicy: p.out, Span: e.hosts.Table.Keys(p.reach.hostSpan())})
		}
	}
	slices.SortFunc(l.Policies, func(a, b policy.PolicySpan) int { return strings.Compare(a.Source.UID, b.Source.UID) })
	return l
}

// referred returns the Namespaces of the Services that a group is made of, whether or not there are
// any of these names.
func (d *groupDef) referred() []string {
	var out []string
	for _, of := range append([]*groupDef{d}, d.children...) {
		if of.in != nil && of.in.ServiceReference != nil {
			out = append(out, of.in.ServiceReference.Namespace)
		}
	}
	return out
}

// within returns the Namespaces that a group is confined to, with those that it refers to; nil if
// it is to none.
func (g *group) within(referred []string) []string {
	out := append([]string{}, referred...)
	if g.selection != nil && !g.selection.Confine(&out) {
		return nil
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (e *Engine) listGroups(role policy.GroupRole) []policy.ComputedGroup {
	out := make([]policy.ComputedGroup, 0, e.groups.count[role])
	list := func(g *group, referred ...string) {
		if g != nil && g.role == role && !g.gone {
			out = append(out, policy.ComputedGroup{
				Role: role, Name: g.name, UID: g.uidOf(), Members: g.members(),
				Span: e.hosts.Table.Keys(g.hostSpan()), Within: g.within(referred),
			})
		}
	}
	for s := range e.world.Selections.All() {
		if g, is := s.Own[role].(*group); is {
			list(g)
		}
	}
	for _, d := range e.definitions.byName {
		list(d.computed[role], d.referred()...)
	}
	for _, g := range e.groups.services {
		list(g)
	}
	slices.SortFunc(out, func(a, b policy.ComputedGroup) int { return strings.Compare(a.Name, b.Name) })
	return out
}
