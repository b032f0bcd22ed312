package realize

import (
	"cmp"
	"maps"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// PlanInput is what there is to plan for the account on these regions: what the realizer plans, and
// what a preview of it must be made from. Of a releasing account nothing is wanted. Tighten tells
// of which policies as much is to be enforced as fits; nil means of none.
//
// Not in it is what only a realizer has: the fields Agents, Blocked, Locked, Unmarked, Stop and
// Seal.
func (a Account) PlanInput(clusterID string, want enforcer.Computed, tighten func(v1beta2.NetworkPolicyReference) bool, regions []plan.Region) plan.Input {
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
		Tighten: tightened(want, tighten), Confirmed: a.Confirmed, Dependents: a.Dependents,
	}
}

// tightened are the policies of which as much is to be enforced as fits, by UID.
func tightened(want enforcer.Computed, asks func(v1beta2.NetworkPolicyReference) bool) map[string]bool {
	if asks == nil {
		return nil
	}
	out := map[string]bool{}
	for _, p := range want.Policies {
		if p.SourceRef != nil && asks(*p.SourceRef) {
			out[cmp.Or(string(p.UID), p.Name)] = true
		}
	}
	return out
}
