package policy

import (
	"fmt"
	"testing"
)

// TestManyLabels: of few labels and of many each is found, and no other.
func TestManyLabels(t *testing.T) {
	table := labelTable{sets: map[string]*labelSet{}, slabs: &slabs{}}
	for _, n := range []int{0, 1, fewPairs, fewPairs + 1, 20_000} {
		labels := map[string]string{}
		for i := range n {
			labels[fmt.Sprint("k", i)] = fmt.Sprint("v", i)
		}
		set := table.acquire(labels, label{"extra", "x"})
		for k, v := range labels {
			if got, ok := set.get(k); !ok || got != v {
				t.Fatalf("%d labels: %s is %q, %t", n, k, got, ok)
			}
		}
		if got, ok := set.get("extra"); !ok || got != "x" {
			t.Errorf("%d labels: the one more is %q, %t", n, got, ok)
		}
		for _, k := range []string{"", "k", "k00", "zzz", fmt.Sprint("k", n)} {
			if got, ok := set.get(k); ok {
				t.Errorf("%d labels: %q is %q", n, k, got)
			}
		}
	}
}
