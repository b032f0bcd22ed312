// Package pulse lets the two ends of a stream of the set notice that the other one is gone: an end
// with nothing to send sends a heartbeat now and then, and an end that is silent for several
// intervals counts as gone.
//
// It keeps nothing but what runs; everything may be called from anywhere.
package pulse

import (
	"context"
	"errors"
	"time"

	"k8s.io/utils/clock"
)

const (
	// Beat is how often an end that has nothing to say says that it is there.
	Beat = 10 * time.Second
	// Silence is after how long an end is taken for gone.
	Silence = 3 * Beat
)

// ErrSilent is the cause of a context that Watch has ended.
var ErrSilent = errors.New("nothing was heard for " + Silence.String())

// Watch ends a context when heard has not been called for the time of Silence. It does not wait.
func Watch(ctx context.Context, clk clock.WithTicker, cancel context.CancelCauseFunc) (heard func()) {
	news := make(chan struct{}, 1)
	timer := clk.NewTimer(Silence)
	go func() {
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-news:
				if !timer.Stop() {
					select {
					case <-timer.C():
					default:
					}
				}
				timer.Reset(Silence)
			case <-timer.C():
				cancel(ErrSilent)
				return
			}
		}
	}()
	return func() {
		select {
		case news <- struct{}{}:
		default:
		}
	}
}
