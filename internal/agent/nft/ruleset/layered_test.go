package ruleset

import (
	"maps"
	"math/rand/v2"
	"testing"
)

// TestLayered changes versions at random beside plain maps that are copied: each version stays as
// it was, whatever becomes of those after it.
func TestLayered(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		size := 1 + random.IntN(500)
		var all []*Layered[int, int]
		var wanted []map[int]int
		now := NewLayered[int, int](nil)
		want := map[int]int{}
		for range 300 {
			for range random.IntN(20) {
				if key := random.IntN(size); random.IntN(3) == 0 {
					now.Delete(key)
					delete(want, key)
				} else {
					value := random.IntN(5)
					now.Set(key, value)
					want[key] = value
				}
			}
			all, wanted = append(all, now), append(wanted, want)
			now, want = now.Next(), maps.Clone(want)
		}
		for i, l := range all {
			if got := maps.Collect(l.All()); !maps.Equal(got, wanted[i]) || l.Len() != len(got) {
				t.Fatalf("seed %d: version %d has %v and says it has %d, want %v", seed, i, got, l.Len(), wanted[i])
			}
			for key := range size {
				value, there := l.Get(key)
				if is, wants := wanted[i][key]; value != is || there != wants || l.At(key) != is {
					t.Fatalf("seed %d: version %d has %d, %v at %d, want %d, %v", seed, i, value, there, key, is, wants)
				}
			}
			if j := random.IntN(len(all)); l.Equal(all[j], func(a, b int) bool { return a == b }) != maps.Equal(wanted[i], wanted[j]) {
				t.Fatalf("seed %d: versions %d and %d", seed, i, j)
			}
		}
	}
	var none *Layered[int, int]
	if _, there := none.Get(1); there || none.Len() != 0 || len(maps.Collect(none.All())) != 0 || none.Next().Len() != 0 {
		t.Error("a nil one is not empty")
	}
}

// TestLayeredShares: few changes of a large map cost as much as they are.
func TestLayeredShares(t *testing.T) {
	large := map[int]int{}
	for i := range 100_000 {
		large[i] = i
	}
	now := NewLayered(large)
	if n := testing.AllocsPerRun(100, func() {
		now = now.Next()
		now.Set(1, 2)
	}); n > 10 {
		t.Errorf("%v allocations", n)
	}
}
