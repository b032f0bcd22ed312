package realize

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/effect"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// TestPropagation plays a history on a cloud whose edits take time to come into force at each
// interface. With spec.propagationSeconds at that time, no packet sees anything but the policies
// before an event or those after it; with 0 some do.
func TestPropagation(t *testing.T) {
	t.Parallel()
	const bound = 8 * time.Second
	for _, c := range []struct {
		name        string
		propagation time.Duration
		clean       bool
	}{{"waits", bound, true}, {"no wait", 0, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found := 0
			for seed := range uint64(4) {
				var watching atomic.Pointer[witness]
				look := func() {
					if w := watching.Load(); w != nil {
						w.look(world.Mutation{Action: "time"})
					}
				}
				l := newLab(t, labConfig{tick: look})
				if err := l.server.World().SetEffects(effect.Delay{Bound: bound, Seed: seed}); err != nil {
					t.Fatal(err)
				}
				l.accounts.account.Propagation = c.propagation
				l.publish()
				w := &witness{l: l}
				now := l.wanted()
				w.expect(now, now)
				stop := l.server.World().OnMutation(w.look)
				l.start()
				for _, e := range stories()[1].events {
					watching.Store(w)
					next := l.happen(e, w, now)
					l.until("realized", func() bool { return l.unsettled() == "" })
					<-l.options.Clock.After(bound) // what was accepted last comes into force
					watching.Store(nil)
					if d := compare(l.actual(), next); d != "" {
						t.Fatalf("%s: %s", e.name, d)
					}
					now = next
				}
				stop()
				l.halt()
				found += len(w.found)
				if c.clean && len(w.found) > 0 {
					t.Errorf("seed %d: %q", seed, w.found[:min(len(w.found), 4)])
				}
			}
			if !c.clean && found == 0 {
				t.Error("without a wait nothing leaks and nothing is cut: the delays do nothing")
			}
		})
	}
}
