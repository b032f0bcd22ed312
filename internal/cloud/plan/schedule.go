package plan

import (
	"fmt"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// scheduleMoves decides which interfaces move from their old groups to the new ones in one edit, and in which order. An edit in one
// step saves half of the calls, but needs that whoever is to reach the interface by its new groups has not given up the old rules
// yet, and that whoever reaches it by its old groups has the new rules already. Where these demands contradict each other, the
// interfaces move in two steps: all of them first join the new groups, and leave the old ones at the end.
//
// It reports whether a taking over was refused because an interface has no free slot for the two steps.
func (s *regionState) scheduleMoves() (retry bool) {
	var direct []*atom
	for _, a := range s.atoms {
		if len(a.leaving) > 0 && len(a.joining) > 0 {
			direct = append(direct, a)
		}
	}
	for {
		before := s.precedence(direct)
		order, cycle := topological(direct, before)
		if cycle == nil {
			s.directed = order
			return false
		}
		var stuck []*atom
		keep := -1
		for i, a := range cycle {
			switch {
			case s.tight(a):
				stuck = append(stuck, a)
			case !slices.Contains(before[a], a) && (keep < 0 || len(a.nics) > len(cycle[keep].nics)):
				keep = i
			}
		}
		if len(stuck) > 0 || len(cycle) == 1 {
			keep = -1
		}
		var out []*atom
		for i, a := range cycle {
			if i != keep && !s.tight(a) {
				out = append(out, a)
			}
		}
		if len(out) == 0 {
			if s.refuseTight(stuck) {
				return true
			}
			s.forceOrder(direct, stuck)
			return false
		}
		direct = without(direct, out)
	}
}

// tight reports whether the interfaces have no room for the old and the new groups at the same time.
func (s *regionState) tight(a *atom) bool {
	return len(a.current)+len(a.joining) > s.limits.GroupsPerInterface
}

func (s *regionState) refuseTight(stuck []*atom) (refused bool) {
	for _, a := range stuck {
		for _, n := range a.nics {
			if n.taken() {
				continue
			}
			s.refused[n] = fmt.Sprintf("the interface %s holds %d groups of at most %d, and taking it over without a gap needs %d more for a moment, "+
				"because its groups refer to one another: remove one of its groups or raise the quota of groups per interface",
				n.ID, len(a.current), s.limits.GroupsPerInterface, len(a.joining))
			refused = true
		}
	}
	return refused
}

// forceOrder moves the stuck atoms in one step although the order is not perfect: they are under control already.
func (s *regionState) forceOrder(direct, stuck []*atom) {
	s.directed = append(without(direct, stuck), stuck...)
	for _, a := range stuck {
		for _, n := range a.nics {
			s.note(n.ID, "it has no free slot for its old and new groups together, so new connections with interfaces that move at the same time may pause for a moment")
		}
	}
}

// precedence returns, for every atom, those that must not move before it.
func (s *regionState) precedence(atoms []*atom) map[*atom][]*atom {
	joiners, leavers := map[string][]*atom{}, map[string][]*atom{}
	for _, a := range atoms {
		for _, key := range a.joining {
			joiners[key] = append(joiners[key], a)
		}
		for _, key := range a.leaving {
			leavers[key] = append(leavers[key], a)
		}
	}
	out := map[*atom][]*atom{}
	seen := map[[2]*atom]bool{}
	add := func(first, then *atom) {
		if first == then && len(first.nics) == 1 || seen[[2]*atom{first, then}] {
			return
		}
		seen[[2]*atom{first, then}] = true
		out[first] = append(out[first], then)
	}
	for _, y := range atoms {
		for _, r := range s.rulesOf(y.target, true) {
			for _, x := range joiners[groupKey(r.Peer)] {
				if y.now[indexOf(r.Direction)].touches(ServiceOf(r.Match), x.private) {
					add(x, y) // y may reach x by its old rules until x can be reached by the new ones
				}
			}
		}
		for _, r := range s.rulesOf(y.current, false) {
			for _, x := range leavers[groupKey(r.Peer)] {
				if y.want[indexOf(r.Direction)].touches(ServiceOf(r.Match), x.private) {
					add(y, x) // y needs its new rules before x can no longer be reached by the old ones
				}
			}
		}
	}
	return out
}

// rulesOf returns the rules of groups that refer to groups, as they are wanted or as they are.
func (s *regionState) rulesOf(keys []string, wanted bool) []cloud.Rule {
	var out []cloud.Rule
	for _, key := range keys {
		var rules []cloud.Rule
		if g := s.byKey[key]; g != nil && wanted {
			rules = g.rules
		} else if g := s.groups[key]; g != nil {
			rules = g.Rules
		}
		for _, r := range rules {
			if groupKey(r.Peer) != "" {
				out = append(out, r)
			}
		}
	}
	return out
}

// topological orders the atoms, or returns one cycle: a strongly connected set of atoms.
func topological(atoms []*atom, before map[*atom][]*atom) (order, cycle []*atom) {
	index, low := map[*atom]int{}, map[*atom]int{}
	onStack := map[*atom]bool{}
	var stack []*atom
	var visit func(a *atom)
	visit = func(a *atom) {
		index[a] = len(index) + 1
		low[a] = index[a]
		stack = append(stack, a)
		onStack[a] = true
		for _, b := range before[a] {
			switch {
			case index[b] == 0:
				visit(b)
				low[a] = min(low[a], low[b])
			case onStack[b]:
				low[a] = min(low[a], index[b])
			}
		}
		if low[a] != index[a] {
			return
		}
		at := slices.Index(stack, a)
		component := slices.Clone(stack[at:])
		stack = stack[:at]
		for _, b := range component {
			onStack[b] = false
		}
		if cycle == nil && (len(component) > 1 || slices.Contains(before[a], a)) {
			cycle = component
		}
		order = append(order, a)
	}
	for _, a := range atoms {
		if index[a] == 0 {
			visit(a)
		}
	}
	slices.Reverse(order)
	if cycle != nil {
		return nil, cycle
	}
	return order, nil
}
