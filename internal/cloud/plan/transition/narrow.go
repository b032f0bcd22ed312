package transition

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
)

// triedRules bounds how many rules are looked at to find one that can be narrowed.
const triedRules = 256

// narrow takes from a group of ours that somebody still holds what a rule of it gives beyond what
// is allowed both now and in the end, if the rule is not to stay. Such a rule may admit whoever
// joins the group that it names, and hold up those who shall. And where others wait for a holder to
// become narrower, who leaves the group only after them, that goes for any rule of a group of which
// nothing is to stay.
func (w *worklist) narrow() bool {
	var all []placed
	add := func(at placed) {
		if len(all) < triedRules && !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	for _, v := range w.blocked {
		if v.Kind == Leak && slices.Contains(w.st.rules[v.Group], v.Rule) {
			add(placed{v.Group, v.Rule})
		}
	}
	if w.survey.End != nil { // somebody waits
		for _, id := range slices.Concat(w.order, w.doomed) {
			if len(w.wanted[id]) > 0 || len(w.st.holders[id]) == 0 {
				continue
			}
			for _, r := range w.st.rules[id] {
				add(placed{id, r})
			}
		}
	}
	return slices.ContainsFunc(all, w.lessen)
}

// lessen puts lesser rules into the place of one of ours, if there are any.
func (w *worklist) lessen(at placed) bool {
	w.survey.stop()
	if len(w.st.holders[at.group]) == 0 || !w.survey.owns(at.group) || slices.Contains(w.wanted[at.group], at.rule) {
		return false
	}
	d := w.lesser(at)
	if d == nil {
		return false
	}
	d.emit(w)
	return true
}

// lesser puts into the place of a rule those that give what is missed without it; nil if that is
// all that it gives. They give nothing that is not given already, so that narrowing has an end.
func (w *worklist) lesser(at placed) *detour {
	given := map[*cohort]flow.Permit{}
	for _, y := range w.st.holders[at.group] {
		given[y] = w.gives(y, at.rule.Direction)
	}
	d := &detour{before: map[string][]cloud.Rule{}}
	for range maxBridges {
		v := w.st.checkRules(at.group, missing(w.st.rules[at.group], []cloud.Rule{at.rule}))
		if v == nil {
			w.try(d, ruleEdit{cloud.OpRemoveRules, at})
			for y, before := range given {
				if !before.Without(w.gives(y, at.rule.Direction)).Empty() {
					return d
				}
			}
			break
		}
		parts := w.parts(at, v)
		i := slices.IndexFunc(parts, func(c placed) bool {
			return c.group == at.group && w.addsNothing(c, given) && w.st.mayAdd(c.group, c.rule)
		})
		if i < 0 {
			break
		}
		w.try(d, ruleEdit{cloud.OpAddRules, parts[i]})
	}
	w.undo(d)
	return nil
}

// gives is what the present rules give a cohort while nobody moves, and when all have moved.
func (w *worklist) gives(y *cohort, d cloud.Direction) flow.Permit {
	return model.Permit(w.st.rulesOf(y.at, d), func(p cloud.Peer) model.Meaning { return model.Known(w.everyone(p, y.network)) })
}

// everyone returns the addresses that a peer means now, or will mean in the end.
func (w *worklist) everyone(p cloud.Peer, network string) (addrset.Set, bool) {
	now, known := w.st.anyone(p, network)
	if !known {
		return now, false
	}
	then, known := w.survey.to.Addresses(p, network)
	return now.Union(then), known
}

// addsNothing reports whether a rule that is not there gives nobody more than he is given already.
func (w *worklist) addsNothing(c placed, given map[*cohort]flow.Permit) bool {
	for y, permit := range given {
		if addrs, known := w.everyone(c.rule.Peer, y.network); !known || !permit.Allows(flow.ServiceOf(c.rule.Match), addrs) {
			return false
		}
	}
	return !slices.Contains(w.st.rules[c.group], c.rule)
}

// parts are rules that give what is missed without a rule.
func (w *worklist) parts(at placed, v *Violation) []placed {
	match, ok := matchOf(v.Service)
	if !ok {
		return nil
	}
	same := placed{at.group, cloud.Rule{Direction: v.Direction, Match: match, Peer: at.rule.Peer}}
	return append([]placed{same}, w.bridges(v.holder, v.holder.at, v)...)
}
