package plan

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
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
	found  bool            // set if order is that of survey
	stays  map[string]bool // groups that nothing would leave if they had others beside them
}

// routes finds the ways of all regions. Where some of what is wanted has to wait for something
// else, also in another region, they lead to a state in between first.
func (c *planning) routes(revision string) []*route {
	var out []*route
	for _, s := range c.regions {
		s.Settle()
		r := &route{regional: s, stays: map[string]bool{}, change: transition.Change{
			From: s.Whole, Limits: s.Limits, Ours: s.Owned, Extended: s.Extended, Relabels: s.relabels(revision),
			Fits:   func(rules []cloud.Rule) bool { return s.Lower.Fits(rules, form.QuotaOf(s.Region)) },
			Stop:   func() { s.MayStop(); s.Effort.Spend(surveyEffort) },
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
			if r.inVain() || r.outgrow() {
				r.Settle()
				r.survey, r.end, again = nil, nil, true
				continue
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

// outgrow finds the groups that hold up everything: because neither all of their new rules fit in
// beside the old ones nor one after the other, or because they become those of another class while
// some of their present holders wait for others. Their classes shall have groups beside them, which
// their interfaces join before they leave the old ones. It reports whether there are any. In a
// region that has no room for further groups the change stays blocked: to do without something for
// the sake of a group that is there for a moment would come and go for ever.
func (r *route) outgrow() (found bool) {
	if r.moves() {
		return false
	}
	free := r.Limits.GroupsPerRegion - r.Snap.CountedGroups()
	without := func(id string) {
		g := r.ByKey[id]
		if g != nil && g.Existing != nil && !g.Class.Gathers && !r.Outgrown[id] && !r.stays[id] && len(r.Outgrown) < free {
			r.Outgrown[id], found = true, true
		}
	}
	for _, v := range r.order.Blocked {
		if v.Kind == transition.Room && v.Rule.Direction != "" {
			without(v.Group)
		}
	}
	if found {
		return true
	}
	for _, v := range r.order.Blocked {
		if v.Kind == transition.Leak || v.Kind == transition.Gap {
			for _, id := range r.turned(v) {
				without(id)
			}
		}
	}
	return found
}

// turned are the groups that become those of another class by an edit, or when interfaces move.
func (r *route) turned(v transition.Violation) []string {
	ids := []string{v.Group}
	for _, n := range r.NICs {
		if slices.Contains(v.Interfaces, n.ID) {
			ids = append(ids, r.Targets[n]...)
		}
	}
	return slices.DeleteFunc(ids, func(id string) bool {
		g := r.ByKey[id]
		return g == nil || g.Existing == nil || g.Existing.Tags[cloud.TagClass] == g.Class.Hash
	})
}

// inVain finds the outgrown groups that somebody would still hold after all steps. Their classes do
// without groups beside them: the next plan, which sees room where this one has made some, would
// remove these. It reports whether there are any.
func (r *route) inVain() (found bool) {
	if len(r.Outgrown) == 0 {
		return false
	}
	holds := map[string][]string{}
	for i := range r.Snap.Interfaces {
		holds[r.Snap.Interfaces[i].ID] = r.Snap.Interfaces[i].GroupIDs
	}
	for _, st := range r.order.Steps {
		if st.Op.Kind == cloud.OpSetInterfaceGroups {
			holds[st.Op.Target] = st.Op.GroupIDs
		}
	}
	for _, groups := range holds {
		for _, id := range groups {
			if r.Outgrown[id] {
				delete(r.Outgrown, id)
				r.stays[id], found = true, true
			}
		}
	}
	return found
}

// moves reports whether anything changes by the order but tags and descriptions.
func (r *route) moves() bool {
	return slices.ContainsFunc(r.order.Steps, func(st transition.Step) bool {
		return st.Op.Kind != cloud.OpTag && st.Op.Kind != cloud.OpUntag && !describes(st.Op)
	})
}

// holdBack surveys regions, and has interfaces wait in a state in between where they have to.
func holdBack(routes []*route, revision string) {
	for again := true; again; {
		again = false
		for _, r := range routes {
			if r.survey == nil {
				r.change.To, r.change.Stable, r.change.Stay, r.change.Leaving = r.goal(revision), r.stable(), r.Stays(), r.leaving()
				r.change.Beyond = r.beyond()
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
		if n.State == guard.Untouched && n.Taken() && (s.Controllable(n) == nil || n.Given) {
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

// beyond are the interfaces that nobody can hold back: no VM of theirs is selected and they are not
// under control, or something forbids to change what they allow.
func (s *regional) beyond() map[string]bool {
	out := map[string]bool{}
	for _, n := range s.NICs {
		if s.Controllable(n) != nil || n.Frozen() != nil || n.VM == nil && !n.Taken() {
			out[n.ID] = true
		}
	}
	return out
}

// restrain keeps directions of interfaces from becoming wider. It reports whether that is new.
func (s *regional) restrain(held map[string][2]bool) (more bool) {
	for _, n := range s.NICs {
		more = s.Restrict(n, held[n.ID]) || more
	}
	return more
}

// transit turns the way of a region into steps.
func (r *route) transit() (steps []Step, dirty map[string]bool, later bool) {
	s, order := r.regional, r.order
	e := &emitter{regional: s, dirty: make(map[string]bool, len(order.Steps)), steps: slices.Grow([]Step(nil), len(order.Steps))}
	byID := s.byID()
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
			if describes(st.Op) {
				e.dirty[st.Op.Target] = was // nobody has to wait for it
			}
		}
	}
	if !r.moves() {
		s.blocked(order.Blocked)
	}
	for _, id := range r.survey.Hasty() {
		s.Note(id, intent.Why(intent.NotWaiting))
	}
	return e.steps, e.dirty, s.Restricts() || len(order.Blocked) > 0
}

// describes reports whether an operation changes nothing but the descriptions of rules.
func describes(op cloud.Op) bool {
	return op.Kind == cloud.OpReplaceRules && slices.EqualFunc(op.Rules, op.Replaced, cloud.Rule.Same)
}

// holdRevision keeps the policies from being said to be in force while some of them wait.
func (s *regional) holdRevision(change *transition.Change) {
	if s.Restricts() {
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
	why := map[string]*intent.Reason{}
	for _, v := range all {
		for _, id := range slices.Concat(v.Interfaces, v.Holders) {
			if why[id] == nil {
				why[id] = whyBlocked(v)
			}
		}
	}
	s.Block(func(n *guard.NIC) *intent.Reason {
		if n.Restricted() != [2]bool{} || len(n.Ours) > 0 && !slices.Equal(s.Targets[n], slices.Sorted(slices.Values(n.GroupIDs))) {
			return cmp.Or(why[n.ID], intent.Why(intent.OrderOpposite))
		}
		return why[n.ID]
	})
}

// whyBlocked is why an edit is blocked.
func whyBlocked(v transition.Violation) *intent.Reason {
	switch {
	case v.Kind == transition.Leak || v.Kind == transition.Gap:
		code := intent.OrderLeak
		if v.Kind == transition.Gap {
			code = intent.OrderGap
		}
		return &intent.Reason{Code: code, Objects: v.Holders, Flow: &intent.Flow{Direction: v.Direction, Service: v.Service, Addrs: v.Addrs}}
	case len(v.Interfaces) > 0 && v.Needed > 0:
		return intent.Why(intent.OrderInterface).Counting(v.Needed, v.Available)
	case v.Rule.Direction != "":
		return intent.Why(intent.OrderRules, v.Group).Counting(v.Needed, v.Available)
	case v.Needed > 0:
		return intent.Why(intent.OrderRegion).Counting(v.Needed, v.Available)
	}
	return intent.Why(intent.OrderGroupLater)
}
