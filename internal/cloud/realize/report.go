package realize

import (
	"context"
	"sync"
	"time"

	"github.com/nephele-io/nephele/internal/cloud/realize/status"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// Sink takes the outcome of rounds and brings it to the objects: the status of policies and VMs,
// events.
type Sink interface {
	// Publish is called after every plan and after every failure, in order for one account,
	// from the account's worker. It must not block for long; what it cannot write it keeps and
	// repeats.
	Publish(ctx context.Context, r status.Report)
}

// said is the last report on an account, and what is counted for it. Its methods may be called
// at any time.
type said struct {
	mu     sync.Mutex
	report status.Report
	// began is when the round began that the report counts; zero if none is counted.
	began    time.Time
	released bool
}

// last is the last report.
func (o *said) last() status.Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.report
}

// change changes the report and returns what it is then.
func (o *said) change(do func(r *status.Report)) status.Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	do(&o.report)
	return o.report
}

func (o *said) setWaiting(reason string) {
	o.change(func(r *status.Report) { r.Waiting = reason })
}

// begin starts the counting of a round that has something to do.
func (o *said) begin(now time.Time) {
	o.change(func(r *status.Report) { o.began, r.Ops, r.Took = now, 0, 0 })
}

// count notes an operation that has ended.
func (o *said) count() {
	o.change(func(r *status.Report) { r.Ops++ })
}

// realized notes that the account is exactly as planned. It is to be called within change.
func (o *said) realized(now time.Time) {
	o.report.RealizedAt = now
	if !o.began.IsZero() {
		o.report.Took, o.began = now.Sub(o.began), time.Time{}
	}
}

func (o *said) isReleased() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.released
}

// setReleased reports whether that is a change.
func (o *said) setReleased(released bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	changed := o.released != released
	o.released = released
	return changed
}

// publish records a plan or failure and hands it on.
func (w *worker) publish(ctx context.Context, acct Account, c *computed, err error) {
	blocked, sole, now := w.blocks.all(), w.presence.Sole(), w.r.Clock.Now()
	report := w.told.change(func(r *status.Report) {
		r.EnforcerKey, r.Entities, r.Services = acct.EnforcerKey, acct.Entities, acct.Services
		r.Waiting, r.Err, r.Blocked, r.Stuck = "", err, blocked, nil
		if err != nil {
			r.Stuck = w.stuck.networks()
		}
		r.ModeReasons, r.Failsafe, r.Agents = acct.ModeReasons(), acct.Failsafe, w.agents
		r.NotSigned, r.ConfirmedProblem = w.notSigned, acct.ConfirmedProblem
		r.Sole, r.Underway, r.Force = sole, c != nil && c.underway, acct.Force
		if c == nil {
			return
		}
		r.Result, r.Seen = c.result, c.seen
		r.Would, r.Claims, r.ClusterID = c.would, c.claims, w.r.ClusterID
		r.AsPlanned, r.Unread, r.Brake = c.asPlanned, c.unread, c.braking
		done := err == nil && c.result.Plan.Empty() && c.braking.Waiting == nil
		r.ForceSpent = done && acct.Force != "" && len(c.unread) == 0 && !c.result.WaitsForWord()
		if done {
			w.told.realized(now)
		}
	})
	report.Changes = w.books.takeChanges()
	w.r.Metrics.published(report)
	w.tell(ctx, report)
}

// fail records a failure without a new plan and hands it on.
func (w *worker) fail(ctx context.Context, err error) {
	sole := w.presence.Sole()
	report := w.told.change(func(r *status.Report) { r.Err, r.Sole, r.Underway = err, sole, false })
	report.Changes = w.books.takeChanges()
	w.tell(ctx, report)
}

// tell hands a report on, unless another process has the account by now.
func (w *worker) tell(ctx context.Context, r status.Report) {
	if w.r.mine(w.key) {
		if fault := recovered.Do(func() { w.r.Sink.Publish(ctx, r) }); fault != nil {
			w.tellFault("status", fault)
		}
	}
}
