// Package pace keeps all callers of one process together below the rate at which a cloud throttles
// an account.
//
// It owns token buckets: one per endpoint, cloud account number, region and action, because that is
// how EC2 counts, and others that several actions share, because that is how Azure does. Two
// Nephele accounts with credentials of the same cloud account share their buckets, as do the
// inventory and the realizer. A bucket begins full and at its documented size (Options.Rate). A
// throttled call empties it and slows it down by a fifth; if the call takes from several buckets,
// this happens to the one with the fewest tokens. While calls wait, every second without throttling
// gives a twentieth back, until just below the rate that was too much. Beyond that rate, and beyond
// the documented one, it goes only after a while without throttling. So it settles near the real
// rate where other programs use the account too or its limits are raised, and at the documented
// rate elsewhere.
//
// It promises that calls of the same purpose go in the order in which they came, that enforcement
// goes before inventory, and that inventory nevertheless gets every tenth turn, so that it never
// starves. A call that is given up while it waits takes no token.
//
// Concurrency: all methods may be called from any goroutine. No goroutine is started; a caller
// waits in its own.
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

// Rate is a token bucket: how many calls it holds when full, and how many per second flow back into
// it. The zero Rate is no bucket: what has it waits for nothing.
type Rate struct {
	Burst, PerSecond float64
}

// Options is what a Limiter needs. Now, After and Rate are required.
type Options struct {
	// Now is the time; it should be monotonic. Time that runs backwards adds nothing to a bucket.
	Now func() time.Time
	// After sends after a duration, as time.After.
	After func(time.Duration) <-chan time.Time
	// Rate is the rate that the bucket of an action begins with, as the cloud documents it.
	Rate func(action string) Rate
	// Ended, if set, gets every call that ended. It must not block.
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
	return &Limiter{opts: o, buckets: map[Key]*bucket{}}
}

// Admit waits until the call k may be made and takes its token, and one of each of the buckets that
// it shares with other actions. done must be called once with the class of the call's error, empty
// for success. The error is that of ctx.
func (l *Limiter) Admit(ctx context.Context, k Key, shared ...Key) (done func(cloud.Class), err error) {
	asked := l.opts.Now()
	var taken []*bucket
	for _, key := range append([]Key{k}, shared...) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if b := l.bucket(key); b != nil {
			if err := l.take(ctx, b); err != nil {
				return nil, err
			}
			taken = append(taken, b)
		}
	}
	start := l.opts.Now()
	return func(class cloud.Class) {
		now := l.opts.Now()
		blamed := scarcest(taken, now)
		for _, b := range taken {
			b.ended(start, now, class == cloud.Throttled && b == blamed)
		}
		if l.opts.Ended != nil {
			l.opts.Ended(Event{Key: k, Waited: max(0, start.Sub(asked)), Class: class})
		}
	}, nil
}

// scarcest is the bucket with the fewest tokens, the first of several; nil without any. A cloud
// does not say which bucket has let a call down. To empty a full one besides would cost all that it
// holds; to blame the wrong one slows down the same calls until they pass.
func scarcest(buckets []*bucket, now time.Time) (out *bucket) {
	least := 0.0
	for _, b := range buckets {
		if n := b.left(now); out == nil || n < least {
			out, least = b, n
		}
	}
	return out
}

// take waits for a token of a bucket.
func (l *Limiter) take(ctx context.Context, b *bucket) error {
	w := &waiter{turn: make(chan struct{}, 1), purpose: cloud.PurposeOf(ctx)}
	b.join(w, l.opts.Now())
	for {
		granted, wait := b.ask(w, l.opts.Now())
		if granted {
			return nil
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = l.opts.After(wait)
		}
		select {
		case <-ctx.Done():
			b.leave(w)
			return ctx.Err()
		case <-timer:
		case <-w.turn:
		}
	}
}

// LongestPause bounds how long a cloud can ask all callers to wait: the longest window that any
// documents.
const LongestPause = 5 * time.Minute

// Pause keeps everybody from taking of some buckets for as long as the cloud has asked for, at most
// LongestPause.
func (l *Limiter) Pause(d time.Duration, keys ...Key) {
	for _, k := range keys {
		if b := l.bucket(k); b != nil {
			b.pause(l.opts.Now().Add(min(d, LongestPause)))
		}
	}
}

// PerSecond returns the rate that a bucket is let through at now; 0 if there is no such bucket.
func (l *Limiter) PerSecond(k Key) float64 {
	b := l.bucket(k)
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.perSecond()
}

// bucket returns the bucket of a key, nil if its action has none.
func (l *Limiter) bucket(k Key) *bucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[k]
	if b == nil {
		rate := l.opts.Rate(k.Action)
		if rate == (Rate{}) {
			return nil
		}
		b = newBucket(rate, l.opts.Now())
		l.buckets[k] = b
	}
	return b
}
