package realize

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/effect"
	"github.com/nephele-io/nephele/internal/sim/world"
	"github.com/nephele-io/nephele/internal/tier"
)

// TestPropagation plays a history on a cloud whose edits take time to come into force at each
// interface. With spec.propagationSeconds at that time, no packet sees anything but the policies
// before an event or those after it; with 0 some do.
func TestPropagation(t *testing.T) {
	t.Parallel()
	const bound = 8 * time.Second
	played := slices.DeleteFunc(stories(), func(s story) bool { return s.name == "changed midway" })
	played = played[1:tier.Pick(2, 2, len(played))]
	for _, propagation := range []time.Duration{bound, 0} {
		t.Run(propagation.String(), func(t *testing.T) {
			t.Parallel()
			found := 0
			for _, s := range played {
				for seed := range uint64(tier.Pick(1, 2, 4)) {
					wrong := onWire(t, s, effect.Delay{Bound: bound, Seed: seed}, propagation)
					if found += len(wrong); propagation > 0 && len(wrong) > 0 {
						t.Errorf("%s, seed %d: %q", s.name, seed, wrong[:min(len(wrong), 4)])
					}
				}
			}
			t.Logf("%d verdicts of packets were wrong in between", found)
			if propagation == 0 && found == 0 {
				t.Error("without a wait nothing leaks and nothing is cut: the delays do nothing")
			}
		})
	}
}

// onWire plays a history and returns the verdicts of packets that are neither from before an event
// nor from after it.
func onWire(t *testing.T, s story, delay effect.Delay, propagation time.Duration) []string {
	var watching atomic.Pointer[witness]
	s.cfg.tick = func() {
		if w := watching.Load(); w != nil {
			w.look(world.Mutation{Action: "time"})
		}
	}
	l := newLab(t, s.cfg)
	if err := l.server.World().SetEffects(delay); err != nil {
		t.Fatal(err)
	}
	l.accounts.account.Propagation = propagation
	l.publish()
	w := &witness{l: l}
	now := l.wanted()
	w.expect(now, now)
	stop := l.server.World().OnMutation(w.look)
	l.start()
	for _, e := range s.events {
		watching.Store(w)
		next := l.happen(e, w, now)
		l.until("realized", func() bool { l.revive(); return l.unsettled() == "" })
		<-l.options.Clock.After(delay.Bound) // what was accepted last comes into force
		watching.Store(nil)
		if d := compare(l.actual(), next); d != "" {
			t.Fatalf("%s: %s: %s", s.name, e.name, d)
		}
		now = next
	}
	stop()
	l.halt()
	return w.found
}

// TestAzurePropagation is the same on Azure, with every history.
func TestAzurePropagation(t *testing.T) {
	t.Parallel()
	const bound = 8 * time.Second
	for _, propagation := range []time.Duration{bound, 0} {
		t.Run(propagation.String(), func(t *testing.T) {
			t.Parallel()
			found := 0
			for seed, s := range azureStories()[:tier.Pick(1, 1, 5)] {
				l := newAzureLab(t, azureConfig{maxPerWave: s.cfg.maxPerWave, effects: effect.Delay{Bound: bound, Seed: uint64(seed)}})
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
