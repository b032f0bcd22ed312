package transition

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
)

// Conflicts returns the directions of interfaces, by ID, that have to be held back to what is
// allowed both before and after, until others have become narrower: a flow that the old state stops
// at one end and the new state stops at the other would be open in between, if the first end became
// wider before the second one became narrower.
//
// Where both happen by one and the same edit there is no conflict: an interface that moves is
// another one for its peers at the moment at which it has other rules itself. And where nothing but
// memberships changes, two interfaces that both move need no order: each of them may be taken for
// what it was or for what it will be.
func (s *Survey) Conflicts() map[string][2]bool {
	return s.held(s.meetings, s.atOnce)
}

// Across is Conflicts for flows between interfaces of this region and interfaces of another one.
// Nothing happens at once there.
func (s *Survey) Across(other *Survey) map[string][2]bool {
	return s.held(s.meet(s.sides, other.sides), func(x, y *cohort, _ int) bool { return x.free && y.free })
}

// held are the directions of interfaces that become wider too early, unless both ends change at
// once. One that nobody can hold back becomes wider by what the other end does: that one becomes
// narrower first, and does the rest later.
func (s *Survey) held(all []meeting, atOnce func(x, y *cohort, i int) bool) map[string][2]bool {
	out := map[string][2]bool{}
	hold := func(k *cohort, i int) (held bool) {
		held = true
		for _, n := range k.interfaces {
			if !s.Urgent[n.ID] {
				d := out[n.ID]
				d[i] = true
				out[n.ID] = d
			}
			held = held && !s.Beyond[n.ID]
		}
		return held
	}
	for _, m := range all {
		if !m.later && atOnce(m.wider, m.narrower, m.direction) || s.leaves(m.wider, m.narrower) {
			continue
		}
		if !hold(m.wider, m.direction) {
			hold(m.narrower, 1-m.direction)
		}
	}
	return out
}

// Hasty are the interfaces that are given back without waiting for those to which nothing is done,
// although a flow between the two may be open meanwhile that is open neither now nor in the end,
// sorted. Conflicts finds them.
func (s *Survey) Hasty() []string { return slices.Sorted(maps.Keys(s.hasty)) }

// leaves reports whether a cohort is given back that would wait for one to which nothing is done,
// and takes note of it. What that one allows changes by nothing but the move of the other.
func (s *Survey) leaves(k, still *cohort) bool {
	stays := func(n *cloud.Interface) bool { return !s.Leaving[n.ID] }
	if !s.Still[still.interfaces[0].ID] || !k.moves() || slices.ContainsFunc(k.interfaces, stays) {
		return false
	}
	for _, n := range k.interfaces {
		s.hasty[n.ID] = true
	}
	return true
}

// meeting is a pair of cohorts one of which becomes wider towards the other in a direction, where
// the other becomes narrower: now, or by a later change.
type meeting struct {
	wider, narrower *cohort
	direction       int
	later           bool
}

// side is a cohort with what it comes to allow and what it ceases to, now and by later changes.
type side struct {
	*cohort
	wider, narrower, later [2]flow.Permit
}

// changing returns the cohorts that change.
func (s *Survey) changing() (sides []*side) {
	for _, k := range s.cohorts {
		x, changes := &side{cohort: k}, false
		for i := range 2 {
			x.wider[i], x.narrower[i] = k.then[i].Without(k.now[i]), k.now[i].Without(k.then[i])
			if s.End != nil {
				x.later[i] = k.now[i].Intersect(k.then[i]).Without(k.last[i])
			}
			changes = changes || !x.wider[i].Empty() || !x.narrower[i].Empty() || !x.later[i].Empty()
		}
		if changes {
			sides = append(sides, x)
		}
	}
	return sides
}

// meet returns where one of some cohorts becomes wider towards one of others.
func (s *Survey) meet(wider, narrower []*side) (out []meeting) {
	for _, x := range wider {
		s.stop()
		for i := range 2 {
			if x.wider[i].Empty() {
				continue
			}
			for _, y := range narrower {
				if x == y && len(x.interfaces) == 1 {
					continue
				}
				later := s.End != nil && flow.Meet(x.wider[i], y.all, y.later[1-i], x.all)
				if later || flow.Meet(x.wider[i], y.all, y.narrower[1-i], x.all) {
					out = append(out, meeting{x.cohort, y.cohort, i, later})
				}
			}
		}
	}
	return out
}

// findAtomic marks the cohorts that have to move by one edit, because the permits of others change
// by the same one.
func (s *Survey) findAtomic() {
	for _, m := range s.meetings {
		if !m.later && s.atOnce(m.wider, m.narrower, m.direction) {
			for _, k := range []*cohort{m.wider, m.narrower} {
				k.atomic = k.atomic || k.moves() && !k.free
			}
		}
	}
}

// atOnce reports whether x becomes wider towards y in direction i by the same edit by which y
// becomes narrower towards x.
func (s *Survey) atOnce(x, y *cohort, i int) bool {
	switch {
	case s.apart(x) || s.apart(y):
		return false
	case x.moves() && y.moves():
		return x.free && y.free && x != y
	case x.moves():
		// y becomes narrower when x moves, if with its present rules it will not allow x any more.
		return sameTowards(x.all, s.mixed(s.to, y, s.from, 1-i, x.all), y.then[1-i])
	case y.moves():
		// x becomes wider when y moves, if its new rules alone do not allow more of y.
		return sameTowards(y.all, s.mixed(s.from, x, s.to, i, y.all), x.now[i])
	}
	return false
}

// mixed is what a cohort that does not move allows to addresses by the rules of one moment and the
// members of groups of another one.
func (s *Survey) mixed(members *model.View, k *cohort, rules *model.View, i int, addrs addrset.Set) flow.Permit {
	return model.Permit(rules.Rules(k.from, flow.Directions()[i]), func(p cloud.Peer) model.Meaning {
		set, known := members.Addresses(p, k.network)
		return model.Known(set.Intersect(addrs), known)
	})
}

// sameTowards reports whether two permits allow the same to some addresses.
func sameTowards(addrs addrset.Set, a, b flow.Permit) bool {
	for x, y := range flow.Overlay(a, b) {
		if !x.All.Intersect(addrs).Equal(y.All.Intersect(addrs)) {
			return false
		}
	}
	return true
}
