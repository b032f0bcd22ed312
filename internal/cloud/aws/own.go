package aws

import (
	"context"
	"sync"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
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

// request is one request that changes something, as the cloud has named it in its answer.
type request struct{ region, call, id string }

// ownCalls remembers which changes are our own, so that events that tell of them need not be looked
// at.
//
// What tells them is the id that the cloud gave to the request, in its answer to us and in the
// event. Whoever forges an event with such an id only tells us what we know; a change that somebody
// else made has an id of its own, whatever name and objects its event shows. A call whose answer
// was lost has no id, so its event is read like a stranger's.
//
// Methods are safe for concurrent use.
type ownCalls struct {
	now func() time.Time

	mu sync.Mutex
	// known are the answers and when they came, order the same in the order in which they came.
	known map[request]time.Time
	order []request
	// sent are the calls that have no answer yet; their channels are closed when they have.
	sent map[chan struct{}]request
}

func newOwnCalls(now func() time.Time) *ownCalls {
	return &ownCalls{now: now, known: map[request]time.Time{}, sent: map[chan struct{}]request{}}
}

// send notes a call that is about to be sent. The function that it returns is called with the id of
// its answer, empty if there is none.
func (o *ownCalls) send(region, call string) (end func(id string)) {
	a, done := request{region: region, call: call}, make(chan struct{})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent[done] = a
	return func(id string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.sent, done)
		close(done)
		if a.id = id; id != "" {
			o.keep(a)
		}
	}
}

// keep remembers an answer. It needs mu.
func (o *ownCalls) keep(a request) {
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

// answered reports whether the call is ours, and when its answer came.
func (o *ownCalls) answered(a request) (at time.Time, ours bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, known := o.known[a]
	return at, known && a.id != ""
}

// pending returns the calls without an answer that these might be.
func (o *ownCalls) pending(might []request) (out []chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for done, sent := range o.sent {
		for _, a := range might {
			if a.region == sent.region && a.call == sent.call {
				out = append(out, done)
				break
			}
		}
	}
	return out
}

// await waits until the calls that these might be, and that are on their way now, have their
// answers, but not for long.
func (o *ownCalls) await(ctx context.Context, might []request) {
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

// remember notes every call that changes something, and its answer.
func (p *Provider) remember(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	middleware.FinalizeOutput, middleware.Metadata, error,
) {
	name := awsmiddleware.GetOperationName(ctx)
	if _, changing := kindsOfCall(name); !changing {
		return next.HandleFinalize(ctx, in)
	}
	end := p.own.send(awsmiddleware.GetRegion(ctx), name)
	out, metadata, err := next.HandleFinalize(ctx, in)
	id := ""
	if err == nil {
		id, _ = awsmiddleware.GetRequestIDMetadata(metadata)
	}
	end(id)
	return out, metadata, err
}
