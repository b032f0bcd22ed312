package realize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// Limits of one round of work. A round that does not come to an empty plan within maxPlans goes on after a pause, so that a cloud
// that keeps changing under our hands cannot hold the worker forever.
const (
	maxPlans    = 12
	firstPause  = time.Second
	longestWait = time.Minute
)

// worker realizes one account.
type worker struct {
	r      *Realizer
	key    string
	mirror *mirror
	// wake has room for one token: a change that comes while a round is running leads to one more round.
	wake chan struct{}
	// lastOp is when the last operation ended; only run's goroutine uses it. Older snapshots do not show it.
	lastOp time.Time
	// realized holds the UIDs of the policies last seen realized on each VM; only run's goroutine uses it. It is lost with the
	// process, and the planner knows that.
	realized map[plan.VMRef]map[string]bool

	mu     sync.Mutex
	report Report
}

func (w *worker) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run works until ctx ends: a round per wake-up, and repeated rounds with growing pauses after failures.
func (w *worker) run(ctx context.Context) {
	var streams sync.WaitGroup
	defer streams.Wait()
	for _, res := range []Resource{NetworkPolicies, AddressGroups, AppliedToGroups} {
		streams.Go(func() {
			w.mirror.run(ctx, w.r.Source, res, func(err error) {
				w.r.Log.Info("Stream of computed objects broke", "account", w.key, "reason", err.Error())
			})
		})
	}
	pause := time.Duration(0)
	for {
		var again <-chan time.Time
		if pause > 0 {
			again = w.r.Clock.After(pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
			if !w.settle(ctx) {
				return
			}
		case <-again:
		}
		done, err := w.round(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case done:
			pause = 0
		default:
			pause = min(max(2*pause, firstPause), longestWait)
			if err != nil {
				w.r.Log.Error(err, "Realization failed, will be repeated", "account", w.key, "in", pause.String())
			}
		}
	}
}

// settle waits a moment, so that changes that come together become one plan; false if ctx ended.
func (w *worker) settle(ctx context.Context) bool {
	if w.r.Settle > 0 {
		select {
		case <-ctx.Done():
			return false
		case <-w.r.Clock.After(w.r.Settle):
		}
	}
	select {
	case <-w.wake:
	default:
	}
	return true
}

// round observes, plans and applies until the plan is empty. It reports whether the account is as wanted, or can only become so by a
// change that wakes the worker.
func (w *worker) round(ctx context.Context) (bool, error) {
	acct, ok := w.r.Accounts.Account(w.key)
	if !ok {
		return true, nil
	}
	want, err := w.mirror.current()
	if err != nil && !acct.Releasing {
		w.setWaiting(err.Error())
		return true, nil // the mirror wakes us when it is complete
	}
	if acct.Releasing {
		want = computed{}
		acct.Entities = nil
	}
	if acct.Provider == nil || len(acct.Snapshots) == 0 || acct.Releasing && len(acct.Snapshots) < len(acct.Regions) {
		w.setWaiting("waiting for the first whole observation of the account")
		return true, nil // the inventory wakes us with the first snapshot
	}
	if res, ok := w.planOnLatest(ctx, acct, want); ok && res.Plan.Empty() {
		w.publish(ctx, acct, res, nil)
		w.settled(acct)
		return true, nil
	}
	w.begin()
	for range maxPlans {
		res, err := w.planAfresh(ctx, acct, want)
		if err != nil {
			w.publish(ctx, acct, nil, err)
			return false, err
		}
		w.publish(ctx, acct, res, nil)
		if res.Plan.Empty() {
			w.settled(acct)
			return true, nil
		}
		sum := res.Plan.Summary()
		w.r.Log.Info("Applying a plan", "account", w.key, "operations", sum.Steps, "groupsCreated", sum.GroupsCreated, "groupsDeleted", sum.GroupsDeleted,
			"rulesAdded", sum.RulesAdded, "rulesRemoved", sum.RulesRemoved, "interfaceEdits", sum.InterfaceEdits, "refusals", len(res.Refusals), "drift", len(res.Drift))
		err = w.apply(ctx, acct.Provider, res.Plan)
		w.r.Accounts.Trigger(w.key)
		if err != nil && !replannable(err) {
			w.publish(ctx, acct, res, err)
			return false, err
		}
	}
	return false, fmt.Errorf("account %s: the cloud is still not as planned after %d plans", w.key, maxPlans)
}

// replannable tells the errors after which a new observation and plan is the right answer at once.
func replannable(err error) bool {
	c := cloud.ClassOf(err)
	return c == cloud.Conflict || c == cloud.NotFound
}

// planOnLatest plans on the inventory's last snapshots, which costs no call: enough to see that nothing is to be done. It is not good
// enough to act on, for a take-over records the groups that an interface has now. False if the snapshots are older than our own
// last operation, or if a region is missing.
func (w *worker) planOnLatest(ctx context.Context, acct Account, want computed) (*plan.Result, bool) {
	var regions []plan.Region
	for _, name := range sortedKeys(acct.Snapshots) {
		snap := acct.Snapshots[name]
		limits, err := acct.Provider.Limits(ctx, snap.Scope)
		if err != nil || !snap.ObservedAt.After(w.lastOp) {
			return nil, false
		}
		regions = append(regions, plan.Region{Snapshot: snap, Limits: limits})
	}
	return w.compute(acct, want, regions), true
}

// planAfresh observes all regions and computes what to do.
func (w *worker) planAfresh(ctx context.Context, acct Account, want computed) (*plan.Result, error) {
	names := sortedKeys(acct.Snapshots)
	regions := make([]plan.Region, len(names))
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			scope := cloud.Scope{Account: w.key, Region: name}
			if regions[i].Snapshot, errs[i] = acct.Provider.Observe(ctx, scope); errs[i] == nil {
				regions[i].Limits, errs[i] = acct.Provider.Limits(ctx, scope)
			}
		})
	}
	wg.Wait()
	// A region that cannot be read is left alone; the others go on. An account is given back only as a whole.
	var readable []plan.Region
	for i := range regions {
		if errs[i] == nil {
			readable = append(readable, regions[i])
		}
	}
	if len(readable) == 0 || acct.Releasing && len(readable) < len(regions) {
		return nil, errors.Join(errs...)
	}
	for i, err := range errs {
		if err != nil {
			w.r.Log.Error(err, "Region cannot be read and is left as it is", "account", w.key, "region", names[i])
		}
	}
	return w.compute(acct, want, readable), nil
}

func (w *worker) compute(acct Account, want computed, regions []plan.Region) *plan.Result {
	res := plan.Compute(plan.Input{
		ClusterID: w.r.ClusterID, Account: w.key,
		Policies: want.Policies, AddressGroups: want.AddressGroups, AppliedToGroups: want.AppliedToGroups,
		Entities: acct.Entities, Realized: w.realized, Regions: regions,
	}, w.r.Lowerer)
	w.remember(res)
	return res
}

// remember notes which policies are realized where. What was realized once counts until the policy does not apply to the VM any more.
func (w *worker) remember(res *plan.Result) {
	next := map[plan.VMRef]map[string]bool{}
	for _, vm := range res.VMs {
		known, seen := w.realized[vm.VM]
		if !seen && !res.Plan.Empty() {
			continue // nothing is known of this VM before it was once seen as it should be
		}
		uids := map[string]bool{}
		for _, p := range vm.Policies {
			if p.Realized || known[p.UID] {
				uids[p.UID] = true
			}
		}
		next[vm.VM] = uids
	}
	w.realized = next
}

// apply does the steps in order and stops at the first that fails.
func (w *worker) apply(ctx context.Context, p cloud.Provider, pl plan.Plan) error {
	ids := map[string]string{} // network/group name -> group ID, of groups created by this plan
	for i, step := range pl.Steps {
		op := step.Op.Resolve(step.Network, ids)
		err := unresolved(op)
		id := ""
		if err == nil {
			w.r.Log.V(1).Info("Applying", "account", w.key, "region", step.Scope.Region, "operation", op.String())
			id, err = w.applyPatiently(ctx, p, step.Scope, op)
			w.lastOp = w.r.Clock.Now()
			w.count()
		}
		if err != nil {
			return fmt.Errorf("step %d of %d, %s: %w", i+1, len(pl.Steps), op, err)
		}
		if op.Kind == cloud.OpCreateGroup {
			ids[step.Network+"/"+op.Group.Name] = id
		}
	}
	return nil
}

// applyPatiently repeats an op that the cloud throttles; it keeps the plan's order by waiting instead of going on.
func (w *worker) applyPatiently(ctx context.Context, p cloud.Provider, scope cloud.Scope, op cloud.Op) (string, error) {
	pause := 500 * time.Millisecond
	for {
		id, err := p.Apply(ctx, scope, op)
		if err == nil || cloud.ClassOf(err) != cloud.Throttled {
			return id, err
		}
		wait := pause
		var e *cloud.Error
		if errors.As(err, &e) && e.RetryAfter > wait {
			wait = e.RetryAfter
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-w.r.Clock.After(wait):
		}
		pause = min(2*pause, 20*time.Second)
	}
}

// unresolved says that an op still names a group that no step created: the plan and the cloud are out of step.
func unresolved(op cloud.Op) error {
	missing := slices.Clone(op.GroupNames)
	for _, r := range op.Rules {
		if r.Peer.GroupName != "" {
			missing = append(missing, r.Peer.GroupName)
		}
	}
	if op.Target == "" && op.Kind != cloud.OpCreateGroup {
		missing = append(missing, op.Group.Name)
	}
	if len(missing) == 0 {
		return nil
	}
	return &cloud.Error{Class: cloud.Conflict, Call: string(op.Kind), Err: fmt.Errorf("no step of the plan creates the groups %v", missing)}
}
