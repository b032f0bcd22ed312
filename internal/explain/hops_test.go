package explain_test

import (
	"math/rand/v2"
	"testing"

	"github.com/nephele-io/nephele/internal/seed"
)

// hopped is a random world of machines behind load balancers, beside a simulator that knows what
// becomes of packets.
type hopped interface {
	// Policies draws some on the targets, and Want makes them what is wanted.
	Policies(n int) []string
	Want(t *testing.T, policies []string)
	// compareHops asks about flows to every front end, and counts what it has seen.
	compareHops(t *testing.T, when string, seen map[string]int)
	Perform(t testing.TB, n int)
}

// compareHopped holds what explain says of every hop against the simulator in random worlds, before
// and after random policies on the targets are enforced. It fails if it has seen less of something
// than is given.
func compareHopped(t *testing.T, worlds int, draw func(*testing.T, *rand.Rand) hopped, least map[string]int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed.Of(t), 16))
	seen := map[string]int{}
	for range worlds {
		w := draw(t, random)
		policies := w.Policies(2)
		for _, when := range []string{"before", "enforced"} {
			w.Want(t, policies)
			w.compareHops(t, when, seen)
			w.Want(t, policies)
			w.Perform(t, -1)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%v", seen)
	for what, n := range least {
		if seen[what] < n {
			t.Errorf("%d times %s, want at least %d: %v", seen[what], what, n, seen)
		}
	}
}
