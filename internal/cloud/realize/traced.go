package realize

import (
	"context"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/platform/tracing"
)

// causes are the changes of policies since the last call, from the traces of the process that
// computed them. What is there at the beginning is none.
func (w *worker) causes(t task) []tracing.Change {
	if !w.r.Tracer.On() || t.acct.Releasing {
		return nil
	}
	now := make(map[string]int64, len(t.want.Policies))
	var out []tracing.Change
	for _, p := range t.want.Policies {
		now[string(p.UID)] = p.Generation
		if w.traced != nil && w.traced[string(p.UID)] != p.Generation {
			out = append(out, tracing.Change{UID: string(p.UID), Generation: p.Generation})
		}
	}
	for uid := range w.traced {
		if _, there := now[uid]; !there {
			out = append(out, tracing.Change{UID: uid, Generation: -1})
		}
	}
	w.traced = now
	return out
}

// tracePlans begins a span for the plan of each region; end tells what became of it.
func (w *worker) tracePlans(ctx context.Context, regions []plan.Region) (end func(*plan.Result)) {
	if !w.r.Tracer.On() {
		return func(*plan.Result) {}
	}
	spans := make(map[string]tracing.Span, len(regions))
	for i := range regions {
		_, s := w.r.Tracer.Within(ctx, "plan")
		s.Text("account", w.key)
		s.Text("region", regions[i].Snapshot.Region)
		spans[regions[i].Snapshot.Region] = s
	}
	return func(res *plan.Result) {
		operations, refusals := map[string]int{}, map[string]int{}
		for _, step := range res.Plan.Steps {
			operations[step.Scope.Region]++
		}
		for _, r := range res.Refusals {
			refusals[r.Region]++
		}
		for region, s := range spans {
			s.Number("operations", operations[region])
			s.Number("refusals", refusals[region])
			s.End("")
		}
	}
}

// traceStep begins the span of an operation.
func (w *worker) traceStep(ctx context.Context, step plan.Step) (context.Context, tracing.Span) {
	ctx, s := w.r.Tracer.Within(ctx, "change")
	s.Text("operation", string(step.Op.Kind))
	s.Text("account", w.key)
	s.Text("region", step.Scope.Region)
	s.Text("object", step.Op.Target)
	return ctx, s
}

// failureClass is the class of an error, for traces.
func failureClass(err error) string {
	if err == nil {
		return ""
	}
	return string(cloud.ClassOf(err))
}
