package preview

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/signs"
)

// Remedy says which quota of the cloud to raise, and to what.
type Remedy struct {
	Quota   string `json:"quota"`
	WouldDo int    `json:"wouldDo"`
	Message string `json:"message"`
}

// remedies has one for each quota for want of which something is refused. Where no value would do
// there is none.
func remedies(refusals []PlannedRefusal) (out []Remedy) {
	most := map[string]int{}
	for _, x := range refusals {
		if l := x.Lack; l != nil && l.WouldDo > 0 {
			most[l.Quota] = max(most[l.Quota], l.WouldDo)
		}
	}
	for _, quota := range slices.Sorted(maps.Keys(most)) {
		if text := signs.Advice(quota, most[quota]); text != "" {
			out = append(out, Remedy{quota, most[quota], text})
		}
	}
	return out
}
