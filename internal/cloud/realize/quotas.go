package realize

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// The quotas whose fill is shown, by the names in metrics.
const (
	quotaGroups = "groups-per-region"
	quotaHeld   = "groups-per-interface"
	quotaRules  = "rules-per-group"
)

// quotaFill is how full the fullest object is for each quota of a region, as a share of 1. All
// limits that hold for the rules of one group count as one.
func quotaFill(r plan.Region, lower plan.Lowerer) map[string]float64 {
	out := map[string]float64{}
	fill := func(quota string, used, limit int) {
		if limit > 0 {
			out[quota] = max(out[quota], float64(used)/float64(limit))
		}
	}
	quota := plan.Quota{Limits: r.Limits, Lists: map[string]*cloud.PrefixList{}}
	for i := range r.Snapshot.PrefixLists {
		quota.Lists[r.Snapshot.PrefixLists[i].ID] = &r.Snapshot.PrefixLists[i]
	}
	for _, g := range r.Snapshot.Groups {
		if g.View {
			continue
		}
		for _, use := range lower.Uses(g.Rules, quota) {
			fill(quotaRules, use.Used, use.Limit)
		}
	}
	fill(quotaGroups, r.Snapshot.CountedGroups(), r.Limits.GroupsPerRegion)
	for _, i := range r.Snapshot.Interfaces {
		fill(quotaHeld, len(i.GroupIDs), r.Limits.GroupsPerInterface)
	}
	return out
}
