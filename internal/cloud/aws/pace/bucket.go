package pace

import (
	"slices"
	"sync"
	"time"

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
	// firstHold is how long a bucket must be fully used without throttling before it goes beyond where it rests. Above the documented
	// rate it doubles with every attempt that was too much, up to longestHold.
	firstHold   = 30 * time.Second
	longestHold = time.Hour
	// turns is how many calls are let through for each that inventory is sure of while enforcement waits.
	turns = 10
)

// waiter is a call that waits for its turn.
type waiter struct {
	purpose cloud.Purpose
	// turn gets a token when the waiter may be the next; it then has to ask.
	turn chan struct{}
}

// bucket is one token bucket and those who wait for it.
type bucket struct {
	documented Rate

	mu     sync.Mutex
	tokens float64
	rate   float64
	// rest is the rate that is exceeded only after hold.
	rest float64
	at   time.Time // of tokens and rate
	// busy is true while the bucket is empty and somebody waits: only then may the rate grow.
	busy bool
	// slowed is when the rate was last reduced. What was let through before says nothing about the new rate.
	slowed time.Time
	// hold is how long full use must go well before rest is exceeded, and well how long it has.
	hold, well time.Duration
	// queues are those who wait, by purpose; since is the number of calls let through since the last one of inventory.
	queues [2][]*waiter
	since  int
}

func newBucket(r Rate, now time.Time) *bucket {
	return &bucket{documented: r, tokens: r.Burst, rate: r.PerSecond, rest: r.PerSecond, at: now, hold: firstHold}
}

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

// next is the waiter whose turn it is; nil if nobody waits.
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

// ask lets the waiter through if it is its turn and there is a token. Else wait says after how long to ask again, 0 if the waiter will
// be woken.
func (b *bucket) ask(w *waiter, now time.Time) (granted bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	if b.next() != w {
		return false, 0
	}
	if b.tokens < 1 {
		b.busy = true
		return false, max(time.Millisecond, time.Duration((1-b.tokens)/b.rate*float64(time.Second)))
	}
	b.tokens--
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

// advance lets tokens flow and the rate grow until now.
func (b *bucket) advance(now time.Time) {
	passed := now.Sub(b.at)
	b.at = now
	if passed <= 0 {
		return
	}
	seconds := passed.Seconds()
	b.tokens = min(b.documented.Burst, b.tokens+seconds*b.rate)
	if !b.busy {
		return
	}
	b.well += passed
	more := seconds * speedup * b.documented.PerSecond
	switch {
	case b.rate < b.rest:
		b.rate = min(b.rest, b.rate+more)
	case b.well >= b.hold, b.rate < b.documented.PerSecond && b.well >= firstHold:
		b.rate = min(highest*b.documented.PerSecond, b.rate+more)
	}
}

// ended learns from a call that was let through at start.
func (b *bucket) ended(start, now time.Time, throttled bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	if !throttled {
		return
	}
	b.tokens, b.well = min(b.tokens, 0), 0
	if !start.After(b.slowed) {
		return
	}
	b.slowed = now
	if b.rate > b.rest && b.rate > b.documented.PerSecond {
		b.hold = min(2*b.hold, longestHold)
	}
	b.rest = plateau * b.rate
	b.rate = max(lowest*b.documented.PerSecond, slowdown*b.rate)
}
