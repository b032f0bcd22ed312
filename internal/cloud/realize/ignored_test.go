package realize

import (
	"context"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/internal/cloud"
)

// idler is a provider whose service answers that interfaces are edited, and does nothing.
type idler struct{ cloud.Provider }

func (d idler) Apply(ctx context.Context, scope cloud.Scope, op cloud.Op) (string, error) {
	if op.Kind == cloud.OpSetInterfaceGroups {
		return "", nil
	}
	return d.Provider.Apply(ctx, scope, op)
}

// TestIgnoredChangeIsNamed: a service that answers that it has changed an interface, and has not,
// is named with the interface, the groups it was given and those it has.
func TestIgnoredChangeIsNamed(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Now())
	l := newLab(t, labConfig{clock: clk})
	l.accounts.account.Provider = idler{l.accounts.account.Provider}
	l.engine.PutPolicy(webIn())
	l.publish()
	l.start()
	var said string
	l.until("the worker pauses, and says why", func() bool {
		r, _ := l.realizer.Report(labAccount)
		if r.Err != nil {
			said = r.Err.Error()
		}
		return clk.HasWaiters() && strings.Contains(said, "still not as planned")
	})
	interfaces, err := l.region(home).NetworkInterfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range interfaces {
		if !strings.Contains(said, "interface "+n.ID+" of ") {
			continue
		}
		for _, g := range n.Groups {
			if !strings.Contains(said, g.ID) {
				t.Errorf("the group %s that %s has is not named: %s", g.ID, n.ID, said)
			}
		}
		return
	}
	t.Errorf("no interface is named: %s", said)
}
