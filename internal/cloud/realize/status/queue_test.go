package status

import (
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestTake: the newest report comes first, one that failed when its pause is over, and one whose
// objects were written over a moment later; nothing is taken twice.
func TestTake(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Now())
	w := NewWriter(nil, nil, events.NewFakeRecorder(1), clk, logr.Discard())
	t.Cleanup(w.queue.ShutDown)
	older, newer := Report{Err: errors.New("older")}, Report{Err: errors.New("newer")}
	for _, c := range []struct {
		name  string
		is    accountStatus
		takes string
		wait  time.Duration
	}{
		{name: "nothing"},
		{name: "a report", is: accountStatus{pending: &newer}, takes: "newer"},
		{name: "a report in the place of one that failed", is: accountStatus{pending: &newer, late: &repetition{report: older}}, takes: "newer"},
		{name: "one that failed, too early", is: accountStatus{late: &repetition{report: older}, due: clk.Now().Add(time.Second)}, wait: time.Second},
		{name: "one that failed", is: accountStatus{late: &repetition{report: older}, due: clk.Now()}, takes: "older"},
		{name: "written over", is: accountStatus{last: &older, spoilt: true}, wait: correctPause},
		{name: "written over before anything was written", is: accountStatus{spoilt: true}},
	} {
		w.accounts = map[string]*accountStatus{labAccount: &c.is}
		_, next, wait := w.take(labAccount)
		if next == nil && c.takes != "" || next != nil && next.report.Err.Error() != c.takes || wait != c.wait {
			t.Errorf("%s: takes %+v, or waits for %s", c.name, next, wait)
		}
		if wait > 0 {
			clk.Step(wait)
			if _, next, _ = w.take(labAccount); next == nil || next.report.Err.Error() != "older" {
				t.Errorf("%s: %+v after the pause", c.name, next)
			}
		}
		if _, again, wait := w.take(labAccount); again != nil || wait != 0 {
			t.Errorf("%s: takes %+v again, or waits for %s", c.name, again, wait)
		}
	}
}
