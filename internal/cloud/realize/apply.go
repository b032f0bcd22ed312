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

// apply does the steps of each region in order and stops at the first that fails there; regions know nothing of one another.
// It returns the error of the first region that failed.
func (w *worker) apply(ctx context.Context, p cloud.Provider, pl plan.Plan) error {
	steps := map[string][]plan.Step{}
	for _, step := range pl.Steps {
		steps[step.Scope.Region] = append(steps[step.Scope.Region], step)
	}
	names := sortedKeys(steps)
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = w.applyRegion(ctx, p, steps[name]) })
	}
	wg.Wait()
	return worst(errs)
}

// worst returns the error that decides how to go on: the first one that a new plan alone does not answer, else the first one.
func worst(errs []error) error {
	var out error
	for _, err := range errs {
		if err != nil && (out == nil || replannable(out) && !replannable(err)) {
			out = err
		}
	}
	return out
}

func (w *worker) applyRegion(ctx context.Context, p cloud.Provider, steps []plan.Step) error {
	ids := map[string]string{} // network/group name -> group ID, of groups created by this plan
	for i, step := range steps {
		op := step.Op.Resolve(step.Network, ids)
		err := unresolved(op)
		id := ""
		if err == nil {
			w.r.Log.V(1).Info("Applying", "account", w.key, "region", step.Scope.Region, "operation", op.String())
			id, err = w.applyPatiently(ctx, p, step.Scope, op)
			w.count()
		}
		if err != nil {
			return fmt.Errorf("%s: step %d of %d, %s: %w", step.Scope.Region, i+1, len(steps), op, err)
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
