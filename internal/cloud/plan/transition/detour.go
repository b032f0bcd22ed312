package transition

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// bridge lets interfaces move by a detour: with rules that are there as long as others move, or
// without some. It goes on from one cohort to the next until one needs no detour any more, which
// then moves first.
func (w *worklist) bridge() (done bool) {
	for _, k := range slices.Clone(w.movers) {
		w.survey.stop()
		d := w.detour(k, k.to)
		if d == nil {
			continue
		}
		if len(d.edits) == 0 {
			w.st.revert(k)
			if done {
				return true
			}
			continue
		}
		w.take(k, d)
		w.movers = slices.DeleteFunc(w.movers, func(o *cohort) bool { return o == k })
		done = true
	}
	return done
}

// take makes a cohort move that is under way, by its detour.
func (w *worklist) take(k *cohort, d *detour) {
	d.emit(w)
	for _, e := range d.edits {
		if e.kind == cloud.OpAddRules {
			w.temp[e.placed] = true
		}
	}
	w.depart([]*cohort{k})
}

// detour is what makes the move of a cohort clean.
type detour struct {
	edits  []ruleEdit              // in their order
	before map[string][]cloud.Rule // rules of the groups that it changes
}

// ruleEdit adds or removes one rule. An added rule exists while others move: where an interface
// would miss the cohort, its group also references a group that the cohort holds on the other side
// of its move. A removed rule is withheld: through it the cohort, whose groups no interface holds
// yet, or only paused ones, would admit its own interfaces that have not moved yet. It comes back
// after the move.
type ruleEdit struct {
	kind cloud.OpKind
	placed
}

// try makes an edit for the sake of a detour.
func (w *worklist) try(d *detour, e ruleEdit) {
	rules := w.st.rules[e.group]
	if _, ok := d.before[e.group]; !ok {
		d.before[e.group] = rules
	}
	d.edits = append(d.edits, e)
	if e.kind == cloud.OpAddRules {
		w.st.setRules(e.group, sorted(append(slices.Clone(rules), e.rule)))
	} else {
		w.st.setRules(e.group, missing(rules, []cloud.Rule{e.rule}))
	}
}

// undo takes all edits back.
func (w *worklist) undo(d *detour) {
	for group, rules := range d.before {
		w.st.setRules(group, rules)
	}
}

// emit makes the edits, what comes one after the other and is of one kind at once.
func (d *detour) emit(w *worklist) {
	for i := 0; i < len(d.edits); {
		kind := d.edits[i].kind
		rules := map[string][]cloud.Rule{}
		for ; i < len(d.edits) && d.edits[i].kind == kind; i++ {
			rules[d.edits[i].group] = append(rules[d.edits[i].group], d.edits[i].rule)
		}
		w.script.next()
		for _, group := range slices.Sorted(maps.Keys(rules)) {
			w.tell(group, cloud.Op{Kind: kind, Rules: sorted(rules[group])})
		}
	}
}

// detour looks for one that leads to other groups; nil if there is none. It has no edits if the
// cohort needs none. Its edits are made then, and the cohort is under way.
func (w *worklist) detour(k *cohort, next []string) *detour {
	d := &detour{before: map[string][]cloud.Rule{}}
	for {
		v := w.st.checkMove(k, next)
		if v == nil {
			return d
		}
		if !w.remedy(d, k, next, v) {
			w.undo(d)
			return nil
		}
	}
}

// remedy does something about what is wrong with the move of a cohort. It reports whether there is
// anything.
func (w *worklist) remedy(d *detour, k *cohort, next []string, v *Violation) bool {
	switch {
	case v.Kind == Gap:
		for _, c := range w.bridges(k, next, v) {
			known := slices.Contains(w.st.rules[c.group], c.rule) || slices.Contains(d.edits, ruleEdit{cloud.OpRemoveRules, c})
			if !known && w.st.mayBridge(c.group, c.rule) {
				w.try(d, ruleEdit{cloud.OpAddRules, c})
				return true
			}
		}
	case v.Kind == Leak && v.Rule.Direction != "":
		groups := next
		if v.Group != "" {
			groups = []string{v.Group}
		}
		for _, g := range groups {
			c := placed{g, v.Rule}
			has := slices.Contains(w.st.rules[g], v.Rule) && slices.Contains(w.wanted[g], v.Rule)
			temporary := w.temp[c] || slices.Contains(d.edits, ruleEdit{cloud.OpAddRules, c})
			inUse := slices.ContainsFunc(w.st.holders[g], func(y *cohort) bool { return !y.pausing })
			if has && !temporary && !inUse && w.survey.Ours(w.st.groups[g]) {
				w.try(d, ruleEdit{cloud.OpRemoveRules, c})
				return true
			}
		}
	}
	return false
}

// bridges are rules that could close a gap that the move of a cohort makes.
func (w *worklist) bridges(k *cohort, next []string, v *Violation) (out []placed) {
	y := v.holder
	// The groups by which the missed interfaces can be named: those that the mover will hold, or
	// for the mover's own rules those that the others hold now.
	var names []string
	holding := y.at
	if y == k {
		holding = next
		for _, x := range w.survey.cohorts {
			if x.addrs.Overlaps(v.Addrs) && w.survey.from.Reaches(y.network, x.network) {
				names = append(names, x.at...)
			}
		}
	} else {
		names = next
	}
	var peers []cloud.Peer
	for _, name := range distinct(names) {
		p := cloud.Peer{GroupID: name}
		if addrs, _ := w.st.anyone(p, y.network); y != k || addrs.Overlaps(v.Addrs) {
			peers = append(peers, p)
		}
	}
	most := maxBridges
	if w.survey.Limits.WholeGroups {
		most = maxWholeBridges
	}
	if prefixes := v.Addrs.Prefixes(); len(prefixes) <= most {
		for _, p := range prefixes {
			peers = append(peers, cloud.Peer{CIDR: p})
		}
	}
	var rules []cloud.Rule
	if match, ok := matchOf(v.Service); ok {
		for _, p := range peers {
			rules = append(rules, cloud.Rule{Direction: v.Direction, Match: match, Peer: p})
		}
	}
	for _, h := range holding {
		if g := w.st.groups[h]; g == nil || !w.survey.Ours(g) || !w.st.exists[h] {
			continue
		}
		for _, r := range rules {
			out = append(out, placed{h, r})
		}
	}
	return out
}

// maxBridges is how many addresses are named for as long as others move.
const maxBridges = 16

// maxWholeBridges is maxBridges where a group is written as one, so that many addresses cost no
// more calls than one.
const maxWholeBridges = 512

// matchOf is how a rule says a service; false if it takes several.
func matchOf(s flow.Service) (cloud.Match, bool) {
	m := cloud.NewMatch(s.Protocol, int(s.From), int(s.To))
	if s.Protocol == cloud.ICMP || s.Protocol == cloud.ICMPv6 {
		m = cloud.NewMatch(s.Protocol, int(s.From>>8), int(s.To&0xff))
		switch {
		case s == flow.Whole(s.Protocol):
			m = cloud.NewMatch(s.Protocol, -1, -1)
		case s.To-s.From == 0xff:
			m.To = -1
		}
	}
	return m, flow.ServiceOf(m) == s
}
