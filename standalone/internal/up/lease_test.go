package up

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/internal/cli"
)

// TestOneControllerWorks: a second controller waits, says who holds the lease, and takes over when that one ends. A process with a name of its own
// need not wait for a predecessor of that name that was killed.
func TestOneControllerWorks(t *testing.T) {
	err := Run(t.Context(), config(t, nil), func(ctx context.Context, s Session) error {
		start := func(o cli.LeaseOptions) (ready chan struct{}, end func()) {
			ctx, cancel := context.WithCancel(ctx)
			ready, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				err := cli.RunController(ctx, rest.CopyConfig(s.RestConfig), cli.ControllerOptions{Log: logr.Discard(), Lease: o, Ready: func() { close(ready) }})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}()
			return ready, func() { cancel(); <-done }
		}
		await := func(what string, c <-chan struct{}) {
			t.Helper()
			select {
			case <-c:
			case <-time.After(time.Minute):
				t.Fatalf("%s: not within a minute", what)
			}
		}
		first, endFirst := start(cli.LeaseOptions{Holder: "nephele up"})
		await("the first works", first)
		told := make(chan string, 10)
		second, endSecond := start(cli.LeaseOptions{Waits: func(holder string) { told <- holder }})
		defer endSecond()
		select {
		case holder := <-told:
			if holder != "nephele up" {
				t.Errorf("the lease is said to be held by %q", holder)
			}
		case <-second:
			t.Error("two work at a time")
		case <-time.After(time.Minute):
			t.Error("the second says nothing")
		}
		endFirst()
		await("the second works when the first has ended", second)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
