package target

import (
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// short says what a class is short of: what is needed and what there is. Which quota of rules would
// do is not said, for how many rules name groups depends on the classes that there would be then.
func (s *Target) short(sh form.Shortage, c *form.Class) *reason.Reason {
	out := reason.Why(reason.RulesShort)
	out.Lack = &reason.Lack{
		Quota: sh.Quota, Direction: string(sh.Direction), Family: sh.Family, Needed: sh.Needed, Available: sh.Available,
		AtLeast: sh.AtLeast, Limits: s.fitter.QuotaOf(c).Limits,
	}
	out.Lack.Whole = sh.Quota == reason.QuotaRulesPerGroup && sh.Needed <= sh.Available
	return out
}
