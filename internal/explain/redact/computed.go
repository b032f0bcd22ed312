package redact

import (
	"slices"

	"github.com/nephele-io/nephele/internal/policy"
)

// Listing leaves out the members of groups that may not be seen, and marks the groups that may have
// some.
func (v *View) Listing(l *policy.Listing) *policy.Listing {
	groups := func(list []policy.ComputedGroup) []policy.ComputedGroup {
		out := make([]policy.ComputedGroup, len(list))
		for i, g := range list {
			out[i] = g
			out[i].Members = slices.DeleteFunc(slices.Clone(g.Members), func(m *policy.Member) bool { return !v.Entity(m.EntityRef) })
			out[i].Unseen = g.Within == nil || slices.ContainsFunc(g.Within, func(n string) bool { return !v.entitiesIn(n) })
		}
		return out
	}
	out := &policy.Listing{AddressGroups: groups(l.AddressGroups), AppliedToGroups: groups(l.AppliedToGroups)}
	elsewhere := map[string]bool{}
	for _, g := range out.AppliedToGroups {
		elsewhere[g.Name] = g.Unseen && len(g.Members) == 0
	}
	for _, p := range l.Policies {
		if visible := here(p.ComputedPolicy, elsewhere); len(visible.Rules) > 0 {
			out.Policies = append(out.Policies, policy.PolicySpan{ComputedPolicy: visible, Span: p.Span})
		}
	}
	return out
}

// here leaves of a policy the rules that apply to an entity that may be seen, or to none at all: it
// does not show in which Namespaces there are rules.
func here(p *policy.ComputedPolicy, elsewhere map[string]bool) *policy.ComputedPolicy {
	out := *p
	out.Rules = keep(p.Rules, func(r policy.ComputedRule) bool {
		groups := r.AppliedToGroups
		if len(groups) == 0 {
			groups = p.AppliedToGroups
		}
		return len(groups) == 0 || slices.ContainsFunc(groups, func(g string) bool { return !elsewhere[g] })
	})
	return &out
}
