// Package nfttest makes what a host's enforcer would receive of a computed world, for tests of the
// agent. It promises nothing to anything but tests.
package nfttest

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/policy"
)

// Computed returns what concerns one entity, as if it alone had its enforcer key.
func Computed(l *policy.Listing, ref policy.EntityRef) enforcer.Computed {
	return computed(l, func(m *policy.Member) bool { return m.EntityRef == ref })
}

// ComputedFor returns what concerns an enforcer key.
func ComputedFor(l *policy.Listing, key string) enforcer.Computed {
	return computed(l, func(m *policy.Member) bool { return m.On(key) })
}

func computed(l *policy.Listing, on func(m *policy.Member) bool) enforcer.Computed {
	var out enforcer.Computed
	applied := map[string]bool{}
	for _, g := range l.AppliedToGroups {
		var members []v1beta2.GroupMember
		for _, m := range g.Members {
			if on(m) {
				members = append(members, convert.GroupMember(policy.AppliedToGroup, m))
			}
		}
		if len(members) > 0 {
			applied[g.Name] = true
			out.AppliedToGroups = append(out.AppliedToGroups, &v1beta2.AppliedToGroup{ObjectMeta: metav1.ObjectMeta{Name: g.Name}, GroupMembers: members})
		}
	}
	used := map[string]bool{}
	for _, p := range l.Policies {
		groups := slices.Clone(p.AppliedToGroups)
		for _, r := range p.Rules {
			groups = append(groups, r.AppliedToGroups...)
		}
		if !slices.ContainsFunc(groups, func(g string) bool { return applied[g] }) {
			continue
		}
		out.Policies = append(out.Policies, convert.ComputedPolicy(p.ComputedPolicy))
		for _, r := range p.Rules {
			for _, g := range r.AddressGroups {
				used[g] = true
			}
		}
	}
	for _, g := range l.AddressGroups {
		if !used[g.Name] {
			continue
		}
		a := &v1beta2.AddressGroup{ObjectMeta: metav1.ObjectMeta{Name: g.Name}}
		for _, m := range g.Members {
			a.GroupMembers = append(a.GroupMembers, convert.GroupMember(policy.AddressGroup, m))
		}
		out.AddressGroups = append(out.AddressGroups, enforcer.NewAddressGroup(a))
	}
	return out
}

// Without returns the listing without the policies of the given names.
func Without(l *policy.Listing, names []string) *policy.Listing {
	out := *l
	out.Policies = slices.DeleteFunc(slices.Clone(l.Policies), func(p policy.PolicySpan) bool { return slices.Contains(names, p.Source.UID) })
	return &out
}
