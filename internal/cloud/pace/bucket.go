package pace

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/nephele-io/nephele/internal/cloud"
)

const (
	// slowdown is what is left of the rate after a throttled call.
	slowdown = 0.8
	// speedup is the part of the documented rate by which the rate grows in a second of full use.
	speedup = 0.05
	// lowest and highest bound the rate, in parts of the documented one.
	lowest  = 0.02
	highest = 20
	// plateau is the part of a rate that proved too much at which the next attempt comes to rest.
	plateau = 0.95
	// firstHold is how long a bucket must be fully used without throttling before it goes beyond
	// where it rests. Above the documented rate it doubles with every attempt that was too much, up
	// to longestHold.
	firstHold   = 30 * time.Second
	longestHold = time.Hour
	// turns is how many calls are let through for each that inventory is sure of while enforcement
	// waits.
	turns = 10
)

// waiter is a call that waits for its turn.
type waiter struct {
	purpose cloud.Purpose
	// turn gets a token when the waiter may be the next; it then has to ask.
	turn chan struct{}
}

// bucket is one token bucket and its waiting callers.
type bucket struct {
	documented Rate

	mu sync.Mutex
	// tokens holds the tokens of the present rate.
	tokens *rate.Limiter
	// rest is the rate that is exceeded only after hold.
	rest float64
	at   time.Time // of the rate
	// busy is true while the bucket is empty and somebody waits: only then may the rate grow.
	busy bool
	// slowed is when the rate was last reduced. What was let through before says nothing about the
	// new rate.
	slowed time.Time
	// hold is how long full use must go well before rest is exceeded, and well how long it has.
	hold, well time.Duration
	// queues are the waiting callers, by purpose; since is the number of calls let through since
	// the last one of inventory.
	queues [2][]*waiter
	since  int
	// paused is until when no call goes through.
	paused time.Time
}

func newBucket(r Rate, now time.Time) *bucket {
	return &bucket{documented: r, tokens: rate.NewLimiter(rate.Limit(r.PerSecond), int(r.Burst)), rest: r.PerSecond, at: now, hold: firstHold}
}

// perSecond is the present rate.
func (b *bucket) perSecond() float64 { return float64(b.tokens.Limit()) }

func (b *bucket) join(w *waiter, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	b.queues[w.purpose] = append(b.queues[w.purpose], w)
}

// leave takes a waiter out that gives up.
func (b *bucket) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(w)
	b.wake()
}

func (b *bucket) remove(w *waiter) {
	q := &b.queues[w.purpose]
	if i := slices.Index(*q, w); i >= 0 {
		*q = slices.Delete(*q, i, i+1)
	}
	b.busy = len(b.queues[0])+len(b.queues[1]) > 0
}

// next is the next waiter; nil if there is none.
func (b *bucket) next() *waiter {
	urgent, routine := b.queues[cloud.Enforcement], b.queues[cloud.Inventory]
	switch {
	case len(routine) > 0 && (len(urgent) == 0 || b.since >= turns-1):
		return routine[0]
	case len(urgent) > 0:
		return urgent[0]
	}
	return nil
}

// ask lets the waiter through if it is its turn and there is a token. Else wait says after how long
// to ask again, 0 if the waiter will be woken.
func (b *bucket) ask(w *waiter, now time.Time) (granted bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	if b.next() != w {
		return false, 0
	}
	if wait := b.paused.Sub(now); wait > 0 {
		return false, wait
	}
	if !b.tokens.AllowN(now, 1) {
		b.busy = true
		return false, max(time.Millisecond, time.Duration((1-b.tokens.TokensAt(now))/b.perSecond()*float64(time.Second)))
	}
	b.since++
	if w.purpose == cloud.Inventory {
		b.since = 0
	}
	b.remove(w)
	b.wake()
	return true, 0
}

// wake tells the next waiter to ask.
func (b *bucket) wake() {
	if w := b.next(); w != nil {
		select {
		case w.turn <- struct{}{}:
		default:
		}
	}
}

// advance lets the rate grow until now.
func (b *bucket) advance(now time.Time) {
	passed := now.Sub(b.at)
	b.at = now
	if passed < 0 {
		b.become(b.perSecond(), now) // from here on
	}
	if passed <= 0 || !b.busy {
		return
	}
	b.well += passed
	is, more := b.perSecond(), passed.Seconds()*speedup*b.documented.PerSecond
	switch {
	case is < b.rest:
		b.become(min(b.rest, is+more), now)
	case b.well >= b.hold, is < b.documented.PerSecond && b.well >= firstHold:
		b.become(min(highest*b.documented.PerSecond, is+more), now)
	}
}

// become changes the rate. What has flowed until now has flowed at the former one.
func (b *bucket) become(perSecond float64, now time.Time) {
	b.tokens.SetLimitAt(now, rate.Limit(perSecond))
}

// pause stops all calls until then.
func (b *bucket) pause(until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until.After(b.paused) {
		b.paused = until
	}
}

// left is how many tokens there are.
func (b *bucket) left(now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tokens.TokensAt(now)
}

// empty takes all tokens out.
func (b *bucket) empty(now time.Time) { b.tokens.AllowN(now, int(max(0, b.tokens.TokensAt(now)))) }

// ended learns from a call that was let through at start.
func (b *bucket) ended(start, now time.Time, throttled bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	if !throttled {
		return
	}
	b.empty(now)
	b.well = 0
	if !start.After(b.slowed) {
		return
	}
	b.slowed = now
	is := b.perSecond()
	if is > b.rest && is > b.documented.PerSecond {
		b.hold = min(2*b.hold, longestHold)
	}
	b.rest = plateau * is
	b.become(max(lowest*b.documented.PerSecond, slowdown*is), now)
}
