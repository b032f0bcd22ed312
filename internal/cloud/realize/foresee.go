package realize

import (
	"errors"
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// foresee plans, round after round, as if the VMs in mode plan were enforced. Nothing is known if
// there are none, if the task is broken off, or if planning leads to what the cloud would not take,
// which is a mistake of ours and hinders nothing else.
func (w *worker) foresee(t task, in plan.Input) []*plan.Result {
	if !slices.Contains(slices.Collect(maps.Values(in.Modes)), plan.Planned) {
		return nil
	}
	f, err := forecast.Run(in.WithoutPlanned(), w.r.lowerer(t.acct))
	switch {
	case errors.Is(err, forecast.ErrStopped):
	case err != nil:
		w.r.Log.Error(err, "What the mode plan spares cannot be told", "account", w.key)
	default:
		return f.Rounds
	}
	return nil
}
