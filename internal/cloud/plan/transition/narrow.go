package transition

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// triedRules bounds how many rules are looked at to find one that can be narrowed.
const triedRules = 256

// narrow takes from a group of which nothing shall be left, and that somebody still holds, what a
// rule of it gives beyond what is allowed both now and in the end. Its holder leaves it when others
// have moved, and these may wait for the holder to become narrower.
func (w *worklist) narrow() bool {
	if w.End == nil {
		return false // nobody waits
	}
	tried := 0
	for _, id := range slices.Concat(w.order, w.doomed) {
		if len(w.wanted[id]) > 0 || len(w.holders[id]) == 0 {
			continue
		}
		for _, r := range w.rules[id] {
			if tried++; tried > triedRules {
				return false
			}
			w.stop()
			if d := w.lesser(placed{id, r}); d != nil {
				d.emit(w)
				return true
			}
		}
	}
	return false
}

// lesser puts into the place of a rule those that give what is missed without it; nil if that is
// all that it gives. They give nothing that is not given already, so that narrowing has an end.
func (w *worklist) lesser(at placed) *detour {
	given := map[*cohort]flow.Permit{}
	for _, y := range w.holders[at.group] {
		given[y] = w.gives(y, at.rule.Direction)
	}
	d := &detour{before: map[string][]cloud.Rule{}}
	for range maxBridges {
		v := w.checkRules(at.group, missing(w.rules[at.group], []cloud.Rule{at.rule}))
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
			return c.group == at.group && w.addsNothing(c, given) && w.mayBridge(c.group, c.rule)
		})
		if i < 0 {
			break
		}
		w.try(d, ruleEdit{cloud.OpAddRules, parts[i]})
	}
	w.undo(d)
	return nil
}

// gives is what the present rules give a cohort while nobody moves.
func (w *worklist) gives(y *cohort, d cloud.Direction) flow.Permit {
	return w.always(w.rulesOf(y.at, d), y.network)
}

// addsNothing reports whether a rule that is not there gives nobody more than he is given already.
func (w *worklist) addsNothing(c placed, given map[*cohort]flow.Permit) bool {
	for y, permit := range given {
		if addrs, known := w.anyone(c.rule.Peer, y.network); !known || !permit.Allows(flow.ServiceOf(c.rule.Match), addrs) {
			return false
		}
	}
	return !slices.Contains(w.rules[c.group], c.rule)
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
