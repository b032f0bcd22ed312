package realize

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// call is a call of a provider. A panic in it is an error of that call, for which everything else
// goes on as after any other one.
func call[T any](name string, do func() (T, error)) (out T, err error) {
	var failed error
	if fault := recovered.Do(func() { out, failed = do() }); fault != nil {
		return out, &cloud.Error{Class: cloud.Terminal, Call: name, Err: fault}
	}
	return out, failed
}

// guardedRound is round that ends with an error if it panics. The account says so, and the round is
// repeated after a pause.
func (w *worker) guardedRound(ctx context.Context) (done bool, failed error) {
	w.alive()
	defer w.life.Store(0)
	err := recovered.Call(func() (err error) {
		done, err = w.round(ctx)
		return err
	})
	if recovered.StackOf(err) == "" {
		return done, err
	}
	w.tellFault("round", err)
	if also := recovered.Do(func() { w.fail(ctx, err) }); also != nil {
		w.tellFault("report", also)
	}
	return false, err
}

// tellFault counts a panic and writes it to the log, with its stack.
func (w *worker) tellFault(part string, err error) {
	w.r.Metrics.fault(w.key, part)
	w.r.Log.Error(err, "A panic was recovered", "account", w.key, "in", part, "stack", recovered.StackOf(err))
}

// errUndecided is why a round fails of which nothing could be planned.
var errUndecided = errors.New("nothing can be planned")

// planFaults reports what the planner left out, once for each change of that. The error is not nil
// if nothing was planned.
func (w *worker) planFaults(res *plan.Result) error {
	for _, f := range res.Faults {
		if w.faults[f.Text+f.Policy+f.Interface+f.Region] {
			continue
		}
		w.r.Metrics.fault(w.key, "plan")
		w.r.Log.Error(errors.New(f.Text), "The planner panicked: what it cannot cope with stays as it is, the rest goes on", "account", w.key,
			"policy", f.Policy, "region", f.Region, "interface", f.Interface, "stack", f.Stack)
	}
	w.faults = map[string]bool{}
	for _, f := range res.Faults {
		w.faults[f.Text+f.Policy+f.Interface+f.Region] = true
	}
	if !res.Failed {
		return nil
	}
	return &cloud.Error{Class: cloud.Terminal, Call: "Plan", Err: errors.Join(errUndecided, &recovered.Panic{Value: res.Faults[0].Text, Stack: res.Faults[0].Stack})}
}

// stalled is after how long a round that does not come on counts as one that hangs. Nothing that a
// round waits for takes that long: a call is given up after minutes, and an operation that the
// cloud throttles is tried again after seconds.
const stalled = 15 * time.Minute

// alive notes that the round comes on.
func (w *worker) alive() { w.life.Store(w.r.Clock.Now().UnixNano()) }

// tellStalled says of accounts whose round does not come on that they hang.
func (r *Realizer) tellStalled(ctx context.Context) {
	for _, w := range r.hanging() {
		w.tellFault("stall", errStalled)
		w.fail(ctx, errStalled)
	}
}

var errStalled = fmt.Errorf("the work on the account has not come on for %s: %w", stalled, status.ErrStalled)

// hanging are the workers whose round has not come on.
func (r *Realizer) hanging() []*worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*worker
	for _, key := range slices.Sorted(maps.Keys(r.workers)) {
		w := r.workers[key].worker
		if life := w.life.Load(); life != 0 && r.Clock.Since(time.Unix(0, life)) > stalled {
			out = append(out, w)
		}
	}
	return out
}
