package transition

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// bridge lets interfaces move by a detour: with rules that are there as long as others move. It
// goes on from one cohort to the next until one needs no detour any more, which then moves first.
func (w *worklist) bridge() (done bool) {
	for _, k := range slices.Clone(w.movers) {
		w.survey.stop()
		rules, clean := w.detour(k)
		if !clean {
			continue
		}
		if len(rules) == 0 {
			w.st.revert(k)
			if done {
				return true
			}
			continue
		}
		w.script.next()
		for _, group := range slices.Sorted(maps.Keys(rules)) {
			w.tell(group, cloud.Op{Kind: cloud.OpAddRules, Rules: sorted(rules[group])})
			for _, r := range rules[group] {
				w.temp[placed{group, r}] = true
			}
		}
		w.depart([]*cohort{k})
		w.movers = slices.DeleteFunc(w.movers, func(o *cohort) bool { return o == k })
		done = true
	}
	return done
}

// detour finds the rules, by group, that make the move of a cohort clean as long as they are there:
// where an interface would miss the cohort, its group also references a group that the cohort holds
// on the other side of its move. There are none if the cohort needs none. If the move is clean then
// the rules are there, and the cohort is under way.
func (w *worklist) detour(k *cohort) (rules map[string][]cloud.Rule, clean bool) {
	rules = map[string][]cloud.Rule{}
	for {
		v := w.st.checkMove(k, k.to)
		if v == nil {
			return rules, true
		}
		c, found := w.closes(k, v)
		if !found {
			for group, added := range rules {
				w.st.setRules(group, missing(w.st.rules[group], sorted(added)))
			}
			return nil, false
		}
		rules[c.group] = append(rules[c.group], c.rule)
		w.st.setRules(c.group, sorted(append(slices.Clone(w.st.rules[c.group]), c.rule)))
	}
}

// closes finds a rule that may be added and could close the gap that a violation is; false if there
// is none.
func (w *worklist) closes(k *cohort, v *Violation) (placed, bool) {
	if v.Kind == Gap {
		for _, c := range w.bridges(k, k.to, v) {
			if !slices.Contains(w.st.rules[c.group], c.rule) && w.st.mayBridge(c.group, c.rule) {
				return c, true
			}
		}
	}
	return placed{}, false
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
