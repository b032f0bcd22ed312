package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// edge says that the interfaces of one atom must move before those of another, if both move in one edit.
type edge struct {
	first, then *atom
	causes      []cause
	// bridged is set if every cause can be bridged; see bridge.
	bridged bool
}

// cause is a rule for whose sake one atom must move before another.
type cause struct {
	holder string // the group with the rule
	rule   cloud.Rule
	peer   *atom // whom the rule refers to
	// joins is true for a wanted rule that does not match the peer yet, false for a present one that no longer will.
	joins   bool
	bridges []cloud.Rule
	// hopeless is set if there is nothing that bridges it.
	hopeless bool
}

// scheduleMoves decides which interfaces move from their old groups to the new ones in one edit, and in which order. An edit in one
// step saves half of the calls, but needs that whoever is to reach the interface by its new groups has not given up the old rules
// yet, and that whoever reaches it by its old groups has the new rules already. Where these demands contradict each other, rules that
// hold only while interfaces move bridge the gap, in the groups that are ours. Where that is impossible too, some interfaces move in
// two steps: all of them first join the new groups, and leave the old ones at the end.
//
// It reports whether a taking over was refused because an interface has no free slot for the two steps.
func (s *regionState) scheduleMoves() (retry bool) {
	var direct []*atom
	for _, a := range s.atoms {
		if len(a.leaving) > 0 && len(a.joining) > 0 {
			direct = append(direct, a)
		}
	}
	edges := s.precedence(direct)
	b := s.newBridging()
	for {
		order, cycle := topological(direct, successors(edges))
		if cycle == nil {
			s.directed = order
			s.build(b, order, edges)
			return false
		}
		if b.relax(cycle, edges) {
			continue
		}
		out := s.leastUseful(cycle, edges)
		if out == nil {
			var stuck []*atom
			for _, a := range cycle {
				if s.tight(a) {
					stuck = append(stuck, a)
				}
			}
			if s.in.pause > pauseNobody {
				if rest, relaxed := s.letPause(stuck, edges); relaxed {
					edges = rest
					continue
				}
			}
			if s.refuseTight(stuck) {
				return true
			}
			s.forceOrder(direct, stuck)
			s.build(b, s.directed, edges)
			return false
		}
		direct = without(direct, []*atom{out})
		edges = slices.DeleteFunc(edges, func(e *edge) bool { return e.first == out || e.then == out })
	}
}

// leastUseful returns the atom of a cycle that shall move in two steps, such that little is lost: one that cannot move in one step
// whatever the others do, else the one with the fewest interfaces for the demands that it takes away. It is nil if none of them has
// room for two steps.
func (s *regionState) leastUseful(cycle []*atom, edges []*edge) *atom {
	in, out, self := map[*atom]int{}, map[*atom]int{}, map[*atom]bool{}
	member := map[*atom]bool{}
	for _, a := range cycle {
		member[a] = true
	}
	for _, e := range edges {
		switch {
		case e.bridged || !member[e.first] || !member[e.then]:
		case e.first == e.then:
			self[e.first] = true
		default:
			out[e.first]++
			in[e.then]++
		}
	}
	var best *atom
	better := func(a, b *atom) bool {
		if self[a] != self[b] {
			return self[a]
		}
		return len(a.nics)*in[b]*out[b] < len(b.nics)*in[a]*out[a]
	}
	for _, a := range cycle {
		if !s.tight(a) && (best == nil || better(a, best)) {
			best = a
		}
	}
	return best
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
			s.refused[n] = fmt.Sprintf("the interface %s holds %s of at most %d, and to take it over%s without a gap takes %d more for a moment, because it and others "+
				"that are taken over reach one another by rules of their groups that refer to groups%s",
				n.ID, count(len(a.current), "group"), s.limits.GroupsPerInterface, s.onBehalf(n), len(a.joining), lacking{groups: len(a.current) + len(a.joining)}.mark())
			refused = true
		}
	}
	return refused
}

// forceOrder moves the stuck atoms in one step although the order is not perfect: they are under control already.
func (s *regionState) forceOrder(direct, stuck []*atom) {
	s.directed = append(without(direct, stuck), stuck...)
	for _, a := range stuck {
		s.notePause(a)
	}
}

func (s *regionState) notePause(a *atom) {
	for _, n := range a.nics {
		s.note(n.ID, "it has no free slot for its old and new groups together, so new connections with interfaces that move at the same time may pause for a moment")
	}
}

// letPause drops the demands on those of the stuck atoms whose connections may pause, so that nobody need be refused. It reports whether there
// are any.
func (s *regionState) letPause(stuck []*atom, edges []*edge) (rest []*edge, relaxed bool) {
	for _, a := range stuck {
		touches := func(e *edge) bool { return !e.bridged && (e.first == a || e.then == a) }
		if s.in.pause < pauseAll && !a.nics[0].taken() || !slices.ContainsFunc(edges, touches) {
			continue
		}
		edges, relaxed = slices.DeleteFunc(edges, touches), true
		s.notePause(a)
	}
	return edges, relaxed
}

// precedence returns which atoms must move before which.
func (s *regionState) precedence(atoms []*atom) []*edge {
	joiners, leavers := map[string][]*atom{}, map[string][]*atom{}
	for _, a := range atoms {
		for _, key := range a.joining {
			joiners[key] = append(joiners[key], a)
		}
		for _, key := range a.leaving {
			leavers[key] = append(leavers[key], a)
		}
	}
	var out []*edge
	known := map[[2]*atom]*edge{}
	add := func(first, then *atom, c cause) {
		if first == then && len(first.nics) == 1 {
			return
		}
		e := known[[2]*atom{first, then}]
		if e == nil {
			e = &edge{first: first, then: then}
			known[[2]*atom{first, then}] = e
			out = append(out, e)
		}
		e.causes = append(e.causes, c)
		s.in.effort.spend(1)
	}
	for _, y := range atoms {
		for _, key := range y.target {
			for _, r := range s.referring(key, true) {
				for _, x := range joiners[groupKey(r.Peer)] {
					if y.now[indexOf(r.Direction)].Touches(flow.ServiceOf(r.Match), x.private) && x.answers(y, r) {
						add(x, y, cause{holder: key, rule: r, peer: x, joins: true}) // y may reach x by its old rules until x can be reached by the new ones
					}
				}
			}
		}
		for _, key := range y.current {
			for _, r := range s.referring(key, false) {
				for _, x := range leavers[groupKey(r.Peer)] {
					if y.want[indexOf(r.Direction)].Touches(flow.ServiceOf(r.Match), x.private) && x.answers(y, r) {
						add(y, x, cause{holder: key, rule: r, peer: x}) // y needs its new rules before x can no longer be reached by the old ones
					}
				}
			}
		}
	}
	return out
}

// answers reports whether the interfaces allow their half of any flow of the rule, which y has, before and after: else nobody misses the other half.
func (a *atom) answers(y *atom, r cloud.Rule) bool {
	other, sv := 1-indexOf(r.Direction), flow.ServiceOf(r.Match)
	return a.now[other].MayTouch(sv, y.private) && a.want[other].MayTouch(sv, y.private)
}

// successors returns, for every atom, those that must not move before it.
func successors(edges []*edge) map[*atom][]*atom {
	out := map[*atom][]*atom{}
	for _, e := range edges {
		if !e.bridged {
			out[e.first] = append(out[e.first], e.then)
		}
	}
	return out
}

// referring returns the rules of a group that refer to groups, as they are wanted or as they are.
func (s *regionState) referring(key string, wanted bool) []cloud.Rule {
	var rules, out []cloud.Rule
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
	return out
}

// rulesOf returns the present rules of groups that refer to groups.
func (s *regionState) rulesOf(keys []string) []cloud.Rule {
	var out []cloud.Rule
	for _, key := range keys {
		out = append(out, s.referring(key, false)...)
	}
	return out
}

// topological orders the atoms, or returns one cycle: a strongly connected set of atoms, in the order of the input.
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
		slices.SortFunc(cycle, func(a, b *atom) int { return cmp.Compare(index[a], index[b]) })
		return nil, cycle
	}
	return order, nil
}
