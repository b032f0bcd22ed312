package forecast

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
)

// Apply returns the snapshot as it is after the steps that are about it. An operation that the
// cloud would not take, for example one on a group that does not exist, is an error: the plan does
// not fit the snapshot.
func Apply(s *cloud.Snapshot, steps []plan.Step) (*cloud.Snapshot, error) {
	m := model.New(s.Joined())
	for _, st := range steps {
		if st.Scope.Region != s.Region {
			continue
		}
		if err := m.Apply(st.Network, st.Op); err != nil {
			return nil, fmt.Errorf("%s: %w", st.Op, err)
		}
	}
	return m.Snapshot(), nil
}

// maxRounds bounds the rounds of a forecast. Real changes need up to four.
const maxRounds = 16

// Forecast is what planning leads to.
type Forecast struct {
	// Rounds are the results of Compute, each on the state that the one before leads to. There is
	// at least one. The plan of the last one is empty if Complete.
	Rounds []*plan.Result
	// Complete is false if planning did not come to an end within 16 rounds.
	Complete bool
	// After are the snapshots at the end, in the order of the input's regions.
	After []*cloud.Snapshot
}

// ErrStopped is returned by Run if Input.Stop ended it.
var ErrStopped = errors.New("planning was interrupted")

// Run plans round after round until nothing is left to do.
func Run(in plan.Input, lower plan.Lowerer) (*Forecast, error) {
	out := &Forecast{}
	in.Regions = slices.Clone(in.Regions)
	for range maxRounds {
		r := plan.Compute(in, lower)
		if r.Stopped {
			return nil, ErrStopped
		}
		out.Rounds = append(out.Rounds, r)
		if out.Complete = r.Plan.Empty(); out.Complete {
			break
		}
		for i, region := range in.Regions {
			after, err := Apply(region.Snapshot, r.Plan.Steps)
			if err != nil {
				return nil, fmt.Errorf("forecast of %s: %w", region.Snapshot.Region, err)
			}
			in.Regions[i].Snapshot = after
		}
	}
	for _, region := range in.Regions {
		out.After = append(out.After, region.Snapshot)
	}
	return out, nil
}
