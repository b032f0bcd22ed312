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
		var seats []string
		for i := range 8 {
			if rng.IntN(2) == 0 {
				seats = append(seats, fmt.Sprintf("seat-%d", i))
			}
		}
		before := Assign(shards, seats)
		shuffled := slices.Clone(seats)
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if !slices.Equal(before, Assign(shards, shuffled)) {
			t.Fatalf("the order of %v counts", seats)
		}
		count := map[string]int{}
		for _, s := range before {
			count[s]++
			if len(seats) > 0 && !slices.Contains(seats, s) {
				t.Fatalf("%v: %q", seats, s)
			}
		}
		for s, n := range count {
			if len(seats) > 1 && n > 2*shards/len(seats) {
				t.Errorf("%v: %s has %d of %d", seats, s, n, shards)
			}
		}
		came := fmt.Sprintf("new-%d", rng.IntN(1000))
		after, moved := Assign(shards, append(slices.Clone(seats), came)), 0
		for i := range after {
			if after[i] != before[i] {
				if moved++; after[i] != came {
					t.Fatalf("shard %d moved from %q to %q when %s came", i, before[i], after[i], came)
				}
			}
		}
		if most := 2 * shards / (len(seats) + 1); moved > most && len(seats) > 0 {
			t.Errorf("%d shards moved when one came to %d seats", moved, len(seats))
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
