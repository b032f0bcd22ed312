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
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// TestPartsAreTheDelta: what a Commit changed is published as the same in parts and as a whole, and
// a member of several groups is one, however many there are.
func TestPartsAreTheDelta(t *testing.T) {
	build := func() *compute.Engine {
		e := compute.New(compute.Options{})
		for i := range 700 {
			e.PutEntity(policy.Entity{
				EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "n", Name: fmt.Sprint("p", i)}, Host: fmt.Sprint("h", i%12),
				Labels: map[string]string{"odd": fmt.Sprint(i % 2), "id": fmt.Sprint(i)}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})},
			})
		}
		for i := range partSize + 1 {
			odd := &policy.Selector{MatchLabels: map[string]string{"odd": fmt.Sprint(i % 2)}}
			e.PutPolicy(policy.Policy{
				Kind: policy.KubernetesNetworkPolicy, Namespace: "n", Name: fmt.Sprint(i), UID: fmt.Sprint(i), AppliedTo: []policy.AppliedTo{{PodSelector: odd}},
				Ingress: []policy.Rule{{Peers: []policy.Peer{
					{PodSelector: odd}, {PodSelector: &policy.Selector{}}, {PodSelector: &policy.Selector{MatchLabels: map[string]string{"id": fmt.Sprint(i)}}},
				}}},
			})
		}
		for i := range 24 { // with more spans than a few, each of two policies
			e.PutPolicy(policy.Policy{
				Kind: policy.KubernetesNetworkPolicy, Namespace: "n", Name: fmt.Sprint("one", i), UID: fmt.Sprint("one", i),
				AppliedTo: []policy.AppliedTo{{PodSelector: &policy.Selector{MatchLabels: map[string]string{"id": fmt.Sprint(i)}}}},
			})
		}
		return e
	}
	var parts watchstore.Changes
	n := 0
	for c := range new(Parts).Of(build().CommitChanges()) {
		n++
		parts.AddressGroups = append(parts.AddressGroups, c.AddressGroups...)
		parts.AppliedToGroups = append(parts.AppliedToGroups, c.AppliedToGroups...)
		parts.Policies = append(parts.Policies, c.Policies...)
	}
	numbers, spans := map[uint32]string{}, map[string]uint32{}
	number := func(of *uint32, span []string) {
		text := fmt.Sprint(span)
		if known, is := numbers[*of]; is && known != text {
			t.Errorf("the spans %s and %s have the number %d", known, text, *of)
		}
		if known, is := spans[text]; is && known != *of {
			t.Errorf("the span %s has the numbers %d and %d", text, known, *of)
		}
		if *of != 0 {
			numbers[*of], spans[text], *of = text, *of, 0
		}
	}
	for i := range parts.AddressGroups {
		number(&parts.AddressGroups[i].SpanNumber, parts.AddressGroups[i].SpanAdded)
	}
	for i := range parts.AppliedToGroups {
		number(&parts.AppliedToGroups[i].SpanNumber, parts.AppliedToGroups[i].SpanAdded)
	}
	for i := range parts.Policies {
		number(&parts.Policies[i].SpanNumber, parts.Policies[i].SpanAdded)
	}
	if len(numbers) != 15 {
		t.Errorf("%d spans have numbers, want 15", len(numbers))
	}
	for _, g := range parts.AppliedToGroups { // what is new is in no order
		slices.SortFunc(g.Added, func(a, b watchstore.Member) int {
			_, _, nameA := a.Reference()
			_, _, nameB := b.Reference()
			return strings.Compare(nameA, nameB)
		})
	}
	byName := func(a, b watchstore.GroupChange) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(parts.AddressGroups, byName)
	slices.SortFunc(parts.AppliedToGroups, byName)
	slices.SortFunc(parts.Policies, func(a, b watchstore.PolicyChange) int { return strings.Compare(a.Name, b.Name) })
	whole := Delta(build().Commit())
	same := cmp.Comparer(func(a, b watchstore.Member) bool {
		var x, y v1beta2.GroupMember
		a.Fill(&x, &watchstore.Room{})
		b.Fill(&y, &watchstore.Room{})
		hostA, _ := a.Place()
		hostB, _ := b.Place()
		return cmp.Equal(x, y) && hostA == hostB
	})
	if diff := cmp.Diff(whole, parts, same); diff != "" || n != 5 {
		t.Errorf("%d parts (-whole +parts)\n%s", n, diff)
	}
	known := map[string]watchstore.Member{}
	shared := 0
	for _, g := range parts.AddressGroups {
		for _, m := range g.Added {
			_, _, name := m.Reference()
			if former := known[name]; former != nil && former != m {
				t.Fatalf("%s is two", name)
			} else if former != nil {
				shared++
			}
			known[name] = m
		}
	}
	if want := 700; len(known) != want || shared != 2*want {
		t.Errorf("%d members, again %d times in other groups, want %d, twice", len(known), shared, want)
	}
}

// TestDenyAllIsShared: the rules of a policy that denies all are what any rules would be converted
// to, and take no memory of their own.
func TestDenyAllIsShared(t *testing.T) {
	for _, logging := range []bool{false, true} {
		rule := func(d policy.Direction, logging bool, a policy.Action) policy.ComputedRule {
			return policy.NewRule(policy.RuleContent{Direction: d, EnableLogging: logging, Action: a}, policy.ComputedPeer{}, nil)
		}
		in, out, other := rule(policy.Ingress, logging, ""), rule(policy.Egress, logging, ""), rule(policy.Ingress, !logging, "")
		for _, c := range []struct {
			rules  []policy.ComputedRule
			shared bool
		}{
			{[]policy.ComputedRule{in}, true},
			{[]policy.ComputedRule{out}, true},
			{[]policy.ComputedRule{in, out}, true},
			{[]policy.ComputedRule{out, in}, false},
			{[]policy.ComputedRule{in, in}, false},
			{[]policy.ComputedRule{other, out}, false},
			{[]policy.ComputedRule{in, out, out}, false},
			{[]policy.ComputedRule{in, rule(policy.Egress, logging, policy.Allow)}, false},
		} {
			p := &policy.ComputedPolicy{Rules: c.rules}
			got, again := ComputedPolicy(p).Rules, ComputedPolicy(p).Rules
			var want []v1beta2.NetworkPolicyRule
			for i := range c.rules {
				want = append(want, ruleOf(&c.rules[i]))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if (&again[0] == &got[0]) != c.shared || cap(again) != len(again) {
				t.Errorf("%v: shared %t", c.rules, !c.shared)
			}
		}
	}
}

// TestMembersAreWhatIsConverted: a member that the store makes is what GroupMember converts, and
// tells its parts rightly beforehand.
func TestMembersAreWhatIsConverted(t *testing.T) {
	addresses := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")}
	kinds := []policy.EntityKind{policy.KindExternalEntity, policy.KindPod, policy.KindNode, policy.KindService, policy.KindRemote}
	for _, kind := range kinds {
		for n := range len(addresses) + 1 {
			for _, ports := range [][]policy.NamedPort{nil, {{Name: "http", Protocol: policy.TCP, Port: 80}}} {
				m := &policy.Member{EntityRef: policy.EntityRef{Kind: kind, Namespace: "n", Name: "m"}, IPs: addresses[:n], Ports: ports, Host: "h", Everywhere: kind == policy.KindService}
				for role, list := range [][]watchstore.Member{peers([]*policy.Member{m}, nil), applied([]*policy.Member{m}, nil)} {
					var got v1beta2.GroupMember
					list[0].Fill(&got, &watchstore.Room{})
					given := &watchstore.GivenMember{GroupMember: GroupMember(policy.GroupRole(role), m)}
					if role == int(policy.AppliedToGroup) {
						given.Host, given.Everywhere = "h", m.Everywhere
					}
					if diff := cmp.Diff(given.GroupMember, got); diff != "" {
						t.Error(diff)
					}
					if diff := cmp.Diff(partsOf(given), partsOf(list[0])); diff != "" {
						t.Errorf("%s with %d addresses in role %d: %s", kind, n, role, diff)
					}
				}
			}
		}
	}
}

// partsOf is what a member tells of itself, Nodes' namespaces and the like left out.
func partsOf(m watchstore.Member) []any {
	kind, namespace, name := m.Reference()
	host, everywhere := m.Place()
	addresses, ports := m.Shape()
	out := []any{kind, namespace, name, host, everywhere, addresses, ports}
	for i := range addresses {
		out = append(out, m.Address(i))
	}
	return out
}

func ruleOf(r *policy.ComputedRule) (out v1beta2.NetworkPolicyRule) {
	fillRule(&out, r)
	return out
}
