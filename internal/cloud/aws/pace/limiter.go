// Package pace keeps all callers of one process together below the rate at which AWS throttles an
// account.
//
// It owns one token bucket per endpoint, cloud account number, region and action, because that is
// how EC2 counts. Two Nephele accounts with credentials of the same cloud account share their
// buckets, as do the inventory and the realizer. A bucket begins full and at its documented size
// (Documented). A throttled call empties it and slows it down by a fifth; while there is more to
// call than the bucket lets through, every second without throttling gives a twentieth back, until
// just below the rate that was too much. Beyond that, and beyond the documented rate, it feels its
// way only after a while without throttling. So it comes to rest near the real rate where others
// use the account too, where the limits of the account are raised, and at the documented rate
// elsewhere.
//
// It promises that calls of the same purpose are let through in the order in which they came, that
// enforcement goes before inventory, and that inventory nevertheless gets every tenth turn: nobody
// starves. A call that is given up while it waits takes nothing.
//
// Concurrency: all methods may be called from any goroutine. No goroutine is started; whoever waits
// is the one who is woken.
package pace

import (
	"context"
	"sync"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Key names a bucket.
type Key struct {
	// Endpoint is the URL of the service, empty for the public one: the same number elsewhere is
	// another account.
	Endpoint string
	// Account is the cloud's own account number; empty while it is not known.
	Account string
	Region  string
	// Action is the cloud's name of the call.
	Action string
}

// Event is one call that was let through and has ended.
type Event struct {
	Key
	// Waited is how long it was held back.
	Waited time.Duration
	// Class is the class of its error, empty if it succeeded.
	Class cloud.Class
}

// Options is what a Limiter needs. Now and After are required.
type Options struct {
	// Now is the time; it should be monotonic. Time that runs backwards adds nothing to a bucket.
	Now func() time.Time
	// After sends after a duration, as time.After.
	After func(time.Duration) <-chan time.Time
	// Rate is the rate that a bucket begins with; nil means Documented.
	Rate func(action string) Rate
	// Ended, if set, is told of every call that ended. It must not block.
	Ended func(Event)
}

// Limiter holds the buckets. Make it with New.
type Limiter struct {
	opts Options

	mu      sync.Mutex
	buckets map[Key]*bucket
}

// New returns a limiter with all buckets full.
func New(o Options) *Limiter {
	if o.Rate == nil {
		o.Rate = Documented
	}
	return &Limiter{opts: o, buckets: map[Key]*bucket{}}
}

// Admit waits until the call may be made and takes its token. done must be called once with the
// class of the call's error, empty for success. The error is that of ctx.
func (l *Limiter) Admit(ctx context.Context, k Key) (done func(cloud.Class), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b := l.bucket(k)
	asked := l.opts.Now()
	w := &waiter{turn: make(chan struct{}, 1), purpose: cloud.PurposeOf(ctx)}
	b.join(w, asked)
	for {
		granted, wait := b.ask(w, l.opts.Now())
		if granted {
			break
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = l.opts.After(wait)
		}
		select {
		case <-ctx.Done():
			b.leave(w)
			return nil, ctx.Err()
		case <-timer:
		case <-w.turn:
		}
	}
	start := l.opts.Now()
	return func(class cloud.Class) {
		b.ended(start, l.opts.Now(), class == cloud.Throttled)
		if l.opts.Ended != nil {
			l.opts.Ended(Event{Key: k, Waited: max(0, start.Sub(asked)), Class: class})
		}
	}, nil
}

// PerSecond returns the rate that a bucket is let through at now.
func (l *Limiter) PerSecond(k Key) float64 {
	b := l.bucket(k)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.perSecond()
}

func (l *Limiter) bucket(k Key) *bucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[k]
	if b == nil {
		b = newBucket(l.opts.Rate(k.Action), l.opts.Now())
		l.buckets[k] = b
	}
	return b
}
