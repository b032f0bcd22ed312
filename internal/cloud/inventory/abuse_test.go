package inventory

import (
	"testing"
	"time"
)

// TestClockJumps: a clock that is set back or forward delays nothing and repeats nothing without
// end.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "one", byIDs(vm1)))
	l.reconcile()
	for _, jump := range []time.Duration{-24 * time.Hour, 365 * 24 * time.Hour, -time.Minute} {
		before := l.calls("DescribeInstances")
		l.advance(jump)
		l.reconcile()
		if got := l.calls("DescribeInstances") - before; got != 1 {
			t.Errorf("after a jump of %s: %d observations; want 1", jump, got)
		}
		if wait := l.reconcile(); wait != time.Minute || l.calls("DescribeInstances") != before+1 {
			t.Errorf("after a jump of %s: next in %s, %d observations", jump, wait, l.calls("DescribeInstances")-before)
		}
		l.wantAccount("True OK", "True OK", "True OK", "")
	}
}
