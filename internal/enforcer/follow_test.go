package enforcer_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/enforcer"
)

var errScript = errors.New("as the script says")

// lives is a Source whose watches of policies last as long as told: one that lasts is in sync at
// once; one that does not fails.
type lives struct {
	clock *clocktesting.FakeClock

	mu    sync.Mutex
	lasts []time.Duration
	begun []time.Time
}

type life struct {
	clock *clocktesting.FakeClock
	left  []time.Duration
}

func (l *lives) Watch(ctx context.Context, r enforcer.Resource, _ string) (enforcer.Stream, error) {
	if r != enforcer.NetworkPolicies {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = append(l.begun, l.clock.Now())
	if len(l.lasts) == 0 {
		return nil, errScript
	}
	last := l.lasts[0]
	l.lasts = l.lasts[1:]
	if last == 0 {
		return nil, errScript
	}
	return &life{l.clock, []time.Duration{0, last}}, nil
}

func (*life) Stop() {}

func (s *life) Next(ctx context.Context) (watch.Event, error) {
	next := s.left[0]
	s.left = s.left[1:]
	if next == 0 {
		return watch.Event{Type: watch.Bookmark, Object: &v1beta2.NetworkPolicy{}}, nil
	}
	select {
	case <-s.clock.After(next):
	case <-ctx.Done():
	}
	return watch.Event{}, errScript
}

// gaps runs a mirror until the source was asked n times, and returns the seconds between.
func gaps(t *testing.T, lasts []time.Duration, random float64) []float64 {
	t.Helper()
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	src := &lives{clock: c, lasts: slices.Clone(lasts)}
	m := enforcer.Follower{Source: src, Clock: c, Random: func() float64 { return random }, Log: logr.Discard()}.Mirror("k", nil)
	run(t, m)
	asked := func() int {
		src.mu.Lock()
		defer src.mu.Unlock()
		return len(src.begun)
	}
	for deadline := time.Now().Add(patience); asked() <= len(lasts); {
		if time.Now().After(deadline) {
			t.Fatalf("only %d watches", asked())
		}
		if c.HasWaiters() {
			c.Step(500 * time.Millisecond)
		}
		time.Sleep(100 * time.Microsecond)
	}
	src.mu.Lock()
	defer src.mu.Unlock()
	var out []float64
	for i := range lasts {
		out = append(out, src.begun[i+1].Sub(src.begun[i]).Seconds())
	}
	return out
}

func TestWatchesAreBegunAtIntervals(t *testing.T) {
	t.Parallel()
	failing := make([]time.Duration, 6)
	for name, c := range map[string]struct {
		lasts  []time.Duration
		random float64
		want   []float64
	}{
		"failing":                         {failing, 0, []float64{5, 10, 20, 30, 30, 30}},
		"failing, spread":                 {failing, 0.5, []float64{5.5, 11, 22, 33, 33, 33}},
		"ending at once":                  {[]time.Duration{time.Second, time.Second, time.Second}, 0, []float64{5, 5, 5}},
		"ending after long":               {[]time.Duration{time.Minute, time.Minute}, 0, []float64{60, 60}},
		"ending after long, spread":       {[]time.Duration{time.Minute, time.Minute}, 0.5, []float64{60.5, 60.5}},
		"failing, in sync, failing again": {[]time.Duration{0, 0, time.Second, 0, 0}, 0, []float64{5, 10, 5, 10, 20}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(c.want, gaps(t, c.lasts, c.random)); d != "" {
				t.Errorf("seconds between watches (-want +got):\n%s", d)
			}
		})
	}
}
