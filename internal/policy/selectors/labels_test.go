package selectors

import (
	"fmt"
	"testing"

	"github.com/nephele-io/nephele/internal/policy/slab"
)

// TestManyLabels: of few labels and of many each is found, and no other.
func TestManyLabels(t *testing.T) {
	table := NewSets(&slab.Arena{})
	for _, n := range []int{0, 1, fewPairs, fewPairs + 1, 20_000} {
		labels := map[string]string{}
		for i := range n {
			labels[fmt.Sprint("k", i)] = fmt.Sprint("v", i)
		}
		set := table.Acquire(labels, Label{"extra", "x"})
		for k, v := range labels {
			if got, ok := set.Get(k); !ok || got != v {
				t.Fatalf("%d labels: %s is %q, %t", n, k, got, ok)
			}
		}
		if got, ok := set.Get("extra"); !ok || got != "x" {
			t.Errorf("%d labels: the one more is %q, %t", n, got, ok)
		}
		for _, k := range []string{"", "k", "k00", "zzz", fmt.Sprint("k", n)} {
			if got, ok := set.Get(k); ok {
				t.Errorf("%d labels: %q is %q", n, k, got)
			}
		}
	}
}

// Sets that are found by the map that Pods share are those that are found by what it says, also
// when nobody has one any more and somebody asks for it again.
func TestLabelsOfOneMap(t *testing.T) {
	table := NewSets(&slab.Arena{})
	account := Label{ServiceAccountLabel, "default"}
	for i := range 3 {
		var maps []map[string]string
		for n := range 200 {
			maps = append(maps, map[string]string{"app": fmt.Sprint(n % 150)})
		}
		var held []*Set
		for range 2 {
			for _, m := range maps {
				s := table.Acquire(m, account)
				if again := table.Acquire(map[string]string{"app": m["app"]}, account); again != s {
					t.Fatalf("round %d: %v has two sets", i, m)
				}
				if app, _ := s.Get("app"); app != m["app"] {
					t.Fatalf("round %d: %v is taken for app %s", i, m, app)
				}
				if other := table.Acquire(m, Label{ServiceAccountLabel, "other"}); other == s {
					t.Fatalf("round %d: two accounts have one set", i)
				} else {
					table.Release(other)
				}
				held = append(held, s, s)
			}
		}
		for _, s := range held {
			table.Release(s)
		}
		if len(table.sets) != 0 {
			t.Fatalf("round %d: %d sets are left", i, len(table.sets))
		}
	}
}
