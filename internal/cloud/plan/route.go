package plan

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
	"github.com/nephele-io/nephele/internal/cloud/plan/transition"
	"github.com/nephele-io/nephele/internal/cloud/signs"
)

// findOrders finds the ways of all regions. Where some of what is wanted has to wait for something
// else, also in another region, they lead to a state in between first.
func (c *planning) findOrders(revision string) {
	for _, s := range c.regions {
		s.design.Settle()
		s.change = s.newChange(revision)
	}
	for again := true; again; {
		again = false
		c.holdBack(revision)
		for _, s := range c.regions {
			if s.order == nil {
				order := s.survey.Plan()
				s.order = &order
			}
			again = s.reconsider() || again
		}
	}
}

// newChange is what of a change does not depend on what is wanted.
func (s *regional) newChange(revision string) transition.Change {
	change := transition.Change{
		From: s.region.Whole, Limits: s.region.Limits, Ours: s.region.Owned, Extended: s.design.Extended, Relabels: s.relabels(revision),
		Fits:    func(rules []cloud.Rule) bool { return s.design.Lower.Fits(rules, form.QuotaOf(s.region)) },
		Stop:    s.account.MayStop,
		Pausing: map[string][]string{}, Urgent: s.those(s.broken), Apart: map[string]bool{}, First: s.first, Mark: s.mark(), Described: signs.Ours,
		Joint: cloud.TagFormer, Batch: s.load(), Still: s.those(func(n *guard.NIC) bool { return s.region.Mode(n.NIC).Still() }),
	}
	for _, n := range s.guard.NICs {
		if groups := s.region.PutInto(n.NIC); len(groups) > 0 || s.guard.Forced(n) {
			change.Pausing[n.ID] = groups
		}
	}
	return change
}

// first reports whether tags are written with what is done first: the claim of a network, and what
// a group without a record says of the policies in force. Until then all of them count as in force
// on an interface that has joined it, and the next round would go by that.
func (s *regional) first(key string, g *cloud.Group) bool {
	if g == nil {
		return key == cloud.TagClaim
	}
	return s.region.Owned(g) && record.EnforcementOf(g.Tags) == nil
}

// look surveys the way of a region to what is wanted by now.
func (s *regional) look(revision string) {
	c := &s.change
	c.To, c.Stable = s.goal(revision), s.stable()
	c.Stay, c.Kept = s.design.Stays()
	c.Leaving = s.those(func(n *guard.NIC) bool {
		return n.State() == guard.Untouched && n.Taken() && s.guard.Controllable(n) == nil
	})
	// Nobody can hold back interfaces that are not under control and of which no VM is selected,
	// nor interfaces of which something forbids to change what they allow.
	c.Beyond = s.those(func(n *guard.NIC) bool {
		return s.guard.Controllable(n) != nil || n.Frozen() != nil || n.VM == nil && !n.Taken()
	})
	if s.end == nil {
		s.end = c.To
	}
	if s.guard.Between() {
		c.End = s.end
	}
	s.survey, s.order = transition.NewSurvey(*c), nil
	s.held = s.survey.Conflicts()
}

// those are the IDs of the interfaces of which something holds.
func (s *regional) those(holds func(*guard.NIC) bool) map[string]bool {
	out := map[string]bool{}
	for _, n := range s.guard.NICs {
		if holds(n) {
			out[n.ID] = true
		}
	}
	return out
}

// reconsider reports whether another way is needed, because of what has shown in the order of this
// one: something else is wanted now, or interfaces cannot move by one edit.
func (s *regional) reconsider() bool {
	if s.outgrow() {
		s.design.Settle()
		s.survey, s.end = nil, nil
		return true
	}
	for _, id := range s.order.Apart {
		s.change.Apart[id] = true
		s.survey = nil
	}
	return s.survey == nil
}

// outgrow finds the groups that hold up everything, because neither all of their new rules fit in
// beside the old ones nor one after the other. Their classes shall have groups beside them, which
// their interfaces join before they leave the old ones. Where there is no room for that, or
// somebody would still hold an old one after all steps, the change stays blocked: to do without
// something for the sake of a group that is there for a moment would come and go for ever. It
// reports whether something else is wanted now.
func (s *regional) outgrow() bool {
	old, before := s.design.Outgrown, len(s.design.Outgrown)
	for id := range old {
		if s.order.Holds(id) {
			delete(old, id)
			s.stays[id] = true
		}
	}
	if len(old) < before || s.moves() {
		return len(old) < before
	}
	free := s.region.Limits.GroupsPerRegion - s.region.Snap.CountedGroups()
	for _, v := range s.order.Blocked {
		g := s.design.ByKey[v.Group]
		full := v.Kind == transition.Room && v.Rule.Direction != ""
		if full && g != nil && g.Existing != nil && !g.Class.Gathers && !s.stays[v.Group] && len(old) < free {
			old[v.Group] = true
		}
	}
	return len(old) > before
}

// moves reports whether anything changes by the order but tags and descriptions.
func (s *regional) moves() bool {
	return slices.ContainsFunc(s.order.Steps, func(st transition.Step) bool {
		return st.Op.Kind != cloud.OpTag && st.Op.Kind != cloud.OpUntag && !describes(st.Op)
	})
}

// holdBack surveys regions, and has interfaces wait in a state in between where they have to.
func (c *planning) holdBack(revision string) {
	for again := true; again; {
		again = false
		for _, s := range c.regions {
			if s.survey == nil {
				s.look(revision)
			}
		}
		for _, s := range c.regions {
			more := s.restrain(s.held)
			for _, o := range c.regions {
				if o != s {
					more = s.restrain(s.survey.Across(o.survey)) || more
				}
			}
			if more {
				s.design.Settle()
				s.survey, again = nil, true
				break
			}
		}
	}
}

// restrain keeps directions of interfaces from becoming wider. It reports whether that is new.
func (s *regional) restrain(held map[string][2]bool) (more bool) {
	for _, n := range s.guard.NICs {
		more = s.guard.Restrict(n, held[n.ID]) || more
	}
	return more
}

// relabels reports whether the policies in force everywhere are those that are wanted.
func (s *regional) relabels(revision string) bool {
	concerned := map[string]bool{}
	for _, c := range s.design.Classes {
		concerned[c.Network.ID] = true
	}
	for i := range s.region.Snap.Groups {
		if g := &s.region.Snap.Groups[i]; s.region.Owned(g) {
			concerned[g.NetworkID] = true
		}
	}
	for i := range s.region.Snap.Networks {
		if n := &s.region.Snap.Networks[i]; concerned[n.ID] && (n.Tags[s.mark()] != revision || s.unmarked(n.ID)) {
			return false
		}
	}
	return true
}

// blocked says of interfaces for which there is no clean order that they stay as they are.
func (s *regional) blocked(all []transition.Violation) {
	why := map[string]*reason.Reason{}
	for _, v := range all {
		for _, id := range slices.Concat(v.Interfaces, v.Holders) {
			if why[id] == nil {
				why[id] = whyBlocked(v)
			}
		}
	}
	stays := func(n *guard.NIC) *reason.Reason {
		if n.Restricted() != [2]bool{} || len(n.Groups.Ours) > 0 && !slices.Equal(s.design.Targets[n], slices.Sorted(slices.Values(n.GroupIDs))) {
			return cmp.Or(why[n.ID], reason.Why(reason.OrderOpposite))
		}
		return why[n.ID]
	}
	for _, n := range s.guard.NICs {
		if n.Waiting() || n.Frozen() == nil && stays(n) != nil {
			s.stick(n)
		}
	}
	s.guard.Block(stays)
}

// whyBlocked is why an edit is blocked.
func whyBlocked(v transition.Violation) *reason.Reason {
	switch {
	case v.Kind == transition.Leak || v.Kind == transition.Gap:
		code := reason.OrderLeak
		if v.Kind == transition.Gap {
			code = reason.OrderGap
		}
		return &reason.Reason{Code: code, Objects: v.Holders, Flow: &reason.Flow{Direction: v.Direction, Service: v.Service, Addrs: v.Addrs}}
	case len(v.Interfaces) > 0 && v.Needed > 0:
		return reason.Why(reason.OrderInterface).Counting(v.Needed, v.Available)
	case v.Rule.Direction != "":
		return reason.Why(reason.OrderRules, v.Group).Counting(v.Needed, v.Available)
	case v.Needed > 0:
		return reason.Why(reason.OrderRegion).Counting(v.Needed, v.Available)
	}
	return reason.Why(reason.OrderGroupLater)
}
