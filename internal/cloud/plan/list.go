package plan

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// A native rule that names a prefix list is copied as it is if nothing is taken out of what it allows: what the list's owner changes takes
// effect at once then, and a list of the cloud itself may count far less than it holds. Otherwise its entries are named, as far as they stay allowed.

// entries returns the addresses of a prefix list; known is false if it is none, or if they cannot be seen.
func (s *region) entries(p cloud.Peer) (set addrset.Set, known bool) {
	if set, ok := s.entryCache[p.PrefixListID]; ok {
		return set, true
	}
	list := s.lists[p.PrefixListID]
	if list == nil || !list.Known() {
		return addrset.Set{}, false
	}
	set = addrset.OfPrefixes(list.Entries...)
	s.entryCache[p.PrefixListID] = set
	return set, true
}

// wholeLists returns those of the native rules that name a prefix list and from which nothing is taken out in any of the cells.
func (f flattening) wholeLists(c *region, native []cloud.Rule, cells []flow.Service) map[cloud.Rule]bool {
	var out map[cloud.Rule]bool
	for _, r := range native {
		entries, ok := c.entries(r.Peer)
		if !ok || entries.Empty() {
			continue
		}
		match := flow.ServiceOf(r.Match)
		taken := slices.ContainsFunc(cells, func(s flow.Service) bool {
			if !match.Covers(s) {
				return false
			}
			matched, _ := c.walked(f.rules, s, f.view)
			return !entries.Intersect(flow.Family(s.Protocol)).Within(matched.left.Union(matched.allowed))
		})
		if !taken {
			if out == nil {
				out = map[cloud.Rule]bool{}
			}
			out[r.Key()] = true
		}
	}
	return out
}

// listed returns the addresses that the cells allow by naming prefix lists.
func (s *regionState) listed(cells ...flow.Grant) addrset.Set {
	var sets []addrset.Set
	for _, h := range cells {
		for _, p := range h.Opaque {
			if entries, ok := s.entries(p); ok {
				sets = append(sets, entries.Intersect(flow.Family(h.Service.Protocol)))
			}
		}
	}
	return addrset.Union(sets...)
}

// byList begins to name what is allowed in a cell: by prefix list and by address what is allowed whoever has the address. It returns what remains.
func (s *regionState) byList(h flow.Grant, f *forms) (cell flow.Cell, rest addrset.Set) {
	cell = flow.Cell{Service: h.Service, Addrs: h.Anonymous}
	var named []addrset.Set
	for _, p := range h.Opaque {
		entries, known := s.entries(p)
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

// idleLists marks, for the prefix lists that some cell names, the cells where naming them does no harm, whatever comes into the list: where it
// has no packets, or where everybody is allowed.
func (s *regionState) idleLists(cells []flow.Cell, want flow.Permit) {
	seen := map[cloud.Peer]bool{}
	for _, c := range cells {
		for _, p := range c.Groups {
			entries, known := s.entries(p)
			if !known || seen[p] {
				continue
			}
			seen[p] = true
			every := addrset.AllIPv4()
			if len(entries.IPv6()) > 0 {
				every = addrset.AllIPv6()
			}
			for k, h := range want.Grants {
				if !slices.Contains(cells[k].Groups, p) && !slices.Contains(cells[k].Idle, p) && every.Intersect(flow.Family(h.Service.Protocol)).Within(h.All) {
					cells[k].Idle = append(cells[k].Idle, p)
				}
			}
		}
	}
	for k := range cells {
		slices.SortFunc(cells[k].Idle, cloud.Peer.Compare)
	}
}

// spells reports whether the entries of a prefix list take fewer rules than a reference to it.
func (s *regionState) spells(p cloud.Peer) bool {
	entries, known := s.entries(p)
	return known && len(entries.Prefixes()) < s.lists[p.PrefixListID].Weight()
}

// worthSpelling reports whether the halves name prefix lists whose entries take fewer rules.
func (s *regionState) worthSpelling(want [2]flow.Permit) bool {
	return slices.ContainsFunc(slices.Concat(want[0].Grants, want[1].Grants), func(h flow.Grant) bool { return slices.ContainsFunc(h.Opaque, s.spells) })
}
