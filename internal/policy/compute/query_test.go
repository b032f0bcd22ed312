package compute_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// queryWorld is a random world after a history in which things came and went.
func queryWorld(seed uint64) (*compute.Engine, *policytest.World, *rand.Rand) {
	r := rand.New(rand.NewPCG(seed, 23))
	draw := policytest.Draw(r.IntN)
	e, w := compute.New(compute.Options{}), policytest.NewWorld()
	var past []policytest.Object
	for range 150 {
		if len(past) > 20 && r.IntN(4) == 0 {
			o := past[r.IntN(len(past))]
			policytest.Delete(e, o)
			w.Delete(o)
			continue
		}
		o := draw.Object()
		policytest.Put(e, o)
		w.Put(o)
		past = append(past, o)
		if r.IntN(10) == 0 {
			e.Commit()
		}
	}
	e.Commit()
	return e, w, r
}

// TestGroupQueriesAgainstNaive holds membership questions against an oracle that tries everything.
func TestGroupQueriesAgainstNaive(t *testing.T) {
	options := []cmp.Option{cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Prefix{})}
	members := 0
	for seed := range uint64(80) {
		e, w, _ := queryWorld(seed)
		for name, g := range w.Groups {
			got, ok := e.GroupContent(name)
			if !ok || got.UID != g.UID {
				t.Fatalf("seed %d: group %v is not there", seed, name)
			}
			var refs []policy.EntityRef
			for _, m := range got.Members {
				refs = append(refs, m.EntityRef)
			}
			slices.SortFunc(refs, func(a, b policy.EntityRef) int { return compareRefs(a, b) })
			members += len(refs)
			want, blocks := policytest.GroupMembers(w, name)
			if diff := cmp.Diff(want, refs, options...); diff != "" {
				t.Fatalf("seed %d: members of %v (-oracle +engine):\n%s", seed, name, diff)
			}
			if diff := cmp.Diff(blocks, got.Blocks, options...); diff != "" {
				t.Fatalf("seed %d: ipBlocks of %v (-oracle +engine):\n%s", seed, name, diff)
			}
		}
		for ref := range w.Entities {
			got, ok := e.GroupsOf(ref)
			if !ok {
				t.Fatalf("seed %d: %v is not there", seed, ref)
			}
			if diff := cmp.Diff(policytest.GroupsOf(w, ref), names(got), options...); diff != "" {
				t.Fatalf("seed %d: groups of %v (-oracle +engine):\n%s", seed, ref, diff)
			}
		}
		for _, a := range []string{"10.0.0.1", "10.0.0.5", "192.168.0.2", "2001:db8::1"} {
			at := netip.MustParseAddr(a)
			var got []compute.GroupRef
			for _, g := range e.BlockGroups() {
				if g.Contains(at) {
					got = append(got, g.GroupRef)
				}
			}
			if diff := cmp.Diff(policytest.GroupsWithAddress(w, at), names(got), options...); diff != "" {
				t.Fatalf("seed %d: groups with %s (-oracle +engine):\n%s", seed, a, diff)
			}
		}
		if d := e.Commit(); !d.Empty() {
			t.Fatalf("seed %d: questions changed something: %+v", seed, d)
		}
	}
	if members < 100 {
		t.Errorf("only %d members were compared", members)
	}
}

// TestPartOfTheListingDecides: what decides about a few entities is in the part of the Listing that
// is about them.
func TestPartOfTheListingDecides(t *testing.T) {
	decided := 0
	for seed := range uint64(60) {
		e, w, r := queryWorld(seed)
		whole := e.Listing()
		var refs []policy.EntityRef
		for ref := range w.Entities {
			refs = append(refs, ref)
		}
		slices.SortFunc(refs, compareRefs)
		for range 40 {
			from, to := w.Entities[refs[r.IntN(len(refs))]], w.Entities[refs[r.IntN(len(refs))]]
			f := evaluate.Flow{Source: evaluate.Endpoint{EntityRef: from.EntityRef}, Destination: evaluate.Endpoint{EntityRef: to.EntityRef},
				Protocol: policy.TCP, Port: uint16(79 + r.IntN(5))}
			given := []policy.EntityRef{from.EntityRef, to.EntityRef}
			if len(from.Addresses) > 0 && len(to.Addresses) > 0 {
				f.Source.Addr, f.Destination.Addr = from.Addresses[0], to.Addresses[0]
				for ref, x := range w.Entities {
					if slices.Contains(x.Addresses, f.Source.Addr) || slices.Contains(x.Addresses, f.Destination.Addr) {
						given = append(given, ref)
					}
				}
			}
			got := evaluate.New(e.AppliedTo(given...)).Evaluate(f)
			for d, g := range map[policy.Direction]evaluate.Decision{policy.Egress: got.Egress, policy.Ingress: got.Ingress} {
				if g.By != nil {
					decided++
				}
				if want := policytest.Decide(whole, f, d); g.Outcome != want {
					t.Fatalf("seed %d, %s of %+v: %s, want %s", seed, d, f, g.Outcome, want)
				}
			}
		}
	}
	if decided < 100 {
		t.Errorf("only %d decisions by a rule", decided)
	}
}

// TestNaming: the policies that are listed are those that apply to the entity, or have it in a
// peer.
func TestNaming(t *testing.T) {
	for seed := range uint64(40) {
		e, w, _ := queryWorld(seed)
		whole := e.Listing()
		holds := func(groups []policy.ComputedGroup, ref policy.EntityRef) (in []string) {
			for _, g := range groups {
				if slices.ContainsFunc(g.Members, func(m *policy.Member) bool { return m.EntityRef == ref }) {
					in = append(in, g.Name)
				}
			}
			return in
		}
		for ref := range w.Entities {
			applied, peers := holds(whole.AppliedToGroups, ref), holds(whole.AddressGroups, ref)
			var want, got []string
			for _, p := range whole.Policies {
				concerned := shares(p.AppliedToGroups, applied)
				for _, r := range p.Rules {
					concerned = concerned || shares(r.AppliedToGroups, applied) || shares(r.AddressGroups, peers)
				}
				if concerned {
					want = append(want, p.Source.UID)
				}
			}
			for _, p := range e.Naming(ref).Policies {
				got = append(got, p.Source.UID)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: %v: %v, want %v", seed, ref, got, want)
			}
		}
	}
}

func shares(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

func names(in []compute.GroupRef) []policy.NamespacedName {
	var out []policy.NamespacedName
	for _, g := range in {
		out = append(out, g.NamespacedName)
	}
	return out
}

func compareRefs(a, b policy.EntityRef) int {
	switch {
	case a.Kind != b.Kind:
		return int(a.Kind) - int(b.Kind)
	case a.Namespace != b.Namespace:
		return cmpString(a.Namespace, b.Namespace)
	}
	return cmpString(a.Name, b.Name)
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// BenchmarkQuery measures how long questions keep the owner of the engine busy in a large world:
// 100,000 Pods.
func BenchmarkQuery(b *testing.B) {
	e := compute.New(compute.Options{})
	for i := range 100 {
		ns := "n" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		e.PutNamespace(policy.Namespace{Name: ns, Labels: map[string]string{"n": ns}})
		for j := range 1000 {
			e.PutEntity(policy.Entity{
				EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: ns, Name: "p" + string(rune('a'+j%26)) + string(rune('a'+j/26%26)) + string(rune('a'+j/676))},
				Labels:    map[string]string{"j": string(rune('a' + j%26)), "k": string(rune('a' + j/26%26))}, Host: "h",
				Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(i), byte(j >> 8), byte(j)})},
			})
		}
	}
	e.PutGroup(policy.Group{Name: "all", PodSelector: &policy.Selector{}})
	for i := range 1000 {
		e.PutGroup(policy.Group{Name: "g" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)),
			PodSelector: &policy.Selector{MatchLabels: map[string]string{"j": string(rune('a' + i%26))}}})
	}
	e.Commit()
	pod := policy.EntityRef{Kind: policy.KindPod, Namespace: "naa", Name: "paaa"}
	b.Run("GroupContent100k", func(b *testing.B) {
		for b.Loop() {
			if c, _ := e.GroupContent(policy.NamespacedName{Name: "all"}); len(c.Members) != 100_000 {
				b.Fatal(len(c.Members))
			}
		}
	})
	b.Run("GroupsOf1000", func(b *testing.B) {
		for b.Loop() {
			if g, _ := e.GroupsOf(pod); len(g) < 2 {
				b.Fatal(len(g))
			}
		}
	})
}
