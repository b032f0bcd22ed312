package target

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// A region has a quota of groups. Where what the policies want needs more of them than there may be
// of ours, something has to do without. Who that is has to be the same in every round, or rounds
// would undo what others do. So it is decided by what is wanted in the end, and by nothing that
// passes on the way there: which groups are there now, who waits for whom. Policies are left out on
// VMs: what does not fit in the order of precedence. Only where that would take away something that
// is in force, as when there is more to be enforced than before, whatever is in force comes first.

// allotment is what a region with too few groups makes of the policies.
type allotment struct {
	of *Target
	// limit is how many groups of ours there may be in the end, and further how many of these the
	// classes need besides one each. room is limit, or more where even what is in force needs more.
	limit, further, room int
	// units are what it chooses from, and left is how many designs may still be tried.
	units []*unit
	left  int
	// why is the reason with which this allotment leaves out policies: the smallest quota that
	// would do.
	why *intent.Reason
	// keeps is set if what is in force comes first.
	keeps bool
}

// crowded deals with a design for which there are too few groups. It reports whether that is new,
// so that the design has to be made again.
func (s *Target) crowded() bool {
	surplus := s.surplusGroups()
	switch {
	case surplus <= 0:
		return false
	case s.Guard.Between():
		return s.awaitGroups(surplus)
	case s.allotment != nil:
		return false
	}
	s.admit()
	return true
}

// awaitGroups has interfaces stay as they are for which the state in between would need groups that
// there is no room for: what is wanted in the end does without. It reports whether there are some.
func (s *Target) awaitGroups(surplus int) (found bool) {
	for _, c := range slices.Backward(s.Classes) {
		if n := created(c); surplus > 0 && n > 0 && !c.Gathers && s.Guard.Held(c.NICs[0]) != [2]bool{} {
			s.Guard.Await(c.NICs, intent.WaitsNarrower, intent.Why(intent.BetweenGroups).Counting(surplus))
			surplus, found = surplus-n, true
		}
	}
	return found
}

// surplusGroups is how many groups the design needs beyond what there is room for now. Nothing is
// created in a region that is full, but what is there already may be changed.
func (s *Target) surplusGroups() int {
	needed := 0
	for _, c := range s.Classes {
		needed += created(c)
	}
	if needed == 0 {
		return 0
	}
	return s.Region.Snap.CountedGroups() + needed - s.Region.Limits.GroupsPerRegion
}

// created is how many groups have to be created for the class.
func created(c *form.Class) (n int) {
	for _, g := range c.Groups {
		if g.Existing == nil {
			n++
		}
	}
	return n
}

// admit decides what there are groups for in the end.
func (s *Target) admit() {
	others, most := s.otherGroups(), s.Region.Limits.GroupsPerRegion
	a := &allotment{of: s, limit: most - others}
	s.allotment = a
	for s.attempt() {
	}
	ours := len(s.AllGroups())
	a.why = intent.Why(intent.GroupsShort, s.Region.Snap.Region).Counting(ours, others, max(a.limit, 0))
	quota := intent.QuotaGroupsPerRegion
	if s.Region.Limits.WholeGroups { // as on Azure, where a group of ours is one of either kind
		quota = intent.QuotaApplicationGroups
	}
	a.why.Lack = &intent.Lack{Quota: quota, Needed: others + ours, Available: most, WouldDo: others + ours}
	a.collect()
	a.decide()
}

// decide admits what there are groups for. Rules may need further groups of a class, which is known
// when the design is made.
func (a *allotment) decide() {
	for {
		for a.choose(); a.of.attempt(); a.choose() {
		}
		over := len(a.of.AllGroups()) - a.room
		if over <= 0 || !slices.ContainsFunc(a.units, func(u *unit) bool { return !u.out }) {
			return
		}
		a.further += over
	}
}

// otherGroups is how many groups there are that are not ours to delete.
func (s *Target) otherGroups() int {
	n := s.Region.Snap.GroupsBeside
	for i := range s.Region.Snap.Groups {
		if g := &s.Region.Snap.Groups[i]; !s.Region.Owned(g) && !g.View {
			n++
		}
	}
	return n
}

// choose admits as much as there are groups for.
func (a *allotment) choose() {
	for _, u := range a.units {
		u.out = false
	}
	a.room = a.limit
	if a.apply(); a.needed() > a.limit {
		a.choosePolicies()
	}
}
