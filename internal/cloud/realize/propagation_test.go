package realize

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/effect"
	"github.com/nephele-io/nephele/internal/tier"
)

// onWire are the stories on a cloud whose edits come into force at each interface within a bound,
// played by a realizer that waits for it.
func onWire(stories []story, seed uint64, propagation time.Duration) []story {
	for i := range stories {
		stories[i].cfg.effects, stories[i].cfg.propagation = effect.Delay{Bound: effectBound, Seed: seed}, propagation
	}
	return stories
}

const effectBound = 8 * time.Second

// TestPropagation plays histories on a cloud whose edits take time to come into force at each
// interface. With spec.propagationSeconds at that time, no packet sees anything but the policies
// before an event or those after it; with 0 some do.
func TestPropagation(t *testing.T) {
	t.Parallel()
	for seed := range uint64(tier.Pick(1, 2, 4)) {
		all := onWire(stories(), seed, effectBound)
		for _, s := range all[:tier.Pick(2, 2, len(all))] {
			if got := live(t, s); len(got.wrong) > 0 {
				t.Errorf("%s, seed %d: %s", s.name, seed, got)
			}
		}
		if got := live(t, onWire(stories(), seed, 0)[1]); len(got.wrong) == 0 {
			t.Error("without a wait nothing leaks and nothing is cut: the delays do nothing")
		}
	}
}

// TestFaultsOnTheWire disturbs calls of these histories: an answer that is lost, or a realizer that
// dies, does not make the next one open what waits for a rule that is not in force yet.
func TestFaultsOnTheWire(t *testing.T) {
	t.Parallel()
	_, seed := seeded(t)
	ways := disturbances()
	m := &matrix{ways: ways}
	t.Run("stories", func(t *testing.T) {
		all := onWire(stories(), seed, effectBound)
		for i, s := range all[1:tier.Pick(2, 4, len(all))] {
			c := m.column(s.name)
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				c.run(t, s, ways, len(all), rand.New(rand.NewPCG(seed, uint64(i))))
			})
		}
	})
	t.Logf("seed %d; survived of runs\n%s", seed, m)
}

// TestAzurePropagation is the same on Azure, with every history.
func TestAzurePropagation(t *testing.T) {
	t.Parallel()
	for _, propagation := range []time.Duration{effectBound, 0} {
		t.Run(propagation.String(), func(t *testing.T) {
			t.Parallel()
			found := 0
			for seed, s := range azureStories()[:tier.Pick(1, 1, 5)] {
				l := newAzureLab(t, azureConfig{maxPerWave: s.cfg.maxPerWave, effects: effect.Delay{Bound: effectBound, Seed: uint64(seed)}})
				l.accounts.account.Propagation, l.mayLeak = propagation, propagation == 0
				l.live(s.events)
				found += len(l.wrong)
			}
			t.Logf("%d verdicts of packets were wrong in between", found)
			if propagation == 0 && found == 0 {
				t.Error("without a wait nothing leaks and nothing is cut: the delays do nothing")
			}
		})
	}
}
