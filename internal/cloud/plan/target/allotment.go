package target

import (
	"cmp"
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// A region has a quota of groups. Where what the policies want needs more of them than there may be
// of ours, something has to do without. Who that is has to be the same in every round, or rounds
// would undo what others do. So it is decided by what is wanted in the end, and by nothing that
// passes on the way there: which groups are there now, who waits for whom. First rules name peers
// by their addresses, so that these need no group to be referred to. If that is not enough,
// policies are left out on VMs: whatever is in force comes first, then the rest in the order of
// precedence, as long as it fits. What one round has put into force is the first thing that the
// next one admits, and it admits the same rest after it.

// allotment is what a region with too few groups makes of the policies.
type allotment struct {
	of *Target
	// others is how many groups there are whatever we do, limit how many of ours there may be in
	// the end, and further how many of these the classes need besides one each.
	others, limit, further int
	// squeeze is how much less is to be needed than there is room for, as long as that takes no
	// policy: further groups that classes need only if they refer to peers.
	squeeze int
	// enough is the smallest quota with which nothing would have to be left out.
	enough int
	units  []*unit
	// out are the policies that this allotment leaves out, and still the interfaces that stay as
	// they are for their sake.
	out   map[*VM][]*intent.Policy
	still []*NIC
	// peers are the address groups that rules could name by address, those first that take the
	// fewest rules.
	peers []string
}

// crowded deals with a design for which there are too few groups. It reports whether that is new,
// so that the design has to be made again.
func (s *Target) crowded() bool {
	surplus := s.surplusGroups()
	switch {
	case surplus <= 0:
		return false
	case s.Between():
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
		if n := c.created(); surplus > 0 && n > 0 && !c.Gathers && s.held(c.NICs[0]) != [2]bool{} {
			for _, n := range c.NICs {
				s.await(n, intent.WaitsNarrower, intent.Why(intent.BetweenGroups).Counting(surplus))
			}
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
		needed += c.created()
	}
	if needed == 0 {
		return 0
	}
	return s.Snap.CountedGroups() + needed - s.Limits.GroupsPerRegion
}

// created is how many groups have to be created for the class.
func (c *Class) created() (n int) {
	for _, g := range c.Groups {
		if g.Existing == nil {
			n++
		}
	}
	return n
}

// admit decides what there are groups for in the end. Whatever only passes on the way there is put
// aside meanwhile.
func (s *Target) admit() {
	a := &allotment{of: s, out: map[*VM][]*intent.Policy{}}
	s.allotment = a
	defer a.putAside()()
	a.countOthers()
	a.limit = s.Limits.GroupsPerRegion - a.others
	a.peers = a.peersByCost()
	a.enough = a.others + a.fewest(func() {
		for a.named(len(a.peers)); a.design(); {
		}
	})
	a.collect()
	a.decide()
}

// decide admits what there are groups for.
func (a *allotment) decide() {
	for {
		over := a.fewest(a.chooseAll) - a.limit
		switch {
		case over <= 0:
			return
		case len(a.of.unlisted) < len(a.peers):
			a.squeeze += over
		case slices.ContainsFunc(a.units, func(u *unit) bool { return !u.out }):
			a.further += over
		default:
			return
		}
	}
}

// fewest makes a design and returns how many groups it needs. Peers that are named by address need
// no group, but more rules; where these need groups of their own, it is tried whether it takes
// fewer if the rules refer to their peers by group.
func (a *allotment) fewest(design func()) int {
	design()
	groups, peers := len(a.of.AllGroups()), slices.Clone(a.peers)
	for _, c := range a.of.Classes {
		if len(c.Groups) > 1 && !c.frozen && c.NICs[0].VM != nil {
			a.list(c.NICs[0].VM)
		}
	}
	if len(a.peers) == len(peers) {
		return groups
	}
	if design(); len(a.of.AllGroups()) < groups {
		return len(a.of.AllGroups())
	}
	a.peers = peers
	design()
	return len(a.of.AllGroups())
}

// chooseAll makes a design of what there are groups for.
func (a *allotment) chooseAll() {
	for a.choose(); a.design(); a.choose() {
	}
}

// putAside takes away what the region waits for, and returns what brings it back.
func (a *allotment) putAside() (bringBack func()) {
	s := a.of
	restrict, waiting := maps.Clone(s.Restrict), s.Waiting
	refused, frozen := map[*NIC]*intent.Reason{}, map[*NIC]*intent.Reason{}
	for n := range waiting {
		if why := s.Refused[n]; why != nil {
			refused[n] = why
			delete(s.Refused, n)
		}
		if why := s.Frozen[n]; why != nil {
			frozen[n] = why
			delete(s.Frozen, n)
		}
	}
	clear(s.Restrict)
	s.Waiting = map[*NIC]bool{}
	return func() {
		maps.Copy(s.Restrict, restrict)
		s.Waiting = waiting
		maps.Copy(s.Refused, refused)
		maps.Copy(s.Frozen, frozen)
	}
}

// countOthers counts the groups that are not ours to delete.
func (a *allotment) countOthers() {
	kept := map[string]bool{}
	a.others = a.of.Snap.GroupsBeside
	for i := range a.of.Snap.Groups {
		if g := &a.of.Snap.Groups[i]; !a.of.Owned(g) && !g.View {
			a.others++
			for _, r := range g.Rules {
				if o := a.of.Groups[r.Peer.GroupID]; o != nil && a.of.Owned(o) && len(a.of.byHeld[o.ID]) == 0 && !kept[o.ID] {
					kept[o.ID] = true
					a.others++
				}
			}
		}
	}
}

// peersByCost returns the address groups that rules in force name and that are worth a class, those
// with the fewest addresses first.
func (a *allotment) peersByCost() []string {
	used, _ := a.of.usedPeers()
	size := map[string]int{}
	for _, vm := range a.of.Order {
		for _, g := range vm.Groups {
			if !used[g] {
				continue
			}
			for _, n := range vm.NICs {
				size[g] += len(n.PrivateIPs)
			}
		}
	}
	out := sortedKeys(size)
	slices.SortStableFunc(out, func(x, y string) int { return cmp.Compare(size[x], size[y]) })
	return out
}

// named has rules name the members of the first n peers by address.
func (a *allotment) named(n int) {
	a.of.unlisted = map[string]bool{}
	for _, g := range a.peers[:n] {
		a.of.unlisted[g] = true
	}
}

// design makes a design of what is admitted. It reports whether rules did not fit, so that it has
// to be made again.
func (a *allotment) design() (retry bool) {
	a.of.MayStop()
	a.of.decideStates()
	a.of.formClasses()
	a.of.matcher.matchGroups(true)
	a.of.setTargets()
	return a.of.lowerClasses()
}

// list has rules refer to the peers of a VM by group again, whatever the allotment finds. It
// reports whether that is anything new.
func (a *allotment) list(vm *VM) (changed bool) {
	for _, r := range vm.InForce() {
		for _, g := range r.Groups {
			if a.of.unlisted[g] {
				delete(a.of.unlisted, g)
				changed = true
			}
			a.peers = slices.DeleteFunc(a.peers, func(o string) bool { return o == g })
		}
	}
	return changed
}

// choose admits as much as there are groups for, and then has hardly more peers named by address
// than it takes.
func (a *allotment) choose() {
	for _, u := range a.units {
		u.out = false
	}
	a.named(len(a.peers))
	if a.apply(); a.needed() > a.limit {
		a.choosePolicies()
	}
	fits := func() bool { return a.needed()+a.squeeze <= a.limit }
	n, low := len(a.peers), 0
	for low < n {
		mid := (low + n) / 2
		if a.named(mid); fits() {
			n = mid
		} else {
			low = mid + 1
		}
	}
	a.named(n)
	for _, g := range slices.Backward(a.peers[max(n-passTrials, 0):n]) {
		if delete(a.of.unlisted, g); !fits() {
			a.of.unlisted[g] = true
		}
	}
}

// needed is how many groups what is admitted needs.
func (a *allotment) needed() int { return a.count() + a.further }

// count returns how many groups what is admitted needs at least: one for each class, and those that
// interfaces hold that stay as they are.
func (a *allotment) count() (n int) {
	a.of.MayStop()
	refused, noted := maps.Clone(a.of.Refused), maps.Clone(a.of.Noted)
	a.of.decideStates()
	a.of.formClasses()
	a.of.Refused, a.of.Noted = refused, noted
	held := map[string]bool{}
	for _, c := range a.of.Classes {
		if !c.frozen {
			n++
			continue
		}
		for _, id := range c.NICs[0].Ours {
			held[id] = true
		}
	}
	return n + len(held)
}

// why says that there are too few groups, and the smallest quota that would do.
func (a *allotment) why() *intent.Reason {
	room := max(a.of.Limits.GroupsPerRegion-a.others, 0)
	out := intent.Why(intent.GroupsShort, a.of.Snap.Region).Counting(a.enough-a.others, a.others, room)
	out.Lack = &intent.Lack{Quota: intent.QuotaGroupsPerRegion, Needed: a.enough, Available: a.of.Limits.GroupsPerRegion, WouldDo: a.enough}
	return out
}
