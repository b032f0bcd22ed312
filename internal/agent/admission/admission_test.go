package admission_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nephele-io/nephele/internal/agent/admission"
)

// TestNewPodsAskTogether: while the controller is asked, all new Pods wait for one further answer.
func TestNewPodsAskTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks, may := 0, make(chan struct{})
		ask := admission.NewAsking(func() error { looks++; <-may; return nil })
		var running sync.WaitGroup
		for range 50 {
			running.Go(func() {
				if err := ask(t.Context()); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := ask(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("without waiting: %v", err)
		}
		may <- struct{}{}
		may <- struct{}{}
		running.Wait()
		if looks != 2 {
			t.Errorf("the controller was asked %d times, want 2", looks)
		}
	})
}
