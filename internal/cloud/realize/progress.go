package realize

import (
	"context"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"
)

// A plan for thousands of interfaces takes minutes, and a reader of the account sees its progress
// meanwhile. A report on that comes at most every progressPause, and not before progressShare times
// as long as the last one took to make.
const (
	progressPause = 15 * time.Second
	progressShare = 20
)

// sightOf are the snapshots of regions.
func sightOf(regions []plan.Region) map[string]*cloud.Snapshot {
	out := map[string]*cloud.Snapshot{}
	for _, r := range regions {
		out[r.Snapshot.Region] = r.Snapshot
	}
	return out
}

// attend waits until a plan is carried out, and reports on it as often as it is seen how far that
// is.
func (w *worker) attend(ctx context.Context, t task, c computed, ended <-chan struct{}) {
	next := w.r.Clock.Now().Add(progressPause)
	for {
		select {
		case <-ended:
			return
		case <-w.signals.sighted:
		}
		begin := w.r.Clock.Now()
		if begin.Before(next) || ctx.Err() != nil {
			continue
		}
		if w.progress(ctx, t, &c.input) {
			end := w.r.Clock.Now()
			next = end.Add(max(progressPause, progressShare*end.Sub(begin)))
		}
	}
}

// progress reports which VMs are seen to be as planned, though the plan is not at its end, and
// returns whether there was anything new to look at. Planned is what the plan was made of, on the
// snapshots that were looked at last. What else the last report says stays: it is
// about the plan as a whole.
func (w *worker) progress(ctx context.Context, t task, planned *plan.Input) bool {
	acct, ok := w.r.Accounts.Account(w.key)
	if !ok {
		return false
	}
	in, newer := *planned, false
	in.Regions = slices.Clone(in.Regions)
	for i := range in.Regions {
		r := &in.Regions[i]
		latest := acct.Snapshots[r.Snapshot.Region]
		if latest == nil {
			return false
		}
		if latest.ObservedAt.After(r.Snapshot.ObservedAt) {
			r.Snapshot, newer = latest, true
		}
	}
	if !newer {
		return false
	}
	in.Stop = func() bool { return ctx.Err() != nil }
	planned.Regions = in.Regions
	res := plan.Compute(in, w.r.lowerer(t.acct))
	if res.Stopped {
		return false
	}
	done := map[plan.VMRef]plan.VMStatus{}
	for _, vm := range res.VMs {
		if isRealized(vm) {
			done[vm.VM] = vm
		}
	}
	shown := w.told.last().Result
	if shown == nil {
		return true
	}
	now := *shown
	now.VMs = slices.Clone(now.VMs)
	for i, vm := range now.VMs {
		if better, is := done[vm.VM]; is {
			now.VMs[i] = better
		}
	}
	w.tell(ctx, w.told.change(func(r *status.Report) { r.Result, r.Seen = &now, sightOf(in.Regions) }))
	return true
}

// isRealized reports whether policies apply to a VM and all of them are in force on it.
func isRealized(vm plan.VMStatus) bool {
	return vm.Mode == plan.Enforce && len(vm.Policies) > 0 &&
		!slices.ContainsFunc(vm.Policies, func(p plan.VMPolicy) bool { return !p.Realized })
}
