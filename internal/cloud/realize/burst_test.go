package realize

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/cloud"
)

// looker counts the observations that the realizer makes.
type looker struct {
	cloud.Provider
	l *lab
	n atomic.Int32
}

func (o *looker) Observe(ctx context.Context, s cloud.Scope) (*cloud.Snapshot, error) {
	if !o.l.accounts.reading.Load() {
		o.n.Add(1)
	}
	return o.Provider.Observe(ctx, s)
}

// TestBurst: a hundred label changes in a second become few plans.
func TestBurst(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{clock: clock.RealClock{}})
	l.options.Settle = 100 * time.Millisecond
	seen := &looker{Provider: l.accounts.account.Provider, l: l}
	l.accounts.account.Provider = seen
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	before := seen.n.Load()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range 100 {
		l.relabel("ops-1", []string{"web", "ops"}[i%2])
		l.publish()
		<-tick.C
	}
	// What comes last must not undo what nobody has seen yet: that would be no change to
	// realize.
	l.engine.PutPolicy(dbNoShell())
	l.relabel("ops-1", "web")
	l.publish()
	l.settle()
	if d := compare(l.actual(), l.wanted()); d != "" {
		t.Error(d)
	}
	// Each plan takes up to maxRestarts observations more while objects keep coming, and one at
	// the end.
	if n := seen.n.Load() - before; n > 30 {
		t.Errorf("%d observations for 100 changes", n)
	} else {
		t.Logf("%d observations for 100 changes", n)
	}
}

// TestClockJumpsWhileRealizing: the system clock jumps back and ahead between changes.
func TestClockJumpsWhileRealizing(t *testing.T) {
	t.Parallel()
	w := newWarp()
	l := newLab(t, labConfig{clock: w})
	l.start()
	for i, ev := range history() {
		ev.do(l)
		w.Step([]time.Duration{-24 * time.Hour, 365 * 24 * time.Hour, -time.Hour, -400 * 24 * time.Hour}[i%4])
		l.publish()
		l.until(ev.name, func() bool { return compare(l.actual(), l.wanted()) == "" })
	}
}

// TestReconsider: what no account and no computed object shows leads to a new plan when somebody
// says so.
func TestReconsider(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{clock: clock.RealClock{}})
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	l.settle()
	before := len(l.sink.list())
	l.realizer.Reconsider()
	l.until("planned again", func() bool { return len(l.sink.list()) > before })
}
