package form

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// farBeyond is how many times the room must be exceeded before the bound is told in place of the
// exact number: to find the best form of far more rules than there is room for takes long, and is
// of no use.
const farBeyond = 4

// AtLeast returns the shortage that the class has whatever the form of its rules, if the bound
// tells of one.
func (s *Fitter) AtLeast(d Demand) *Shortage {
	q := s.quota(d)
	bound := s.lower.Bound(q)
	var out *Shortage
	for i, direction := range flow.Directions() {
		grants := d.Want[i].Grants
		byReference := s.referable(d, direction).Union(s.Listed(grants...))
		if !slices.ContainsFunc(grants, func(x flow.Grant) bool { return !x.All.Within(byReference) }) {
			continue // there may be no rule by address at all
		}
		for _, family := range Families() {
			needed := CountBlocks(d.Want[i], family, byReference, s.lower)
			if needed > bound.Blocks && (out == nil || needed > out.Needed) {
				out = &Shortage{
					Quota: bound.BlocksOf[i], Direction: direction, Family: family.Name, Needed: needed, Available: bound.Blocks, AtLeast: true,
				}
			}
		}
	}
	return out
}

// referable returns all addresses that a rule of the class can name by a group.
func (s *Fitter) referable(d Demand, direction cloud.Direction) addrset.Set {
	view := d.Class.Network
	out := s.byClasses.Get(view, func() addrset.Set {
		var sets []addrset.Set
		for _, o := range s.classCandidates(view) {
			sets = append(sets, o.addrs)
		}
		return addrset.Union(sets...)
	})
	for _, o := range s.others(d, direction) {
		out = out.Union(o.addrs)
	}
	return out
}

// CountBlocks is how many blocks of addresses the rules of a permit name at least in a family,
// besides references, which can name the given addresses. A rule names one block, which must be
// allowed as a whole for everything that it matches. So each of the largest blocks that are allowed
// of services needs one of its own, unless it has smaller ones of other services inside.
func CountBlocks(p flow.Permit, family Family, byReference addrset.Set, lower Lowerer) (needed int) {
	var blocks []addrset.Range
	for _, g := range p.Grants {
		if lower.Unsupported(g.Service) == "" { // else no rule is made of it
			for _, b := range g.All.Intersect(family.All).Prefixes() {
				blocks = append(blocks, addrset.RangeOf(b))
			}
		}
	}
	slices.SortFunc(blocks, func(a, b addrset.Range) int { return cmp.Or(a.From.Compare(b.From), b.To.Compare(a.To)) })
	blocks = slices.Compact(blocks)
	named := family.of(byReference)
	for i, b := range blocks {
		if i+1 < len(blocks) && !b.To.Less(blocks[i+1].From) {
			continue
		}
		for len(named) > 0 && named[0].To.Less(b.To) {
			named = named[1:]
		}
		if len(named) == 0 || b.From.Less(named[0].From) {
			needed++
		}
	}
	return needed
}
