package design

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// rejection is a policy that cannot be enforced on an interface together with those that are.
type rejection struct {
	policy *intent.Policy
	short  form.Shortfall
	// certain is true if it does not fit in any form, whatever the classes of its peers.
	certain bool
}

// surplus returns the policies that do not fit together with the others, the policies of the lowest
// precedence first: the rest is what remains if one after the other is admitted that fits besides
// those admitted before, in the order of precedence. What each of them would need is told for the
// case that it came on top of the rest. It is empty if everything was left out already, for the
// sake of another interface of the same VM.
func (s *Designer) surplus(c *form.Class) (out []rejection) {
	n := c.NICs[0]
	var kept, rest []*intent.Policy
	with := func(p *intent.Policy) form.Demand {
		rules, profile := s.Guard.RulesOf(n.VM, func(o *intent.Policy) bool { return o == p || slices.Contains(kept, o) })
		return form.Demand{Class: c, Want: s.Region.Decided(n.NIC, rules, profile)}
	}
	for _, p := range n.VM.Policies {
		if !n.VM.Enforces(p) {
			continue
		}
		if s.fitter.Fits(with(p)) {
			kept = append(kept, p)
		} else {
			rest = append(rest, p)
		}
	}
	for _, p := range rest {
		// It may fit now: a policy of lower precedence can make rules needless.
		all := with(p)
		if _, _, short := s.fitter.Fit(all); short != nil {
			out = append(out, rejection{p, short, s.fitter.AtLeast(all) != nil})
		} else {
			kept = append(kept, p)
		}
	}
	slices.Reverse(out)
	return out
}

// leaveSurplus leaves out what does not fit of the policies of a class: all that certainly does not
// fit, or else the one of the lowest precedence, for without it peers may be alike that were not,
// so that the others fit. An interface that stays as it is for the sake of one policy needs nothing
// more.
func (s *Designer) leaveSurplus(c *form.Class) {
	left := s.surplus(c)
	if certain := slices.DeleteFunc(slices.Clone(left), func(u rejection) bool { return !u.certain }); len(certain) > 0 {
		left = certain
	} else {
		left = left[:min(len(left), 1)]
	}
	reasons := map[*intent.Policy]*reason.Reason{}
	for _, u := range left {
		reasons[u.policy] = s.short(u.short(), c)
	}
	for _, n := range c.NICs {
		for _, u := range left {
			if n.Frozen() == nil {
				s.Guard.LeaveOut(n.VM, u.policy, reasons[u.policy])
			}
		}
	}
}

// short says what a class is short of: what is needed and what there is. Which quota of rules would
// do is not said, for how many rules name groups depends on the classes that there would be then.
func (s *Designer) short(sh form.Shortage, c *form.Class) *reason.Reason {
	out := reason.Why(reason.RulesShort)
	out.Lack = &reason.Lack{
		Quota: sh.Quota, Direction: string(sh.Direction), Family: sh.Family, Needed: sh.Needed, Available: sh.Available,
		AtLeast: sh.AtLeast, Limits: s.fitter.QuotaOf(c).Limits,
	}
	out.Lack.Whole = sh.Quota == reason.QuotaRulesPerGroup && sh.Needed <= sh.Available
	return out
}
