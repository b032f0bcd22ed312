package policy

import (
	"maps"
	"slices"
	"strings"
)

// Listing returns everything computed. It must be called right after Commit: changes made since may show in part. Its
// cost is the size of the result.
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
	names := slices.Sorted(maps.Keys(e.groups[role]))
	out := make([]ComputedGroup, len(names))
	for i, name := range names {
		g := e.groups[role][name]
		out[i] = ComputedGroup{Role: role, Name: name, UID: g.uid, Members: g.members(), Span: g.hostSpan().keys()}
	}
	return out
}
