package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestForever: after a turn that panics the agent says so, and does everything again.
func TestForever(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	a := &Agent{options: Options{Clock: clock, Log: logr.Discard()}, wake: make(chan struct{}, 1)}
	turns, said := 0, ""
	done := make(chan error)
	go func() {
		done <- a.forever(t.Context(), func() bool {
			if turns++; turns == 1 {
				panic("an odd policy")
			}
			said = a.Status().Kernel.Error
			return true
		})
	}()
	for !clock.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	clock.Step(faultPause)
	if err := <-done; err != nil || turns != 2 || !a.dirty || !strings.Contains(said, "an odd policy") || len(a.wake) != 1 {
		t.Errorf("%d turns, dirty %v, said %q: %v", turns, a.dirty, said, err)
	}
}
