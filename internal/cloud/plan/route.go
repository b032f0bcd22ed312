package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/target"
	"github.com/nephele-io/nephele/internal/cloud/plan/transition"
	"github.com/nephele-io/nephele/internal/cloud/signs"
)

// surveyEffort is the effort between two questions of a transition whether it is to go on.
const surveyEffort = 1000

// route is the way of one region from what is to what is wanted.
type route struct {
	*regional
	change transition.Change
	survey *transition.Survey
	end    *cloud.Snapshot    // what is wanted when nobody waits any more
	held   map[string][2]bool // its conflicts within the region
	order  transition.Order
	found  bool // set if order is that of survey
}

// routes finds the ways of all regions. Where some of what is wanted has to wait for something
// else, also in another region, they lead to a state in between first.
func (c *planning) routes(revision string) []*route {
	var out []*route
	for _, s := range c.regions {
		s.Settle()
		r := &route{regional: s, change: transition.Change{
			From: s.Whole, Limits: s.Limits, Ours: s.Owned, Extended: s.Extended, Relabels: s.relabels(revision),
			Fits:   func(rules []cloud.Rule) bool { return s.Lower.Fits(rules, s.Quota()) },
			Stop:   func() { s.MayStop(); s.In.Effort.Spend(surveyEffort) },
			Urgent: map[string]bool{}, Apart: map[string]bool{}, First: []string{cloud.TagClaim}, Mark: s.mark(), Described: signs.Ours,
			Joint: cloud.TagFormer, Batch: s.load(), Still: s.still(),
		}}
		for _, st := range s.freeing() {
			r.change.Urgent[st.Op.Target] = true
		}
		out = append(out, r)
	}
	for again := true; again; {
		again = false
		holdBack(out, revision)
		for _, r := range out {
			if !r.found {
				r.holdRevision(&r.change)
				r.order, r.found = r.survey.Plan(), true
			}
			if len(r.order.Apart) == 0 {
				continue
			}
			for _, id := range r.order.Apart {
				r.change.Apart[id] = true
			}
			r.survey, r.order.Apart, again = nil, nil, true
		}
	}
	return out
}

// holdBack surveys regions, and has interfaces wait in a state in between where they have to.
func holdBack(routes []*route, revision string) {
	for again := true; again; {
		again = false
		for _, r := range routes {
			if r.survey == nil {
				r.change.To, r.change.Stable, r.change.Stay, r.change.Leaving = r.goal(revision), r.stable(), r.Stays(), r.leaving()
				if r.end == nil {
					r.end = r.change.To
				}
				if r.Between() {
					r.change.End = r.end
				}
				r.survey, r.found = transition.NewSurvey(r.change), false
				r.held = r.survey.Conflicts()
			}
		}
		for _, r := range routes {
			more := r.restrain(r.held)
			for _, o := range routes {
				if o != r {
					more = r.restrain(r.survey.Across(o.survey)) || more
				}
			}
			if more {
				r.Settle()
				r.survey, again = nil, true
			}
			if again {
				break
			}
		}
	}
}

// leaving are the interfaces under control that are given back.
func (s *regional) leaving() map[string]bool {
	out := map[string]bool{}
	for _, n := range s.NICs {
		if n.State == target.Untouched && n.Taken() && s.Controllable(n) == "" {
			out[n.ID] = true
		}
	}
	return out
}

// still are the interfaces to which the mode forbids to do anything.
func (s *regional) still() map[string]bool {
	out := map[string]bool{}
	for _, n := range s.NICs {
		if s.Mode(n.NIC).Still() {
			out[n.ID] = true
		}
	}
	return out
}

// restrain keeps directions of interfaces from becoming wider. It reports whether that is new.
func (s *regional) restrain(held map[string][2]bool) (more bool) {
	for _, n := range s.NICs {
		if was, is := s.Restrict[n], held[n.ID]; is[0] && !was[0] || is[1] && !was[1] {
			s.Restrict[n], more = [2]bool{was[0] || is[0], was[1] || is[1]}, true
		}
	}
	return more
}

// transit turns the way of a region into steps.
func (r *route) transit() (steps []Step, dirty map[string]bool, later bool) {
	s, order := r.regional, r.order
	e := &emitter{regional: s, dirty: map[string]bool{}}
	byID := s.byID()
	moving := map[string]bool{} // networks
	for _, st := range order.Steps {
		e.stage = st.Stage
		was := e.dirty[st.Op.Target]
		e.add(st.Network, st.Op)
		e.explain(st, byID)
		e.label(&e.steps[len(e.steps)-1])
		switch st.Op.Kind {
		case cloud.OpTag, cloud.OpUntag:
			s.sign(&e.steps[len(e.steps)-1].Op, byID)
		case cloud.OpReplaceRules:
			if !describes(st.Op) {
				moving[st.Network] = true
				continue
			}
			e.dirty[st.Op.Target] = was // nobody has to wait for it
		default:
			moving[st.Network] = true
		}
	}
	if len(moving) == 0 {
		s.blocked(order.Blocked)
	}
	for _, id := range r.survey.Hasty() {
		s.Note(id, "it is given back without waiting for planned VMs: flows with these may be open or cut for the time of its edit")
	}
	return e.steps, e.dirty, len(s.Restrict) > 0 || len(order.Blocked) > 0
}

// describes reports whether an operation changes nothing but the descriptions of rules.
func describes(op cloud.Op) bool {
	return op.Kind == cloud.OpReplaceRules && slices.EqualFunc(op.Rules, op.Replaced, cloud.Rule.Same)
}

// holdRevision keeps the policies from being said to be in force while some of them wait.
func (s *regional) holdRevision(change *transition.Change) {
	if len(s.Restrict) > 0 {
		for i := range change.To.Networks {
			if n := &change.To.Networks[i]; !s.unmarked(n.ID) {
				delete(n.Tags, change.Mark)
			}
		}
	}
}

// relabels reports whether the policies in force everywhere are those that are wanted.
func (s *regional) relabels(revision string) bool {
	if len(s.Unknown) > 0 { // what is kept for the sake of the unknown is found out step by step
		return false
	}
	concerned := map[string]bool{}
	for _, c := range s.Classes {
		concerned[c.Network.ID] = true
	}
	for i := range s.Snap.Groups {
		if g := &s.Snap.Groups[i]; s.Owned(g) {
			concerned[g.NetworkID] = true
		}
	}
	for i := range s.Snap.Networks {
		if n := &s.Snap.Networks[i]; concerned[n.ID] && (n.Tags[s.mark()] != revision || s.unmarked(n.ID)) {
			return false
		}
	}
	return true
}

// blocked says of interfaces for which there is no clean order that they stay as they are.
func (s *regional) blocked(all []transition.Violation) {
	why := map[string]string{}
	for _, v := range all {
		for _, id := range slices.Concat(v.Interfaces, v.Holders) {
			if why[id] == "" {
				why[id] = blockedWords(v)
			}
		}
	}
	clear(s.Waiting)
	for _, n := range s.NICs {
		if why[n.ID] == "" && s.Restrict[n] != [2]bool{} {
			why[n.ID] = "it and its peers change in opposite directions, and there is no room for the state in between"
		}
		if why[n.ID] != "" && s.Frozen[n] == "" {
			s.Frozen[n] = why[n.ID]
		}
		delete(s.Restrict, n)
	}
}

// blockedWords says why an edit is blocked.
func blockedWords(v transition.Violation) string {
	who := strings.Join(v.Holders, ", ")
	what := fmt.Sprintf("%s %s of %s with %s", v.Direction, v.Service, who, addrWords(v.Addrs))
	switch {
	case v.Kind == transition.Leak:
		return "no order of the changes keeps " + what + " closed, which is allowed neither before nor after"
	case v.Kind == transition.Gap:
		return "no order of the changes keeps " + what + " open, which is allowed before and after; a free slot for groups on the interfaces that move would do"
	case len(v.Interfaces) > 0 && v.Needed > 0:
		return fmt.Sprintf("the change needs %s on an interface for a moment, and the quota is %d", cloud.Counted(v.Needed, "group"), v.Available)
	case v.Rule.Direction != "":
		return fmt.Sprintf("the group %s has no room for the old and the new rules together: the change needs %s for a moment, and the quota is %d",
			v.Group, cloud.Counted(v.Needed, "rule"), v.Available)
	case v.Needed > 0:
		return fmt.Sprintf("the change needs %s in the region for a moment, and the quota is %d", cloud.Counted(v.Needed, "group"), v.Available)
	}
	return "it waits for a group that is not there yet"
}

// addrWords names the first few of some addresses.
func addrWords(set addrset.Set) string {
	const most = 3
	var out []string
	for _, p := range set.Prefixes() {
		if len(out) == most {
			return strings.Join(out, ", ") + " and others"
		}
		out = append(out, p.String())
	}
	if len(out) == 0 {
		return "peers that are not known here"
	}
	return strings.Join(out, ", ")
}
