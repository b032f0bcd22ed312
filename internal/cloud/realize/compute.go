package realize

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/cloud/realize/brake"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// computed is what one computation says of an account. It is a value: nothing of it is changed
// after complete, and what is to be remembered of it is in worker.
type computed struct {
	// input is what the result was made of: what waits for a confirmation is held in it.
	input  plan.Input
	result *plan.Result
	// seen are the snapshots of the regions, which are Report.Seen.
	seen map[string]*cloud.Snapshot
	// parts holds the parts of the regions, and claims the owners of the networks, by network.
	parts  partition
	claims map[string]string
	// unmarked are the networks that are planned for without cloud.TagRevision.
	unmarked map[plan.InterfaceKey]string
	// would is what the result would be, round after round, if the VMs in mode plan were
	// enforced; nil if there are none, or if that cannot be told.
	would []*plan.Result
	// asPlanned is Report.AsPlanned, unread is Report.Unread, and braking what the brake does.
	asPlanned map[string]time.Time
	unread    map[string]status.Unread
	braking   brake.State
	// underway is true while the plan is being carried out.
	underway bool
}

// planOnLatest plans on the inventory's last snapshots, which costs no call: enough to see that
// nothing is to be done. It is not good enough to act on, for a take-over records the groups that
// an interface has now. False if the snapshots are older than our own last operation.
func (w *worker) planOnLatest(ctx context.Context, t task) (computed, bool) {
	var regions []plan.Region
	for _, name := range slices.Sorted(maps.Keys(t.acct.Snapshots)) {
		snap := t.acct.Snapshots[name].Joined()
		limits, err := t.acct.Provider.Limits(ctx, snap.Scope)
		if err != nil || t.acct.Pending[name] || behind(snap) != "" {
			return computed{}, false
		}
		regions = append(regions, plan.Region{Snapshot: snap, Limits: limits})
	}
	c := w.compute(ctx, t, regions)
	return c, !c.useless()
}

// compute plans on snapshots, and stops when the context ends. Of a result that is stopped or has
// failed, nothing else is known.
//
// A round plans once on a snapshot, but for three reasons: what waits for a confirmation is known
// from a plan without the brake (hold); what would become of VMs in mode plan is a plan of its own
// (foresee); and what of a region was true before it could not be read any more (complete).
func (w *worker) compute(ctx context.Context, t task, regions []plan.Region) computed {
	regions = w.past.Remembering(plan.Apart(regions, t.acct.Entities, t.acct.Services), t.seal, func(region string) bool { return w.presence.May(region) })
	in := w.input(t, regions)
	in.Agents = w.handOver(t)
	in.Stop = func() bool { return ctx.Err() != nil }
	now := w.r.Clock.Now()
	in.Blocked, in.Locked = w.blocks.active(now), w.blocks.groups(now)
	c := computed{seen: sightOf(regions), unmarked: w.unmarkable.active(now), parts: partitionOf(regions), claims: claimsOf(regions)}
	in.Unmarked = networks(c.unmarked)
	lower := w.r.lowerer(t.acct)
	c.input, c.result = in, plan.Compute(in, lower)
	if c.useless() {
		return c
	}
	if w.hold(t, &c); c.useless() {
		return c
	}
	w.stillBlocked(c.result)
	w.noteLimits(regions)
	w.r.Metrics.observed(w.key, regions, lower)
	if fault := recovered.Do(func() { c.would = w.foresee(t, c.input) }); fault != nil {
		w.tellFault("forecast", fault) // it is told to people, and nothing depends on it
	}
	if in.Stop() {
		return computed{result: &plan.Result{Stopped: true}}
	}
	fresh := 0
	c.asPlanned, fresh = w.past.Differences(c.result, regions, c.input.Modes, t.acct.Releasing)
	w.r.Metrics.drifted(w.key, fresh)
	if c.result.Plan.Empty() {
		w.past.Settle(regions, t.seal)
	}
	return c
}

// useless reports whether nothing can be told from the result.
func (c *computed) useless() bool { return c.result.Stopped || c.result.Failed }
