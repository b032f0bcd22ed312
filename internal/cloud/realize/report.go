package realize

import (
	"context"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/handover"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// Report is what is known of the realization of an account. It is a value; Result is never changed
// after it was published.
type Report struct {
	// Account is "namespace/name".
	Account string
	// EnforcerKey is the key whose policies were realized, Entities the VMs they may apply to, and
	// Services the native services and interfaces.
	EnforcerKey string
	Entities    map[plan.EntityRef]plan.VMRef
	Services    map[plan.EntityRef]plan.VMRef
	// Waiting says what the worker waits for before it may plan; empty once it has planned.
	Waiting string
	// Result is the last plan with its statuses; nil before the first one.
	Result *plan.Result
	// Seen are the snapshots that Result was made of, by region.
	Seen map[string]*cloud.Snapshot
	// Underway is true while the plan of Result is being carried out: another report will follow.
	Underway bool
	// Unread are the regions that were not read for Result.
	Unread map[string]Unread
	// AsPlanned says of regions when they were observed that were last seen to be as planned,
	// before Result. What Result calls drift is younger. It lacks regions of which that is not
	// known.
	AsPlanned map[string]time.Time
	// Modes are the VMs that were not simply enforced, and Would what would be planned, round after
	// round, if those in mode plan were; nil if there are none, or if that cannot be told.
	Modes map[plan.VMRef]VMMode
	Would []*plan.Result
	// Agents is what became of the VMs that selectors hand to agents.
	Agents map[plan.VMRef]handover.State
	// Blocked are the interfaces that the cloud refuses to change, with its words.
	Blocked map[plan.InterfaceKey]string
	// Brake is what the account's brake does.
	Brake Braking
	// NotSigned is true if records of former groups were neither signed nor checked, because the
	// account's rights do not allow it.
	NotSigned bool
	// ConfirmedProblem is Account.ConfirmedProblem.
	ConfirmedProblem string
	// Failsafe is what VMs with policies are always allowed.
	Failsafe []plan.FailsafeFlow
	// ClusterID is ours, and Claims says who claims the networks, by network.
	ClusterID string
	Claims    map[string]string
	// Sole says whether this instance is the only one that writes.
	Sole instance.Sole
	// Err is the failure that the last round ended with; nil if it did not fail.
	Err error
	// Stuck are the networks that Err is about, by region and id; empty if it is about all.
	Stuck map[string]map[string]bool
	// Ops is the number of operations of the round that is running or ran last with any, and Took
	// how long it took until all was realized.
	Ops  int
	Took time.Duration
	// Changes is what was changed since the report before.
	Changes Changes
	// RealizedAt is when the account was last seen to be exactly as planned; zero before.
	RealizedAt time.Time

	began time.Time
}

// Sink takes the outcome of rounds and brings it to the objects: the status of policies and VMs,
// events.
type Sink interface {
	// Publish is called after every plan and after every failure, in order for one account, from
	// the account's worker. It must not block for long; what it cannot write it keeps and repeats.
	Publish(ctx context.Context, r Report)
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
	w.report.began, w.report.Ops, w.report.Took = w.r.Clock.Now(), 0, 0
}

// count notes an operation that has ended.
func (w *worker) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Ops++
}

// publish records a plan or failure and hands it on.
func (w *worker) publish(ctx context.Context, acct Account, res *plan.Result, err error) {
	var report Report
	recovered.Holding(&w.mu, func() {
		w.report.EnforcerKey, w.report.Entities, w.report.Services = acct.EnforcerKey, acct.Entities, acct.Services
		w.report.Waiting, w.report.Err, w.report.Blocked, w.report.Stuck = "", err, w.blocks.all(), nil
		if err != nil {
			w.report.Stuck = w.stuckNetworks()
		}
		w.report.Modes, w.report.Failsafe, w.report.Agents = acct.Modes, acct.Failsafe, w.agents
		w.report.NotSigned, w.report.ConfirmedProblem = w.notSigned, acct.ConfirmedProblem
		w.report.Sole, w.report.Underway = w.presence.Sole(), w.underway
		if res != nil {
			w.report.Seen = w.sight
			w.report.Result, w.report.Would, w.report.Claims, w.report.ClusterID = res, w.would, w.claims, w.r.ClusterID
			w.report.AsPlanned, w.report.Unread, w.report.Brake = w.asPlanned, w.unread, w.brake.state
			if err == nil && res.Plan.Empty() && w.brake.state.Waiting == nil {
				now := w.r.Clock.Now()
				w.report.RealizedAt = now
				if !w.report.began.IsZero() {
					w.report.Took, w.report.began = now.Sub(w.report.began), time.Time{}
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
func (w *worker) tell(ctx context.Context, r Report) {
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
