package event

import (
	"context"
	"sync"
	"time"
)

const (
	// ownAge is how long the answer to a call of ours is remembered. CloudTrail reports most calls
	// within five minutes, nearly all within fifteen.
	ownAge = 20 * time.Minute
	// maxOwn bounds the answers that are remembered; the oldest are forgotten first.
	maxOwn = 1 << 14
	// ownWait bounds how long an event that may be about a call of ours waits for the answer of
	// that call.
	ownWait = 2 * time.Second
)

// Request is one request that changes something, as the cloud has named it in its answer.
type Request struct{ Region, Call, ID string }

// Own remembers which changes are our own, so that events that tell of them need not be looked
// at.
//
// The request id identifies them: the cloud puts it into its answer to us and into the event. An
// attacker that forges an event with such an id only reports what we know. A change by another
// caller has an id of its own, whatever name and objects its event shows. The id of a call whose
// answer was lost is unknown, so its event counts as another caller's.
//
// Methods are safe for concurrent use.
type Own struct {
	now func() time.Time

	mu sync.Mutex
	// known are the answers and when they came, order the same in the order in which they came.
	known map[Request]time.Time
	order []Request
	// sent are the calls that have no answer yet; their channels are closed when they have.
	sent map[chan struct{}]Request
}

// NewOwn remembers nothing yet.
func NewOwn(now func() time.Time) *Own {
	return &Own{now: now, known: map[Request]time.Time{}, sent: map[chan struct{}]Request{}}
}

// Send notes a call that is about to be sent. The function that it returns is called with the id of
// its answer, empty if there is none.
func (o *Own) Send(region, call string) (end func(id string)) {
	a, done := Request{Region: region, Call: call}, make(chan struct{})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent[done] = a
	return func(id string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.sent, done)
		close(done)
		if a.ID = id; id != "" {
			o.keep(a)
		}
	}
}

// keep remembers an answer. It needs mu.
func (o *Own) keep(a Request) {
	now := o.now()
	for len(o.order) > 0 && (len(o.order) >= maxOwn || now.Sub(o.known[o.order[0]]) > ownAge) {
		delete(o.known, o.order[0])
		o.order = o.order[1:]
	}
	if _, twice := o.known[a]; !twice {
		o.order = append(o.order, a)
	}
	o.known[a] = now
}

// Answered reports whether the call is ours, and when its answer came.
func (o *Own) Answered(a Request) (at time.Time, ours bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, known := o.known[a]
	return at, known && a.ID != ""
}

// pending returns the calls without an answer that these might be.
func (o *Own) pending(might []Request) (out []chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for done, sent := range o.sent {
		for _, a := range might {
			if a.Region == sent.Region && a.Call == sent.Call {
				out = append(out, done)
				break
			}
		}
	}
	return out
}

// Await waits until the calls that these might be, and that are on their way now, have their
// answers, but not for long.
func (o *Own) Await(ctx context.Context, might []Request) {
	ctx, cancel := context.WithTimeout(ctx, ownWait)
	defer cancel()
	for _, done := range o.pending(might) {
		select {
		case <-ctx.Done():
			return
		case <-done:
		}
	}
}
