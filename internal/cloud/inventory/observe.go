package inventory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/selection"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// The wait after a failed observation starts at firstBackoff and doubles up to maxBackoff.
const (
	firstBackoff = 5 * time.Second
	maxBackoff   = 5 * time.Minute
)

// How long hints wait after a reading that events have led to: what comes meanwhile becomes one
// reading.
const (
	// hintPause follows the reading of named objects.
	hintPause = 500 * time.Millisecond
	// wholePause follows the reading of a whole region, or wholeShare times as long as that took if
	// this is longer. Named objects do not wait for it.
	wholePause = 5 * time.Second
	wholeShare = 4
	// maxMisses readings of hints may fail in a row; then the region is read whole.
	maxMisses = 3
)

// outcome is the end of one job.
type outcome struct {
	job
	started  time.Time
	snapshot *cloud.Snapshot
	err      error
}

// observe reads the regions beside one another. Whenever some are done and others are not, publish
// is called, so that a slow region does not hold up the others; and when somebody edits what the
// objects depend on, so that a slow cloud does not hold up a release or a label. All goroutines
// have ended when it returns. What publish fails to write then is written, or fails for good, at
// the end of the pass.
func (p *pass) observe(ctx context.Context, jobs []job, publish func() error) {
	provider, ok := p.loop.Provider(cloud.AccountKey(p.cpa.Namespace, p.cpa.Name))
	if !ok || len(jobs) == 0 {
		return
	}
	done := make(chan outcome, len(jobs))
	for _, j := range jobs {
		go func() { done <- p.guarded(ctx, provider, j) }()
	}
	for pending := len(jobs); pending > 0; {
		select {
		case o := <-done:
			p.record(o)
			pending--
		case <-p.account.edits:
			if p.reread(ctx) {
				_ = publish()
			}
			continue
		}
		for more := true; more && pending > 0; {
			select {
			case o := <-done:
				p.record(o)
				pending--
			default:
				more = false
			}
		}
		if pending > 0 && ctx.Err() == nil && p.loop.mine(p.key()) {
			_ = publish()
		}
	}
}

// reread takes over what somebody has changed of the account and its selectors since the pass
// began, and reports whether there is anything to make objects of. What it cannot take over in the
// middle of a pass is left to the next one.
func (p *pass) reread(ctx context.Context) bool {
	selectors, err := p.loop.selectorsOf(ctx, p.key())
	cpa := &v1alpha1.CloudProviderAccount{}
	if err = errors.Join(err, p.loop.opts.Client.Get(ctx, p.key(), cpa)); err != nil || !p.loop.mine(p.key()) {
		return false
	}
	if cpa.UID != p.cpa.UID || cpa.DeletionTimestamp.IsZero() == p.deleting() {
		return false
	}
	may, refused, err := selection.Granted(cpa, selectors, p.loop.namespaceLabels(ctx))
	if err != nil {
		return false
	}
	p.cpa, p.selectors, p.refused = cpa, may, refused
	p.account.mu.Lock()
	p.quick = p.quick && !p.account.touched
	p.news = p.settle(p.account) || p.news
	p.account.mu.Unlock()
	return len(p.account.snapshots()) > 0
}

// guarded is observeRegion in which a panic is a failure of that region.
func (p *pass) guarded(ctx context.Context, provider cloud.Provider, j job) (o outcome) {
	started := p.loop.opts.Now()
	if fault := recovered.Do(func() { o = p.observeRegion(ctx, provider, j) }); fault != nil {
		logr.FromContextOrDiscard(ctx).Error(fault, "A panic was recovered", "account", p.account.key, "region", j.region, "stack", recovered.StackOf(fault))
		return outcome{job: j, started: started, err: &cloud.Error{Class: cloud.Terminal, Call: "Observe", Err: fault}}
	}
	return o
}

func (p *pass) observeRegion(ctx context.Context, provider cloud.Provider, j job) outcome {
	o := outcome{job: j, started: p.loop.opts.Now()}
	bounded, cancel := context.WithTimeout(ctx, p.loop.opts.ObserveTimeout)
	defer cancel()
	refresher, ok := provider.(cloud.Refresher)
	if !ok {
		o.ids = nil
	}
	if len(o.ids) > 0 {
		// The few calls that an event leads to are what enforcement waits for; a routine reading
		// gives way to it.
		o.snapshot, o.err = refresher.Refresh(bounded, j.since, o.ids)
	} else {
		bounded = cloud.WithPurpose(bounded, cloud.Inventory)
		o.snapshot, o.err = provider.Observe(bounded, cloud.Scope{Account: cloud.AccountKey(p.account.key.Namespace, p.account.key.Name), Region: j.region})
	}
	switch {
	case o.err != nil && bounded.Err() != nil && ctx.Err() == nil:
		o.err = &cloud.Error{Class: cloud.Unavailable, Call: "Observe",
			Err: fmt.Errorf("not finished after %s: %w", p.loop.opts.ObserveTimeout, o.err)}
	case o.err == nil && o.snapshot == nil:
		o.err = &cloud.Error{Class: cloud.Terminal, Call: "Observe", Err: errors.New("the provider returned nothing")}
	case ctx.Err() != nil:
		o.err = ctx.Err()
	}
	return o
}

// record keeps the outcome. An observation that ended because we are stopping says nothing about
// the region.
func (p *pass) record(o outcome) {
	if errors.Is(o.err, context.Canceled) {
		return
	}
	a := p.account
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.regions[o.region]
	if r == nil {
		return
	}
	if len(o.ids) > 0 {
		p.recordPart(r, o)
		return
	}
	took := p.loop.opts.Now().Sub(o.started)
	r.decided = p.loop.opts.Now()
	r.calm, r.misses = p.loop.opts.Now().Add(max(wholePause, wholeShare*took)), 0
	p.news = p.news || (r.err == nil) != (o.err == nil)
	r.err = o.err
	switch {
	case o.err == nil && o.asked < r.covered: // what was handed over meanwhile is not in it
		r.next, r.rest = p.loop.opts.Now(), time.Time{}
		return
	case o.err == nil:
		p.news = r.replace(o.snapshot) || p.news
		r.covered = o.asked
		r.failures = 0
		a.schedule(r, o.started)
		return
	}
	p.news = true
	r.fails(p.loop.opts.Now().Add(p.backoff(r.failures+1, o.err)))
}

// recordPart keeps what was read because of events. It says nothing about the rest of the region,
// and so does its failure: the time of the next whole observation stays, unless hints fail again
// and again.
func (p *pass) recordPart(r *region, o outcome) {
	now := p.loop.opts.Now()
	outdated := o.asked < r.covered // what was handed over meanwhile is not in it
	if o.err == nil && !outdated {
		r.misses, r.patience, r.renewed = 0, now.Add(hintPause), o.started
		p.news = r.replace(o.snapshot) || p.news
		r.covered = o.asked
		return
	}
	if r.hints == nil {
		r.hints = map[string]bool{}
	}
	for _, id := range o.ids {
		r.hints[id] = true
	}
	if outdated {
		return
	}
	r.misses++
	r.patience = now.Add(p.backoff(r.misses, o.err))
	if r.misses >= maxMisses || cloud.ClassOf(o.err) == cloud.Conflict {
		r.next, r.rest = now, time.Time{}
	}
}

// backoff is the wait after the nth failure in a row: doubling, at least as long as the cloud asked
// for, and spread by a fifth up and down so that accounts do not come back together.
func (p *pass) backoff(n int, err error) time.Duration {
	d := maxBackoff
	if n <= 6 {
		d = min(firstBackoff<<(n-1), maxBackoff)
	}
	d = time.Duration(float64(d) * (0.8 + 0.4*p.loop.opts.Random()))
	var e *cloud.Error
	if errors.As(err, &e) {
		d = max(d, e.RetryAfter)
	}
	return d
}
