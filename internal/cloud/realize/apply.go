package realize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/wire"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// apply does the stages of each part in order and stops at the first that fails there; parts know
// nothing of one another. It returns the objects that were changed or may have been, by region, or
// nil if others may be different, too; and the error of the first part that failed.
func (w *worker) apply(ctx context.Context, t task, c computed, pl plan.Plan) (map[string][]string, error) {
	steps, slots := map[part][]plan.Step{}, map[string]chan struct{}{}
	for _, step := range pl.Steps {
		name := c.parts.of(step.Scope.Region, step.Network)
		steps[name] = append(steps[name], step)
		slots[name.region] = make(chan struct{}, atOnce)
	}
	names := slices.SortedFunc(maps.Keys(steps), func(a, b part) int { return cmp.Or(cmp.Compare(a.region, b.region), cmp.Compare(a.network, b.network)) })
	errs, runs := make([]error, len(names)), make([]*execution, len(names))
	start := w.r.Clock.Now()
	var wg sync.WaitGroup
	for i, name := range names {
		runs[i] = &execution{w: w, task: t, seen: c.seen, wire: w.wires.Begin(name, start, t.acct.Propagation), start: start, steps: steps[name], slots: slots[name.region],
			ids: map[string]string{}, touched: map[string]bool{}}
		wg.Go(func() { errs[i] = recovered.Call(func() error { return runs[i].stages(ctx, steps[name]) }) })
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wg.Wait()
	}()
	w.attend(ctx, t, c, ended)
	touched, unsure := map[string][]string{}, false
	for i, name := range names {
		touched[name.region] = append(touched[name.region], slices.Sorted(maps.Keys(runs[i].touched))...)
		unsure = unsure || runs[i].unsure
	}
	if unsure {
		touched = nil
	}
	w.stuck.note(names, errs)
	return touched, worst(errs)
}

// worst returns the error that decides how to go on: the first one that a new plan alone does not
// answer, else the first one that says more than that something newer is wanted.
func worst(errs []error) error {
	var out error
	for _, err := range errs {
		if err != nil && (out == nil || replannable(out) && !replannable(err) || errors.Is(out, errOutdated) && !errors.Is(err, errOutdated)) {
			out = err
		}
	}
	return out
}

// atOnce bounds the operations that are on their way at the same time in one region. The rate is
// for the adapter to keep; this only has to be enough to reach it where a call takes long.
const atOnce = 16

// stint is how long a plan is applied although something newer is wanted. Every plan gets that
// long, so that there is progress however often things change, and nothing new, such as a policy
// that closes something, waits longer for thousands of calls.
const stint = 10 * time.Second

// errOutdated ends a plan because something newer is wanted. A plan may end after any step.
var errOutdated = &cloud.Error{Class: cloud.Conflict, Err: errors.New("something newer is wanted, which goes first")}

// outdated reports whether the plan has to make room for a newer one: at once for what is urgent,
// and where somebody else may write; else when it has had its time.
func (e *execution) outdated(region string) bool {
	select {
	case <-e.task.urgent:
		return true
	default:
	}
	if !e.w.presence.May(region) {
		e.doubt()
		return true
	}
	return e.w.r.Clock.Since(e.start) > stint && (!e.task.acct.Releasing && !e.w.mirror.Unchanged(e.task.version) || e.w.accountChanged())
}

// errUnanswered is the error of an operation whose end is not known.
var errUnanswered = &cloud.Error{Class: cloud.Unavailable, Call: "Apply", Err: errors.New("nobody knows how it ended")}

// execution is a part of a plan on its way.
type execution struct {
	w    *worker
	task task
	// seen are the snapshots that the plan was made of.
	seen  map[string]*cloud.Snapshot
	wire  *wire.Wire
	start time.Time
	steps []plan.Step
	// slots bound the operations that are on their way, together with other parts of the
	// region.
	slots chan struct{}

	mu    sync.Mutex
	ended int
	ids   map[string]string // network/group name -> group ID, of groups created by this plan
	// touched are the objects of operations that were begun, however these ended: one that is
	// given up, or whose answer is lost, may have been done, or a part of it.
	touched map[string]bool
	// unsure is set if other objects may be different, too, from what was known.
	unsure bool
}

// doubt notes that more may be different than what was touched.
func (e *execution) doubt() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unsure = true
}

// touch notes that these objects may be different from now on.
func (e *execution) touch(ids ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		e.touched[id] = true
	}
}

// stages applies stage after stage. Steps about different subjects go out together within a stage.
// After a failure nothing new is begun, and what is on its way is waited for.
func (e *execution) stages(ctx context.Context, steps []plan.Step) error {
	for len(steps) > 0 {
		n := 1
		for n < len(steps) && steps[n].Stage == steps[0].Stage {
			n++
		}
		if err := e.stage(ctx, steps[:n]); err != nil {
			return err
		}
		steps = steps[n:]
	}
	return nil
}

// stage applies the steps of one stage, those about the same subject one after the other.
func (e *execution) stage(ctx context.Context, steps []plan.Step) error {
	var subjects []string
	bySubject := map[string][]plan.Step{}
	for _, s := range steps {
		name := s.Subject()
		if bySubject[name] == nil {
			subjects = append(subjects, name)
		}
		bySubject[name] = append(bySubject[name], s)
	}
	errs := make([]error, len(subjects))
	var failed atomic.Bool
	var wg sync.WaitGroup
	for i, name := range subjects {
		e.slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-e.slots }()
			for _, step := range bySubject[name] {
				if failed.Load() {
					return
				}
				if errs[i] = recovered.Call(func() error { return e.step(ctx, step) }); errs[i] != nil {
					if !errors.Is(errs[i], errBlocked) {
						failed.Store(true)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	return worst(errs)
}

func (e *execution) step(ctx context.Context, step plan.Step) (failed error) {
	ctx, span := e.w.traceStep(ctx, step)
	defer func() { span.End(failureClass(failed)) }()
	e.mu.Lock()
	op := step.Op.Resolve(step.Network, e.ids)
	e.mu.Unlock()
	err := op.Unresolved()
	if wait := e.wire.Wait(step, e.w.r.Clock.Now()); err == nil && wait > 0 && !step.Urgent {
		e.pause(ctx, wait)
	}
	if err == nil && e.outdated(step.Scope.Region) {
		err = errOutdated
	}
	id, begun := "", err == nil
	e.w.alive()
	if begun {
		e.touch(op.Subjects()...)
		e.w.r.Log.V(1).Info("Applying", "account", e.w.key, "region", step.Scope.Region, "operation", op.String())
		var tried func(error)
		op, tried = e.w.presence.LetGo(step.Scope.Region, op)
		err = errUnanswered // what panics has no answer
		func() {
			defer func() { tried(err) }()
			if id, err = e.patiently(e.w.books.with(ctx, step, op), step.Scope, op); err != nil {
				id, err = e.unsigned(ctx, step, op, err)
			}
		}()
		e.wire.Accept(step, e.w.r.Clock.Now())
		e.w.told.count()
		e.w.r.Metrics.op(e.w.key, op.Kind, err)
		if err == nil {
			e.w.blocks.changed(step.Scope.Region, step.Interfaces())
			if marks(step) {
				e.w.unmarkable.changed(step.Scope.Region, []string{step.Network})
			}
		} else {
			err = e.withoutMark(step, e.isolated(ctx, step, op, err))
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended++
	if err != nil {
		// Where the cloud is not as the plan assumed, or what was done cannot be told,
		// nothing is known; nor is the id of a group that may have been created.
		e.unsure = e.unsure || !errors.Is(err, errOutdated) && !errors.Is(err, errBlocked) || begun && op.Kind == cloud.OpCreateGroup
		return fmt.Errorf("%s: step %d of %d, %s: %w", step.Scope.Region, e.ended, len(e.steps), op, err)
	}
	e.w.books.done(step, op)
	if op.Kind == cloud.OpCreateGroup {
		e.touched[id], e.ids[step.Network+"/"+op.Group.Name] = true, id
	}
	return nil
}

// patiently repeats an op that the cloud throttles; it keeps the plan's order by waiting instead of
// going on. What is still to be tried gives way to what is newer.
func (e *execution) patiently(ctx context.Context, scope cloud.Scope, op cloud.Op) (string, error) {
	pause := 500 * time.Millisecond
	for {
		id, err := call(string(op.Kind), func() (string, error) { return e.task.acct.Provider.Apply(ctx, scope, op) })
		if err == nil || cloud.ClassOf(err) != cloud.Throttled {
			return id, err
		}
		wait := pause
		var x *cloud.Error
		if errors.As(err, &x) && x.RetryAfter > wait {
			wait = x.RetryAfter
		}
		if e.pause(ctx, wait); ctx.Err() != nil {
			return "", err
		}
		if e.outdated(scope.Region) {
			return "", errOutdated
		}
		pause = min(2*pause, 20*time.Second)
	}
}

// pause waits, unless the context ends or something newer may not wait.
func (e *execution) pause(ctx context.Context, wait time.Duration) {
	select {
	case <-ctx.Done():
	case <-e.task.urgent:
	case <-e.w.r.Clock.After(wait):
	}
}
