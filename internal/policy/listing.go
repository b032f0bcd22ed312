package policy

import (
	"slices"
	"strings"
)

// Listing returns everything computed. It must be called right after Commit: changes made since may
// show in part. Its cost is the size of the result.
func (e *Engine) Listing() *Listing {
	l := &Listing{
		AddressGroups:   e.listGroups(AddressGroup),
		AppliedToGroups: e.listGroups(AppliedToGroup),
	}
	for _, p := range e.policies {
		if p.out != nil {
			l.Policies = append(l.Policies, PolicySpan{p.out, p.reach.hostSpan().keys()})
		}
	}
	slices.SortFunc(l.Policies, func(a, b PolicySpan) int { return strings.Compare(a.Source.UID, b.Source.UID) })
	return l
}

func (e *Engine) listGroups(role GroupRole) []ComputedGroup {
	out := make([]ComputedGroup, 0, e.groupCount[role])
	list := func(g *group) {
		if g != nil && g.role == role && !g.gone {
			out = append(out, ComputedGroup{Role: role, Name: g.name, UID: g.uidOf(), Members: g.members(), Span: g.hostSpan().keys()})
		}
	}
	for _, s := range e.selections {
		list(s.own[role])
	}
	for _, d := range e.groupDefs {
		list(d.computed[role])
	}
	for _, g := range e.serviceGroups {
		list(g)
	}
	slices.SortFunc(out, func(a, b ComputedGroup) int { return strings.Compare(a.Name, b.Name) })
	return out
}
