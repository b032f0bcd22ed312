package plan

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

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
