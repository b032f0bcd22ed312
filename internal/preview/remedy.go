package preview

import (
	"maps"
	"slices"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/signs"
)

// remedies has one for each quota for want of which something is refused, but for limits that no
// one raises.
func remedies(refusals []analysis.PlanRefusal) (out []analysis.Remedy) {
	most := map[string]int32{}
	for _, x := range refusals {
		if l := x.Lack; l != nil {
			most[l.Quota] = max(most[l.Quota], l.WouldDo)
		}
	}
	for _, quota := range slices.Sorted(maps.Keys(most)) {
		if text := signs.Advice(quota, int(most[quota])); text != "" {
			out = append(out, analysis.Remedy{Quota: quota, WouldDo: most[quota], Message: text})
		}
	}
	return out
}
