package realize

import (
	"context"
	"maps"
	"time"

	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// PlanInput is what there is to plan for the account on these regions: what the realizer plans, and
// what a preview of it must be made from. Of a releasing account nothing is wanted.
//
// Not in it is what only a realizer has: the fields Agents, Blocked, Locked, Unmarked, Stop and
// Seal.
func (a Account) PlanInput(clusterID string, want enforcer.Computed, regions []plan.Region) plan.Input {
	if a.Releasing {
		want, a.Entities, a.Modes, a.Aliases = enforcer.Computed{}, nil, nil, nil
	}
	entities := a.Entities
	if len(a.Aliases) > 0 {
		entities = maps.Clone(entities)
		maps.Copy(entities, a.Aliases)
	}
	return plan.Input{
		ClusterID: clusterID, Account: a.Key,
		Policies: want.Policies, AddressGroups: enforcer.Objects(want.AddressGroups), AppliedToGroups: want.AppliedToGroups,
		Entities: entities, Shared: a.Shared, Services: a.Services, Regions: regions, Modes: a.planModes(), Failsafe: a.Failsafe,
		Confirmed: a.Confirmed, Dependents: a.Dependents, Force: a.Force, ForcedBy: a.ForcedBy, Limit: limit,
	}
}

// mostTime is how long one try to plan may take. An account as large as AWS can hold takes seconds:
// see docs/performance.md.
const mostTime = time.Minute

// limit is that of every plan.
func limit() (late func() bool, end func()) {
	ctx, cancel := context.WithTimeout(context.Background(), mostTime)
	return func() bool { return ctx.Err() != nil }, func() { cancel() }
}
