package target

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// lowerClasses turns what the classes must allow into rules and groups. It reports whether
// something did not fit, so that the design has to be made again.
func (s *Target) lowerClasses() (retry bool) {
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
func (s *Target) lowerClass(c *form.Class) (retry bool) {
	s.MayStop()
	s.Recall.Trim()
	rules, packed, short := s.fitter.Fit(form.Demand{Class: c, Want: c.Want})
	if short != nil {
		t := s.tightened[c.Key]
		if t == nil {
			s.shortage(c, short)
			return true
		}
		rules, packed = s.tightRules(c, t)
	}
	s.matcher.fill(c, s.merged(c, rules, packed))
	return false
}

// shortage deals with a class whose rules exceed a quota.
func (s *Target) shortage(c *form.Class, short form.Shortfall) {
	first := c.NICs[0]
	why := func() *intent.Reason { return s.short(short(), c) }
	switch {
	case c.Frozen:
		s.literal[c.Key] = true
	case s.Between():
		// What is wanted in the end does fit. These interfaces stay as they are until others have
		// become narrower.
		s.Await(c.NICs, intent.WaitsBetween, why())
	case first.Frozen() != nil:
		// Since this attempt began, for the sake of another interface of its VM; it will be in
		// another class in the next one.
	case first.Native():
		s.NoRoom(c.NICs, why())
	case !s.gather(c):
		s.leaveSurplus(c, why)
	}
}

// Addresses returns what a rule's peer means now, and what it will mean; known is false for peers
// whose members cannot be seen.
func (s *Target) Addresses(p cloud.Peer, view *intent.Network) (now, then addrset.Set, known bool) {
	key := form.GroupKey(p)
	if key == "" {
		addrs, known := s.Named(p)
		return addrs, addrs, known
	}
	if p.GroupID != "" {
		if s.Groups[p.GroupID] == nil {
			return addrset.Set{}, addrset.Set{}, false
		}
		now = s.HeldAddrs(p.GroupID, view)
	}
	return now, s.fitter.ThenAddrs(key, view), true
}

// evaluateThen returns what rules of one direction will allow when all interfaces hold the groups
// that they shall.
func (s *Target) evaluateThen(rules []cloud.Rule, view *intent.Network) flow.Permit {
	return s.Evaluate(rules, view, func(p cloud.Peer) addrset.Set {
		_, then, _ := s.Addresses(p, view)
		return then
	})
}
