package cli

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/signs"
)

// quotaAdvice says, once for each quota for want of which something is refused, which one of the
// cloud's to raise and to what. Where no value would do there is none.
func quotaAdvice(refusals []plannedRefusal) (out []string) {
	most := map[string]int{}
	for _, x := range refusals {
		if l := x.Lack; l != nil && l.WouldDo > 0 {
			most[l.Quota] = max(most[l.Quota], l.WouldDo)
		}
	}
	var names []string
	for name := range most {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, quota := range names {
		if text := signs.Advice(quota, most[quota]); text != "" {
			out = append(out, text)
		}
	}
	return out
}
