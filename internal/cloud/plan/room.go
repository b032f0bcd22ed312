package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// awaitRoom deals with a change that ends within the quota of groups but needs so many more on the way: groups that are given up are deleted last. Some
// interfaces wait for that and stay as they are in this round. If that is not enough, interfaces that hold the same
// group make do with what all of them are allowed; and if nothing can be done that way either, what needs the groups is refused.
func (s *regionState) awaitRoom() (changed bool) {
	surplus := s.surplusGroups()
	if surplus > 0 && s.resigned && s.admitLess(surplus) {
		return true
	}
	if surplus > 0 && s.impatient && !s.resigned && s.mergeRestricted() {
		return true
	}
	for _, c := range s.classesThatCanWait() {
		if surplus <= 0 {
			break
		}
		if s.postpone(c) {
			surplus -= c.created()
			changed = true
		}
	}
	return changed
}

func (c *computation) awaitRoom() (changed bool) {
	for _, s := range c.regions {
		changed = s.awaitRoom() || changed
	}
	return changed
}

// classesThatCanWait returns the classes for which groups have to be created, those that may do without the soonest first: some in this round
// anyway, and those on which others depend last.
func (s *regionState) classesThatCanWait() (out []*class) {
	for _, c := range s.classes {
		if c.created() > 0 {
			out = append(out, c)
		}
	}
	final := map[string]int{}
	for _, c := range s.classes {
		key, _, _ := strings.Cut(c.key, restricted)
		final[key]++
	}
	rank := func(c *class) int {
		key, _, _ := strings.Cut(c.key, restricted)
		switch {
		case c.frozen, c.gathers:
			return 0
		case c.state == Member:
			return 1
		case final[key] > 1: // one class in the end
			return 2
		case s.restrict[c.nics[0]] != [2]bool{}:
			return 3
		case s.native(c.nics[0]):
			return 5
		default:
			return 4
		}
	}
	slices.SortStableFunc(out, func(a, b *class) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(len(a.nics), len(b.nics))) })
	if s.impatient {
		slices.Reverse(out) // the others' waiting did not help
	}
	return out
}

// postpone makes a class need no new group in this round. It reports whether that changes anything.
func (s *regionState) postpone(c *class) (changed bool) {
	switch {
	case c.gathers:
		if s.dispersed == nil {
			s.dispersed = map[gathering]bool{}
		}
		s.dispersed[c.gathering()] = true
		return true
	case c.frozen:
		changed = !s.literal[c.key]
		s.literal[c.key] = true
		return changed
	}
	if c.state == Member && s.nameByAddress(c) || s.impatient && !s.resigned && s.gatherHome(c) {
		return true
	}
	message := s.admission.lack()
	done := map[*vmState]bool{}
	for _, n := range c.nics {
		switch {
		case s.frozen[n] != "" || s.refused[n] != "":
		case !s.resigned:
			s.await(n, message, "for room for its group")
			changed = true
		case s.native(n) && n.taken():
			s.frozen[n], changed = message, true
		case s.native(n) || c.state == Member:
			s.refused[n], changed = message, true
		case !done[n.vm]:
			done[n.vm] = true
			s.leaveAllOut(n.vm, message)
			changed = true
		}
	}
	return changed
}

// nameByAddress has rules name the members by address in this round, so that they need no group, if that fits. It reports whether that changes anything.
func (s *regionState) nameByAddress(c *class) (changed bool) {
	if s.crammed {
		return false
	}
	for _, n := range c.nics {
		if !s.nameless[n] {
			s.nameless[n], s.waiting[n], changed = true, true, true
		}
	}
	return changed
}

// listAgain lets the rules of a class that does not fit refer to groups of its peers again. It reports whether that is anything new.
func (s *regionState) listAgain(c *class) (changed bool) {
	first := c.nics[0]
	if s.admission == nil || c.frozen || first.vm == nil {
		return false
	}
	if len(s.nameless) > 0 {
		s.crammed = true
		for n := range s.nameless {
			delete(s.waiting, n)
		}
		clear(s.nameless)
		return true
	}
	return s.restrict[first] == [2]bool{} && s.admission.list(first.vm)
}

// mergeRestricted makes interfaces under control that shall have one group in the end have one in this round already, with no more than all of
// them are allowed before and after. It reports whether that changes anything.
func (s *regionState) mergeRestricted() bool {
	if s.united {
		return false
	}
	first := map[string]*class{}
	for _, c := range s.classes {
		key, _, ok := strings.Cut(c.key, restricted)
		switch {
		case !ok || !c.nics[0].taken():
		case first[key] == nil:
			first[key] = c
		default:
			s.united = true
			for _, n := range slices.Concat(first[key].nics, c.nics) {
				s.note(n.ID, pauses)
			}
		}
	}
	return s.united
}

// pauses is what becomes of connections where there is no room for the groups that a change needs on the way.
const pauses = "the region has no room for a group by which it could be told from others for a moment, so some new connections may pause"

// gatherHome makes interfaces under control that need a new group keep the one that they hold, together with everybody else who holds it and with no
// more than all of them are allowed before and after. It reports whether that changes anything.
func (s *regionState) gatherHome(c *class) (changed bool) {
	for _, n := range c.nics {
		home := s.home(n)
		if home == "" || s.frozen[n] != "" {
			continue
		}
		for _, o := range s.byHeld[home] {
			if s.together[o] == "" && s.frozen[o] == "" && s.home(o) == home {
				s.together[o], changed = home, true
				s.note(o.ID, pauses)
			}
		}
	}
	return changed
}

// shedRules leaves a class whose interfaces keep a group together those of its rules that open nothing but what all of them are allowed before and
// after. So it needs no room for anything else, and in the next round there is room for what is to come. What the class must allow is changed to exactly that.
func (s *regionState) shedRules(c *class) {
	for i, g := range c.existing {
		wanted := c.groups[0]
		if i > 0 {
			wanted = s.addGroup(c)
		}
		for _, r := range ruleKeys(g.Rules) {
			_, then, known := s.addresses(r.Peer, c.network)
			if known && c.want[indexOf(r.Direction)].Allows(flow.Permit{}, flow.ServiceOf(r.Match), then) {
				wanted.rules = append(wanted.rules, r)
			}
		}
		c.rules = append(c.rules, wanted.rules...)
	}
	for i, d := range directions {
		c.want[i] = s.evaluateThen(slices.DeleteFunc(slices.Clone(c.rules), func(r cloud.Rule) bool { return r.Direction != d }), c.network)
	}
}

// home returns the group of a class that the interface holds, the one that most hold if there are several; empty if it is not under control.
func (s *regionState) home(n *nic) (home string) {
	if !n.taken() || s.controllable(n) != "" {
		return ""
	}
	for _, id := range n.ours {
		if g := s.groups[id]; s.owned(g) && g.Tags[cloud.TagKind] == cloud.KindClass && (home == "" || len(s.byHeld[id]) > len(s.byHeld[home])) {
			home = id
		}
	}
	return home
}

// leaveAllOut leaves out all policies of a VM, or keeps it as it is for their sake.
func (s *regionState) leaveAllOut(vm *vmState, message string) {
	for _, p := range slices.Backward(vm.policies) {
		if vm.left[p] == "" {
			s.leaveOut(vm, p, message)
			s.keep(vm, p, message) // there may be room later
		}
	}
}

// await makes an interface stay as it is in this round.
func (s *regionState) await(n *nic, message, what string) {
	delete(s.restrict, n)
	s.waiting[n] = true
	if n.taken() {
		s.frozen[n] = message
	} else {
		s.refused[n] = "the interface " + n.ID + " waits " + what + ": " + message
	}
}

// lacksRoom reports whether there are too few groups for the change.
func (c *computation) lacksRoom() bool {
	return slices.ContainsFunc(c.regions, func(s *regionState) bool { return s.admission != nil && len(s.waiting)+len(s.together) > 0 })
}

// roomComes reports whether something waits for room that the plan makes.
func (c *computation) roomComes(p Plan) bool {
	return slices.ContainsFunc(c.regions, func(s *regionState) bool { return s.admission != nil }) &&
		slices.ContainsFunc(p.Steps, func(st Step) bool { return st.Op.Kind == cloud.OpDeleteGroup })
}
