package agent_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/agent"
)

// around is the cloud around a host, as the controller shows it.
type around struct {
	mu      sync.Mutex
	letsIn  bool
	away    bool
	yielded []agent.Isolated
}

func (c *around) yield(_ context.Context, isolates agent.Isolated) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.away:
		return false, errors.New("the controller is away")
	case c.letsIn && !isolates[0]:
		return false, nil
	}
	c.yielded = append(c.yielded, isolates)
	return true, nil
}

func (c *around) set(letsIn, away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.letsIn, c.away = letsIn, away
}

// TestWaitsForTheCloud: a host of which the cloud lets everything in stays isolated when its policy
// goes, or when it is released, until the cloud guards it again; also over a restart, and while the
// controller cannot be asked. Other changes wait for nobody.
func TestWaitsForTheCloud(t *testing.T) {
	t.Parallel()
	f, c := newFixture(t), &around{}
	f.yield, f.info = c.yield, func(context.Context, *agent.Status) error { return nil }
	f.allow(80, 1, "")
	a, stop := f.start()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 && f.open(80) && !f.open(81) })
	c.set(true, false)
	f.allow(81, 2, "")
	f.eventually("another port", func() bool { return !f.open(80) && f.open(81) })

	f.remove()
	f.eventually("waits", func() bool { return a.Status().WaitsForCloud != "" })
	if f.open(80) || !f.reaches(81) {
		t.Error("not as it was while it waits")
	}
	stop()
	a, stop = f.start()
	f.eventually("waits after a restart", func() bool { return a.Status().WaitsForCloud != "" })
	if f.open(80) || !f.reaches(81) {
		t.Error("not as it was after a restart")
	}
	c.set(true, true)
	f.eventually("says that the controller is away", func() bool { s := a.Status().WaitsForCloud; return s != "" && s[:2] == "it" })
	if f.open(80) {
		t.Error("opened while the controller was away")
	}
	c.set(false, false)
	f.eventually("open", func() bool { return a.Status().WaitsForCloud == "" && f.open(80) && f.open(81) })

	f.allow(80, 3, "")
	f.eventually("enforced again", func() bool { return f.reports.of("p").Generation == 3 && !f.open(81) })
	c.set(true, false)
	if err := a.Release(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	f.eventually("the release is told first", func() bool { return f.reports.of("p").RealizationFailure && a.Status().WaitsForCloud != "" })
	if f.open(81) {
		t.Error("released before the cloud guards the host")
	}
	stop()
	a, _ = f.start()
	f.eventually("waits after a restart", func() bool { return a.Status().WaitsForCloud != "" })
	if f.open(81) {
		t.Error("a restart has released the host")
	}
	c.set(false, false)
	f.eventually("released", func() bool { return f.open(81) })
}
