package inventory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
)

// The wait after a failed observation starts at firstBackoff and doubles up to maxBackoff.
const (
	firstBackoff = 5 * time.Second
	maxBackoff   = 5 * time.Minute
)

// outcome is the end of one observation.
type outcome struct {
	region   string
	started  time.Time
	snapshot *cloud.Snapshot
	err      error
}

// observe reads the regions beside one another. Whenever some are done and others are not, publish is called, so that a slow region
// does not hold up the others. All goroutines have ended when it returns.
// What publish fails to write then is written, or fails for good, at the end of the pass.
func (p *pass) observe(ctx context.Context, names []string, publish func() error) {
	provider, ok := p.Provider(cloud.AccountKey(p.cpa.Namespace, p.cpa.Name))
	if !ok || len(names) == 0 {
		return
	}
	done := make(chan outcome, len(names))
	for _, name := range names {
		go func() { done <- p.observeRegion(ctx, provider, name) }()
	}
	for pending := len(names); pending > 0; {
		p.record(<-done)
		pending--
		for more := true; more && pending > 0; {
			select {
			case o := <-done:
				p.record(o)
				pending--
			default:
				more = false
			}
		}
		if pending > 0 && ctx.Err() == nil {
			_ = publish()
		}
	}
}

func (p *pass) observeRegion(ctx context.Context, provider cloud.Provider, name string) outcome {
	o := outcome{region: name, started: p.opts.Now()}
	bounded, cancel := context.WithTimeout(ctx, p.opts.ObserveTimeout)
	defer cancel()
	o.snapshot, o.err = provider.Observe(bounded, cloud.Scope{Account: cloud.AccountKey(p.cpa.Namespace, p.cpa.Name), Region: name})
	switch {
	case o.err != nil && bounded.Err() != nil && ctx.Err() == nil:
		o.err = &cloud.Error{Class: cloud.Unavailable, Call: "Observe",
			Err: fmt.Errorf("not finished after %s: %w", p.opts.ObserveTimeout, o.err)}
	case o.err == nil && o.snapshot == nil:
		o.err = &cloud.Error{Class: cloud.Terminal, Call: "Observe", Err: errors.New("the provider returned nothing")}
	case ctx.Err() != nil:
		o.err = ctx.Err()
	}
	return o
}

// record keeps the outcome. An observation that ended because we are stopping says nothing about the region.
func (p *pass) record(o outcome) {
	if errors.Is(o.err, context.Canceled) {
		return
	}
	p.news = true
	a := p.account
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.regions[o.region]
	if r == nil {
		return
	}
	r.err = o.err
	if o.err == nil {
		r.snapshot, r.failures = o.snapshot, 0
		r.next = o.started.Add(p.interval())
		return
	}
	r.failures++
	r.next = p.opts.Now().Add(p.backoff(r.failures, o.err))
}

// backoff is the wait after the nth failure in a row: doubling, at least as long as the cloud asked for, and spread by a fifth up and
// down so that accounts do not come back together.
func (p *pass) backoff(n int, err error) time.Duration {
	d := maxBackoff
	if n <= 6 {
		d = min(firstBackoff<<(n-1), maxBackoff)
	}
	d = time.Duration(float64(d) * (0.8 + 0.4*p.opts.Random()))
	var e *cloud.Error
	if errors.As(err, &e) {
		d = max(d, e.RetryAfter)
	}
	return d
}
