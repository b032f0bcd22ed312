package plan

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// comesAlong reports whether what a is to allow to or from b, in one direction, comes with b's own edits and not before: only rules that refer to
// groups that b joins give it. If each interface of b moves in one edit, and its new groups say nothing else of a than what is wanted in the end,
// then the same edit takes b's half away, and no flow passes in between.
func (s *regionState) comesAlong(a, b *atom, direction int, wider, narrower []halfCell) bool {
	if b.bystander || !slices.Contains(s.directed, b) {
		return false
	}
	for _, key := range b.target {
		if g := s.byKey[key]; g != nil && len(s.edits[g].lateRemove)+len(s.edits[g].lateAdd) > 0 {
			return false // it is not yet what it shall be when they join
		}
	}
	own := func(r cloud.Rule) bool { return !slices.Contains(b.joining, groupKey(r.Peer)) }
	any := func(cloud.Rule) bool { return true }
	return !s.mayGive(a, b.addrs(), direction, wider, own) && !s.mayGive(b, a.addrs(), 1-direction, narrower, any)
}

// mayGive reports whether some of the rules that an atom shall have in a direction may give any of the cells to certain addresses, whoever has
// moved yet.
func (s *regionState) mayGive(a *atom, to Set, direction int, cells []halfCell, of func(cloud.Rule) bool) bool {
	for _, key := range a.target {
		for _, r := range s.rulesThen(key) {
			if r.Direction != directions[direction] || !of(r) {
				continue
			}
			now, then, known := s.addresses(r.Peer, a.network)
			given := now.Union(then).Intersect(to)
			if slices.ContainsFunc(cells, func(c halfCell) bool {
				return overlapping(c.service, ServiceOf(r.Match)) && (!known || c.all.Overlaps(given))
			}) {
				return true
			}
		}
	}
	return false
}

// rulesThen returns the rules that a group shall have.
func (s *regionState) rulesThen(key string) []cloud.Rule {
	if g := s.byKey[key]; g != nil {
		return g.rules
	}
	if g := s.groups[key]; g != nil {
		return g.Rules
	}
	return nil
}
