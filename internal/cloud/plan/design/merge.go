package design

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
)

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
