package realize

import (
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// deaf swallows what the accounts tell of while it is.
type deaf struct {
	*labAccounts
	is atomic.Bool
}

func (d *deaf) Subscribe(changed func(string)) (cancel func()) {
	return d.labAccounts.Subscribe(func(key string) {
		if !d.is.Load() {
			changed(key)
		}
	})
}

// TestHeartbeat: what nobody told of is seen at the next heartbeat: another account, a change, the
// end.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Now())
	l := newLab(t, labConfig{clock: clk})
	d := &deaf{labAccounts: l.accounts}
	l.options.Accounts, l.options.Heartbeat = d, time.Minute
	beats := func(condition func() bool) func() bool {
		return func() bool { clk.Step(10 * time.Second); return condition() }
	}
	l.engine.PutPolicy(webIn())
	l.publish()
	l.accounts.gone = true
	l.start()
	l.until("the realizer waits", clk.HasWaiters)
	d.is.Store(true)
	l.accounts.change(func(*Account) { l.accounts.gone = false })
	l.until("the account is noticed", beats(func() bool { return l.realizer.worker(labAccount) != nil }))
	l.until("it is as planned", beats(func() bool { return l.unsettled() == "" }))
	l.setModes(plan.Released, "web-1")
	l.until("web-1 is given back", beats(func() bool { return l.unsettled() == "" }))
	// The cloud has a clock of its own here; what it shows must not seem to be older than what
	// was done.
	l.accounts.change(func(a *Account) {
		for region, snap := range a.Snapshots {
			later := *snap
			later.ObservedAt = clk.Now().Add(time.Hour)
			a.Snapshots[region] = &later
		}
	})
	calls := l.count()
	seen := len(l.sink.list())
	l.until("two heartbeats go by", beats(func() bool { return len(l.sink.list()) > seen+1 }))
	if n := calls(); n > 0 {
		t.Errorf("%d calls to the cloud without a reason", n)
	}
	l.accounts.remove()
	l.until("the end is noticed", beats(func() bool { return l.realizer.worker(labAccount) == nil }))
}
