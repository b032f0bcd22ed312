package form

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// Candidate is a group that rules of a class may refer to instead of naming addresses.
type Candidate struct {
	peer  cloud.Peer
	addrs addrset.Set // what the reference will mean
	reach addrset.Set // what it may come to mean: also the interfaces that natively belong to the group but are under our control now
	// gathers is how many interfaces a gathering has; 0 for anything else.
	gathers int
}

// MadeUp is a group that might be created, with the addresses that a reference to it would mean.
func MadeUp(name string, addrs addrset.Set) Candidate {
	return Candidate{peer: cloud.Peer{GroupName: name}, addrs: addrs, reach: addrs}
}

// in returns the addresses of the candidate in a family, or in all of them.
func (c *Candidate) in(family addrset.Set) addrset.Set {
	if family.Len() == 1 {
		return c.addrs.Intersect(family)
	}
	return c.addrs
}

// traffic decides for everything that the class must allow whether to name it by group or by
// address. What is allowed without membership is named by address, so that a change of members does
// not change such rules; the rest by the groups whose interfaces are all allowed, and what remains
// by address. Where f says so, members are named in the mixed form instead.
func (s *Fitter) traffic(d Demand, f *forms) flow.Traffic {
	f.asked, f.references = nil, 0
	return flow.Traffic{
		Ingress: s.cover(d.Class.Network, 0, d.Want[0], s.others(d, cloud.Ingress), f),
		Egress:  s.cover(d.Class.Network, 1, d.Want[1], s.others(d, cloud.Egress), f),
	}
}

// classCandidates are the groups of the classes that can be referenced from the network; first the
// gatherings, the ones of most addresses first.
func (s *Fitter) classCandidates(view *intent.Network) []Candidate {
	return s.classes.Get(view, func() []Candidate { return s.findCandidates(view) })
}

// findCandidates is classCandidates, worked out.
func (s *Fitter) findCandidates(view *intent.Network) []Candidate {
	var gatherings, others []Candidate
	for _, o := range s.Classes {
		if o.Addrs.Empty() || !view.Reaches(o.Network) {
			continue
		}
		c := Candidate{peer: o.Groups[0].Peer(), addrs: o.Addrs, reach: o.Addrs}
		if o.Gathers && len(o.NICs) > 0 {
			c.gathers = len(o.NICs)
			gatherings = append(gatherings, c)
		} else {
			others = append(others, c)
		}
	}
	slices.SortStableFunc(gatherings, func(a, b Candidate) int { return b.gathers - a.gathers })
	return append(gatherings, others...)
}

// nativeCandidates are the groups that the native rules of the class refer to and that are still
// held, in a direction in which these rules decide. Where policies alone decide, none of them is
// named: its owner may attach it to any interface, which would be let in until the next reading
// (decision 0026).
func (s *Fitter) nativeCandidates(c *Class, d cloud.Direction) []Candidate {
	if !c.Frozen && !c.NICs[0].Open()[flow.Index(d)] {
		return nil
	}
	holders := c.NICs[0].Groups.Former
	if c.Frozen {
		holders = slices.Concat(holders, c.NICs[0].GroupIDs)
	}
	named := map[string]bool{}
	for _, holder := range holders {
		if s.region.Groups[holder] == nil {
			continue
		}
		for _, r := range s.region.Groups[holder].Rules {
			if g := s.region.Groups[r.Peer.GroupID]; r.Direction == d && g != nil && !s.region.Owned(g) {
				named[g.ID] = true
			}
		}
	}
	var out []Candidate
	for _, id := range slices.Sorted(maps.Keys(named)) {
		if addrs := s.ThenAddrs(id, c.Network); !addrs.Empty() {
			out = append(out, Candidate{peer: cloud.Peer{GroupID: id}, addrs: addrs, reach: addrs.Union(s.region.FormerAddrs(id, c.Network))})
		}
	}
	return out
}

// within reports whether everything that the reference may come to mean in a family is in the set.
func (c *Candidate) within(set, family addrset.Set) bool {
	return (len(family.IPv4()) == 0 || c.reach.IPv4().Within(set.IPv4())) && (len(family.IPv6()) == 0 || c.reach.IPv6().Within(set.IPv6()))
}

// cover names what a half allows: first by native groups, then by classes, then by address. If f
// only counts, it does nothing else.
func (s *Fitter) cover(view *intent.Network, direction int, want flow.Permit, natives []Candidate, f *forms) []flow.Cell {
	out := make([]flow.Cell, 0, len(want.Grants))
	classes := s.classCandidates(view)
	found := make([]*peerCover, len(want.Grants))
	// What is referred to, and what of it by rules that the cloud can have.
	byNative, nativesRuled := make([]bool, len(natives)), make([]bool, len(natives))
	var byClass []int
	used, ruledByClass, classesRuled := s.used.begin(len(classes)), s.ruled.begin(len(classes)), 0
	for k, h := range want.Grants {
		family, ruled := flow.Family(h.Service.Protocol), s.lower.Unsupported(h.Service) == ""
		cell, rest := s.byList(h, f)
		for i := range natives {
			c := &natives[i]
			if addrs := c.in(family); addrs.Overlaps(rest) && c.within(h.All, family) {
				cell.Groups = append(cell.Groups, c.peer)
				rest = rest.Minus(addrs)
				byNative[i], nativesRuled[i] = true, nativesRuled[i] || ruled
			}
		}
		found[k] = f.choose(s, view, s.coverByClasses(view, rest, h.All, family))
		for _, i := range found[k].used {
			if used.add(i) {
				byClass = append(byClass, i)
			}
			if ruled && ruledByClass.add(i) {
				classesRuled++
			}
		}
		if f.counts {
			continue
		}
		if len(cell.Groups) == 0 {
			cell.Groups = slices.Clip(found[k].peers) // as it is: there may be hundreds
		} else {
			cell.Groups = append(cell.Groups, found[k].peers...)
			slices.SortFunc(cell.Groups, cloud.Peer.Compare)
		}
		cell.Addrs = cell.Addrs.Union(found[k].rest)
		out = append(out, cell)
	}
	f.count(direction, nativesRuled, classesRuled)
	if f.counts {
		return nil
	}
	nameEverywhere(out, want)
	slices.Sort(byClass)
	for k, h := range want.Grants {
		family := flow.Family(h.Service.Protocol)
		for i := range natives {
			c := &natives[i]
			if byNative[i] && !slices.Contains(out[k].Groups, c.peer) && c.within(h.All, family) {
				out[k].Idle = append(out[k].Idle, c.peer)
			}
		}
		within := s.classesWithin(view, h.All, family)
		idle := make([]int, 0, len(byClass)) // peers are large, and there may be hundreds
		for _, i := range byClass {
			if !within(i) {
				continue
			}
			if _, here := slices.BinarySearch(found[k].used, i); !here {
				idle = append(idle, i)
			}
		}
		out[k].Idle = slices.Grow(out[k].Idle, len(idle))
		for _, i := range idle {
			out[k].Idle = append(out[k].Idle, classes[i].peer)
		}
	}
	return out
}

// classesWithin reports of class candidates whether everything that a reference to them may come to
// mean in a family is in the set. Many classes allow the same sets, so it is remembered.
func (s *Fitter) classesWithin(view *intent.Network, set, family addrset.Set) func(class int) bool {
	_, all := s.account.Recall.Set(set)
	_, of := s.account.Recall.Set(family)
	known := s.within.Get(withinKey{view, all, of}, func() []answer { return make([]answer, len(s.classCandidates(view))) })
	return func(class int) bool {
		if known[class] == unasked {
			if known[class] = no; s.classCandidates(view)[class].within(set, family) {
				known[class] = yes
			}
		}
		return known[class] == yes
	}
}

// withinKey is a question that classesWithin answers: the numbers of a set and of a family.
type withinKey struct {
	view        *intent.Network
	set, family int
}

// answer is what is known of a question.
type answer uint8

const (
	unasked answer = iota
	no
	yes
)

// nameEverywhere has the addresses that a rule must name for all protocols named for every single
// service, too, where a group would do: the one rule for all of it covers them, and without that it
// would have to be one for each of the other protocols.
func nameEverywhere(cells []flow.Cell, want flow.Permit) {
	last := len(cells) - 1
	for k, h := range want.Grants[:max(last, 0)] {
		cells[k].Addrs = cells[k].Addrs.Union(cells[last].Addrs.Intersect(h.All))
	}
}

// coverByClasses covers addresses by gatherings and classes of which nothing is outside the allowed
// ones. Classes have no addresses in common.
func (s *Fitter) coverByClasses(view *intent.Network, addrs, allowed, family addrset.Set) *peerCover {
	key := coverKey{view: view}
	addrs, key.all = s.memo.Set(addrs)
	allowed, key.allowed = s.memo.Set(allowed)
	family, key.family = s.memo.Set(family)
	return s.covers.Get(key, func() *peerCover { return s.covering(view, addrs, allowed, family) })
}

// covering is coverByClasses, worked out.
func (s *Fitter) covering(view *intent.Network, addrs, allowed, family addrset.Set) *peerCover {
	out := &peerCover{all: addrs, rest: addrs}
	if addrs.Empty() {
		return out
	}
	var taken []addrset.Set
	classes := s.classCandidates(view)
	for _, i := range s.overlapping(view, addrs) {
		c := &classes[i]
		set := c.in(family)
		if !set.Overlaps(out.rest) || !set.Within(allowed) {
			continue
		}
		out.used, out.peers = append(out.used, i), append(out.peers, c.peer)
		if c.gathers > 0 {
			out.rest = out.rest.Minus(set)
			continue
		}
		taken = append(taken, set)
	}
	out.rest = out.rest.Minus(addrset.Union(taken...))
	slices.SortFunc(out.peers, cloud.Peer.Compare)
	return out
}

// overlapping are the indexes of the class candidates that have an address in a set, and of all
// gatherings, sorted.
func (s *Fitter) overlapping(view *intent.Network, set addrset.Set) (out []int) {
	classes := s.classCandidates(view)
	spans := s.spans.Get(view, func() owners {
		var plain []int
		for i := range classes {
			if classes[i].gathers == 0 {
				plain = append(plain, i)
			}
		}
		return newOwners(classes, plain)
	})
	for i := 0; i < len(classes) && classes[i].gathers > 0; i++ {
		out = append(out, i)
	}
	for i, family := range Families() {
		for _, r := range family.of(set) {
			at, _ := slices.BinarySearchFunc(spans[i], r.From, func(x ownedSpan, a addrset.Number) int { return x.To.Compare(a) })
			for ; at < len(spans[i]) && !r.To.Less(spans[i][at].From); at++ {
				out = append(out, spans[i][at].class)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// others are the groups besides the groups of classes that rules in a direction may refer to.
func (s *Fitter) others(d Demand, direction cloud.Direction) []Candidate {
	return slices.Concat(d.Trial, s.nativeCandidates(d.Class, direction))
}
