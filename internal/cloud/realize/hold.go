package realize

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/brake"
)

// hold plans again, so that what waits for a confirmation stays as it is. Of an account that is
// being deleted nothing is done at all then.
func (w *worker) hold(t task, c *computed) {
	c.braking = w.brake.Weigh(w.r.Clock.Now(), t.acct.asked(), c.result.Protection)
	waiting := c.braking.Waiting
	if waiting == nil || c.result.Protection == nil {
		return
	}
	if t.acct.Releasing {
		held := *c.result
		held.Plan = plan.Plan{Account: held.Plan.Account}
		c.result = &held
		return
	}
	modes := make(map[plan.VMRef]plan.Mode, len(c.input.Modes))
	maps.Copy(modes, c.input.Modes)
	for vm := range waiting.VMs() {
		if modes[vm] != plan.BreakGlass {
			modes[vm] = plan.Braked
		}
	}
	c.input.Modes = modes
	c.result = plan.Compute(c.input, w.r.lowerer(t.acct))
}

// brakesOtherwise reports whether something else has to wait, or may go on, than with another state
// of the account.
func (a Account) brakesOtherwise(b Account) bool {
	return a.Confirm != b.Confirm || a.Force != b.Force || (a.Brake == nil) != (b.Brake == nil) || a.Brake != nil && *a.Brake != *b.Brake
}

// asked is what the account says about its brake.
func (a Account) asked() brake.Asked {
	unread := func(region string) bool { return a.Snapshots[region] == nil && a.Unread[region] == nil }
	return brake.Asked{Account: a.Key, Brake: a.Brake, Confirm: a.Confirm, Regions: a.Regions, Early: slices.ContainsFunc(a.Regions, unread)}
}
