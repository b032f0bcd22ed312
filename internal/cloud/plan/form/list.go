package form

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Listed returns the addresses that the cells allow by naming prefix lists.
func (s *Fitter) Listed(cells ...flow.Grant) addrset.Set {
	var sets []addrset.Set
	for _, h := range cells {
		for _, p := range h.Opaque {
			if entries, ok := s.region.Entries(p); ok {
				sets = append(sets, entries.Intersect(flow.Family(h.Service.Protocol)))
			}
		}
	}
	return addrset.Union(sets...)
}

// byList begins to name what is allowed in a cell: by prefix list and by address what is allowed
// without membership. It returns what remains.
func (s *Fitter) byList(h flow.Grant, f *forms) (cell flow.Cell, rest addrset.Set) {
	cell = flow.Cell{Service: h.Service, Addrs: h.Anonymous}
	var named []addrset.Set
	for _, p := range h.Opaque {
		entries, known := s.region.Entries(p)
		entries = entries.Intersect(flow.Family(h.Service.Protocol))
		switch {
		case !known:
			cell.Groups = append(cell.Groups, p)
		case f.spelled && s.spells(p):
		case entries.Within(h.Plain):
			cell.Idle = append(cell.Idle, p) // another rule allows it anyway
		default:
			cell.Groups, named = append(cell.Groups, p), append(named, entries)
		}
	}
	rest = h.All.Minus(h.Anonymous)
	if len(named) > 0 {
		listed := addrset.Union(named...)
		cell.Addrs, rest = h.Anonymous.Minus(listed).Union(h.Plain), rest.Minus(listed)
	}
	return cell, rest
}

// spells reports whether the entries of a prefix list take fewer rules than a reference to it.
func (s *Fitter) spells(p cloud.Peer) bool {
	entries, known := s.region.Entries(p)
	return known && len(entries.Prefixes()) < s.region.Lists[p.PrefixListID].Weight()
}

// worthSpelling reports whether the halves name prefix lists whose entries take fewer rules.
func (s *Fitter) worthSpelling(want [2]flow.Permit) bool {
	return slices.ContainsFunc(slices.Concat(want[0].Grants, want[1].Grants), func(h flow.Grant) bool { return slices.ContainsFunc(h.Opaque, s.spells) })
}
