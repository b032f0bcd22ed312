package realize

import (
	"context"
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

func (w *worker) setWaiting(reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Waiting = reason
}

// begin starts the counting of a round that has something to do.
func (w *worker) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began, w.report.Ops, w.report.Took = w.r.Clock.Now(), 0, 0
}

// count notes an operation that has ended.
func (w *worker) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Ops++
}

// publish records a plan or failure and hands it on.
func (w *worker) publish(ctx context.Context, acct Account, c *computed, err error) {
	var report status.Report
	recovered.Holding(&w.mu, func() {
		w.report.EnforcerKey, w.report.Entities, w.report.Services = acct.EnforcerKey, acct.Entities, acct.Services
		w.report.Waiting, w.report.Err, w.report.Blocked, w.report.Stuck = "", err, w.blocks.all(), nil
		if err != nil {
			w.report.Stuck = w.stuck.networks()
		}
		w.report.ModeReasons, w.report.Failsafe, w.report.Agents = acct.ModeReasons(), acct.Failsafe, w.agents
		w.report.NotSigned, w.report.ConfirmedProblem = w.notSigned, acct.ConfirmedProblem
		w.report.Sole, w.report.Underway = w.presence.Sole(), c != nil && c.underway
		if c != nil {
			w.report.Result, w.report.Seen = c.result, c.seen
			w.report.Would, w.report.Claims, w.report.ClusterID = c.would, c.claims, w.r.ClusterID
			w.report.AsPlanned, w.report.Unread, w.report.Brake = c.asPlanned, c.unread, c.braking
			if err == nil && c.result.Plan.Empty() && c.braking.Waiting == nil {
				now := w.r.Clock.Now()
				w.report.RealizedAt = now
				if !w.began.IsZero() {
					w.report.Took, w.began = now.Sub(w.began), time.Time{}
				}
			}
		}
		report = w.report
	})
	report.Changes = w.books.takeChanges()
	w.r.Metrics.published(report)
	w.tell(ctx, report)
}

// fail records a failure without a new plan and hands it on.
func (w *worker) fail(ctx context.Context, err error) {
	w.mu.Lock()
	w.report.Err, w.report.Sole, w.report.Underway = err, w.presence.Sole(), false
	report := w.report
	w.mu.Unlock()
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

// setReleased reports whether that is a change.
func (w *worker) setReleased(released bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := w.released != released
	w.released = released
	return changed
}
