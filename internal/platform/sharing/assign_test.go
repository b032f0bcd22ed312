package sharing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/seed"
)

// TestAssign: in random sets of seats every shard has one of them, whatever their order; a seat
// that comes takes shards only for itself, one that goes leaves only its own; and nobody has much
// more than his part.
func TestAssign(t *testing.T) {
	t.Parallel()
	seed := seed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		const shards = 64
		var slots []string
		for i := range 8 {
			if rng.IntN(2) == 0 {
				slots = append(slots, fmt.Sprintf("seat-%d", i))
			}
		}
		before := Assign(shards, slots)
		shuffled := slices.Clone(slots)
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if !slices.Equal(before, Assign(shards, shuffled)) {
			t.Fatalf("the order of %v counts", slots)
		}
		count := map[string]int{}
		for _, s := range before {
			count[s]++
			if len(slots) > 0 && !slices.Contains(slots, s) {
				t.Fatalf("%v: %q", slots, s)
			}
		}
		for s, n := range count {
			if len(slots) > 1 && n > 2*shards/len(slots) {
				t.Errorf("%v: %s has %d of %d", slots, s, n, shards)
			}
		}
		came := fmt.Sprintf("new-%d", rng.IntN(1000))
		after, moved := Assign(shards, append(slices.Clone(slots), came)), 0
		for i := range after {
			if after[i] != before[i] {
				if moved++; after[i] != came {
					t.Fatalf("shard %d moved from %q to %q when %s came", i, before[i], after[i], came)
				}
			}
		}
		if most := 2 * shards / (len(slots) + 1); moved > most && len(slots) > 0 {
			t.Errorf("%d shards moved when one came to %d seats", moved, len(slots))
		}
	}
}

// TestShardOf: keys are spread evenly, and the hash is the one that other versions have.
func TestShardOf(t *testing.T) {
	t.Parallel()
	count := map[int]int{}
	for i := range 6400 {
		count[ShardOf(fmt.Sprintf("namespace/account-%d", i), 64)]++
	}
	for shard, n := range count {
		if n < 50 || n > 160 {
			t.Errorf("shard %d has %d of 6400 keys", shard, n)
		}
	}
	if got := ShardOf("cloud/production", 64); got != goldenShard {
		t.Errorf("cloud/production is in shard %d; the hash may never change, or two versions disagree", got)
	}
}
