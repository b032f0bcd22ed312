package recovered

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestCall(t *testing.T) {
	plain := errors.New("plain")
	if err := Call(func() error { return plain }); !errors.Is(err, plain) || StackOf(err) != "" {
		t.Errorf("%v", err)
	}
	deferred := false
	err := Do(func() {
		defer func() { deferred = true }()
		var list []int
		_ = list[len(list)]
	})
	wrapped := fmt.Errorf("account a: %w", err)
	if !deferred || !strings.Contains(wrapped.Error(), "account a: a fault of Nephele, please report it: runtime error: index out of range") ||
		!strings.Contains(StackOf(wrapped), "recovered.TestCall") || strings.Contains(wrapped.Error(), "goroutine") {
		t.Errorf("deferred %v: %v\n%s", deferred, wrapped, StackOf(wrapped))
	}
}

// TestHolding: a panic under a lock leaves it free.
func TestHolding(t *testing.T) {
	var mu sync.Mutex
	if err := Do(func() { Holding(&mu, func() { panic("injected") }) }); err == nil || !mu.TryLock() {
		t.Errorf("the lock is still held after %v", err)
	}
}

// TestRepeat: work that panics begins anew, and ends with its context.
func TestRepeat(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	var told []string
	runs, done := make(chan int), make(chan struct{})
	n := 0
	go func() {
		defer close(done)
		Repeat(ctx, clock, func(err error) { told = append(told, err.Error()) }, func() {
			n++
			runs <- n
			if n < 3 {
				panic(n)
			}
			<-ctx.Done()
		})
	}()
	for want := 1; want <= 3; want++ {
		if got := <-runs; got != want {
			t.Fatalf("run %d, want %d", got, want)
		}
		if want < 3 {
			for !clock.HasWaiters() {
				time.Sleep(time.Millisecond)
			}
			clock.Step(time.Minute)
		}
	}
	cancel()
	<-done
	if len(told) != 2 || !strings.HasSuffix(told[0], ": 1") {
		t.Errorf("told %q", told)
	}
}
