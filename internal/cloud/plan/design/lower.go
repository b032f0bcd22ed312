package design

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// Settle makes the design of the region. Every attempt decides everything from scratch; what an
// attempt finds impossible is ruled out for the following ones. Refusals stay for good, so there
// are finitely many.
func (s *Designer) Settle() {
	for refused := true; refused; {
		refused = s.attempt() || s.crowded()
		if !refused {
			s.setTargets()
			refused = s.addTwins() || !s.Guard.Between() && s.full == nil && s.Guard.KeepSpared()
		}
	}
}

// lowerClasses turns what the classes must allow into rules and groups. It reports whether
// something did not fit, so that the design has to be made again.
func (s *Designer) lowerClasses() (retry bool) {
	var fitting []*form.Class // which are known to fit: their rules are of use only if all others do
	for _, c := range s.Classes {
		switch {
		case c.State != guard.Guarded:
		case s.literal[c.Key]:
			// Peers that its rules name cannot move to other groups as long as that cuts something;
			// see Stays.
			s.matcher.fill(c, c.Held())
		case s.fitter.KnownToFit(form.Demand{Class: c, Want: c.Want}):
			fitting = append(fitting, c)
		default:
			retry = s.lowerClass(c) || retry
		}
	}
	for _, c := range fitting {
		if retry {
			break
		}
		retry = s.lowerClass(c)
	}
	return retry
}

// lowerClass does it for one class.
func (s *Designer) lowerClass(c *form.Class) (retry bool) {
	s.Account.MayStop()
	s.Account.Recall.Trim()
	rules, packed, short := s.fitter.Fit(form.Demand{Class: c, Want: c.Want})
	if short != nil {
		s.shortage(c, short)
		return true
	}
	s.matcher.fill(c, s.merged(c, rules, packed))
	return false
}

// shortage deals with a class whose rules exceed a quota.
func (s *Designer) shortage(c *form.Class, short form.Shortfall) {
	first := c.NICs[0]
	why := func() *reason.Reason { return s.short(short(), c) }
	switch {
	case c.Frozen:
		s.literal[c.Key] = true
	case s.Guard.Between():
		// What is wanted in the end does fit. These interfaces stay as they are until others have
		// become narrower.
		s.Guard.Await(c.NICs, why())
	case first.Frozen() != nil:
		// Since this attempt began, for the sake of another interface of its VM; it will be in
		// another class in the next one.
	case first.Native():
		s.Guard.NoRoom(c.NICs, why())
	case !s.gather(c):
		s.leaveSurplus(c)
	}
}

// attempt makes one. It reports whether rules did not fit.
func (s *Designer) attempt() (refused bool) {
	s.Account.MayStop()
	s.Guard.DecideStates()
	s.formClasses()
	s.matcher.matchGroups()
	s.setTargets()
	return s.lowerClasses()
}

// merged packs the rules of a class into fewer of its groups where they fill these by no more than
// half, so that what once spilled does not take slots of the interfaces for ever. That costs an
// edit of each interface, so it is not done for less, and not while anything waits: what is wanted
// then is not what is wanted in the end. The groups that stay must have room for what they get
// while they still have all that they hold now. Where a region has too few groups, a class gets no
// more of them than its rules need, whatever there is now: a group in which rules have spilled on
// the way must not take the place of what the round before has admitted.
func (s *Designer) merged(c *form.Class, rules []cloud.Rule, packed [][]cloud.Rule) [][]cloud.Rule {
	if len(packed) < 2 || len(c.Existing) < len(packed) || s.Guard.Between() || c.Frozen {
		return packed
	}
	q, held := s.fitter.QuotaOf(c), c.Held()
	half, crowded := q, s.full != nil
	if !crowded {
		half.RulesPerGroup /= 2
	}
	for half.GroupsPerInterface = 1; half.GroupsPerInterface < len(packed); half.GroupsPerInterface++ {
		fewer, short := s.Lower.Pack(rules, held[:half.GroupsPerInterface], half)
		if short != nil {
			continue
		}
		for i, rules := range fewer {
			if !crowded && !s.Lower.Fits(union(held[i], rules), q) {
				return packed
			}
		}
		return fewer
	}
	return packed
}

func union(a, b []cloud.Rule) []cloud.Rule { return cloud.RuleKeys(slices.Concat(a, b)) }
