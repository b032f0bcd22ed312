package convert

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/policy"
)

// TestPartsAreTheDelta: what a Commit changed is published as the same in parts and as a whole, and
// a member of several groups is one object, however many there are.
func TestPartsAreTheDelta(t *testing.T) {
	build := func() *policy.Engine {
		e := policy.New(policy.Options{})
		for i := range 3 * memberPage {
			e.PutEntity(policy.Entity{
				EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "n", Name: fmt.Sprint("p", i)}, Host: "h",
				Labels: map[string]string{"odd": fmt.Sprint(i % 2)}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})},
			})
		}
		for i := range partSize + 1 {
			odd := &policy.Selector{MatchLabels: map[string]string{"odd": fmt.Sprint(i % 2)}}
			e.PutPolicy(policy.Policy{
				Kind: policy.KubernetesNetworkPolicy, Namespace: "n", Name: fmt.Sprint(i), UID: fmt.Sprint(i), AppliedTo: []policy.AppliedTo{{PodSelector: odd}},
				Ingress: []policy.Rule{{Peers: []policy.Peer{{PodSelector: odd}, {PodSelector: &policy.Selector{}}}}},
			})
		}
		return e
	}
	var parts watchstore.Changes
	n := 0
	for c := range Parts(build().CommitChanges()) {
		n++
		parts.AddressGroups = append(parts.AddressGroups, c.AddressGroups...)
		parts.AppliedToGroups = append(parts.AppliedToGroups, c.AppliedToGroups...)
		parts.Policies = append(parts.Policies, c.Policies...)
	}
	byName := func(a, b watchstore.GroupChange) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(parts.AddressGroups, byName)
	slices.SortFunc(parts.AppliedToGroups, byName)
	slices.SortFunc(parts.Policies, func(a, b watchstore.PolicyChange) int { return strings.Compare(a.Name, b.Name) })
	whole := Delta(build().Commit())
	if diff := cmp.Diff(whole, parts); diff != "" || n != 4 {
		t.Errorf("%d parts (-whole +parts)\n%s", n, diff)
	}
	known := map[string]*watchstore.Member{}
	shared := 0
	for _, g := range parts.AddressGroups {
		for _, m := range g.Added {
			if former := known[m.Pod.Name]; former != nil && former != m {
				t.Fatalf("%s is two objects", m.Pod.Name)
			} else if former != nil {
				shared++
			}
			known[m.Pod.Name] = m
		}
	}
	if want := 3 * memberPage; len(known) != want || shared != want {
		t.Errorf("%d members, %d of them in two groups, want %d", len(known), shared, want)
	}
}

// TestDenyAllIsShared: the rule of a policy that denies all is what any rule would be converted to,
// and takes no memory of its own.
func TestDenyAllIsShared(t *testing.T) {
	for _, d := range []policy.Direction{policy.Ingress, policy.Egress} {
		for _, logging := range []bool{false, true} {
			p := &policy.ComputedPolicy{Rules: []policy.ComputedRule{{Direction: d, EnableLogging: logging}}}
			got := ComputedPolicy(p).Rules
			if diff := cmp.Diff([]v1beta2.NetworkPolicyRule{computedRule(&p.Rules[0])}, got); diff != "" {
				t.Error(diff)
			}
			if again := ComputedPolicy(p).Rules; &again[0] != &got[0] || cap(again) != 1 {
				t.Errorf("%s %t: not shared", d, logging)
			}
		}
	}
}
