package plan

import (
	"cmp"
	"slices"
	"sort"

	"github.com/nephele-io/nephele/internal/cloud"
)

// half is what one kind of interface allows in one direction, in terms of addresses. Its cells are disjoint and together all
// packets; the cell of cloud.AnyProtocol, which stands for all protocols without a cell of their own, is the last one.
type half struct {
	cells []halfCell
	// reduced is set if the half allows less than the policies do: see thrifty.
	reduced bool
	// number is that of recall; 0 if the half has none yet.
	number int
}

type halfCell struct {
	service Service
	// all are the allowed addresses; anonymous those that are allowed whoever has them, that is, without any membership in a group; plain those of
	// them that are allowed without the prefix lists of opaque, too.
	all, anonymous, plain Set
	// opaque are allowed peers that rules can only name as they are: groups of other accounts and prefix lists whose members are not known, and
	// prefix lists from which nothing is taken out, so that what their owners change takes effect by itself. Sorted.
	opaque []cloud.Peer
}

// partition returns the disjoint cells that every one of the services is a union of, sorted; the last one stands for all protocols
// that no service names.
func partition(services []Service) []Service {
	cuts := map[int][]int{}
	for _, s := range services {
		if s.Protocol != cloud.AnyProtocol {
			cuts[s.Protocol] = append(cuts[s.Protocol], int(s.From), int(s.To)+1)
		}
	}
	var out []Service
	for protocol, at := range cuts {
		at = append(at, 0, 0x10000)
		slices.Sort(at)
		at = slices.Compact(at)
		for i := 1; i < len(at); i++ {
			out = append(out, Service{protocol, uint16(at[i-1]), uint16(at[i] - 1)})
		}
	}
	slices.SortFunc(out, compareServices)
	return append(out, anyService)
}

func compareServices(a, b Service) int {
	return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
}

// flattening is the input of flatten: one direction of one kind of interface.
type flattening struct {
	rules []*bound // in the order of evaluation
	view  *network // where addresses are looked at from
	// native are the rules of the former groups; used only in an open direction.
	native []cloud.Rule
	// kept is what goes on being allowed beside native, in an open direction; see regionState.kept.
	kept half
	// whole are those of native that name a prefix list and from which nothing is taken out.
	whole map[cloud.Rule]bool
}

// flatten turns ordered rules into what is allowed; c knows the addresses behind the peers.
func (f flattening) flatten(c *regionState) half {
	isolated := false
	var services []Service
	for _, r := range f.rules {
		isolated = isolated || r.verdict == allow
		services = append(services, r.services...)
	}
	native := f.native
	if isolated {
		native, f.kept = nil, half{}
	}
	for _, r := range native {
		services = append(services, ServiceOf(r.Match))
	}
	for _, c := range f.kept.cells {
		services = append(services, c.service)
	}
	var out half
	cells := partition(services)
	f.whole = f.wholeLists(c, native, cells)
	for _, s := range cells {
		c.mayStop()
		out.cells = append(out.cells, f.cell(c, s, native))
	}
	return out.thriftyTypes().thrifty()
}

func (f flattening) cell(c *regionState, s Service, native []cloud.Rule) halfCell {
	family := familyOf(s.Protocol)
	matched, named := c.walked(f.rules, s, f.view)
	matched, named = matched.in(family), named.in(family)
	all, anonymous, plain := matched.allowed, named.allowed, named.allowed
	out := halfCell{service: s}
	for _, r := range native {
		if !ServiceOf(r.Match).covers(s) {
			continue
		}
		addrs, byAddr, known := c.nativePeer(r.Peer, f.view)
		switch {
		case !known && f.mayBe(r.Peer).Intersect(family).Within(matched.left.Union(matched.allowed)):
			out.opaque = append(out.opaque, r.Peer)
		case !known:
			c.opaqueDropped(f.view, r.Peer)
		case f.whole[r.Key()]:
			out.opaque = append(out.opaque, r.Peer)
			anonymous = anonymous.Union(addrs.Intersect(named.left))
			all = all.Union(addrs.Intersect(matched.left))
		case byAddr:
			anonymous = anonymous.Union(addrs.Intersect(named.left))
			plain = plain.Union(addrs.Intersect(named.left))
			fallthrough
		default:
			all = all.Union(addrs.Intersect(matched.left))
		}
	}
	if kept := f.kept.at(s).all; !kept.Empty() {
		all, anonymous, plain = all.Union(kept.Intersect(matched.left)), anonymous.Union(kept.Intersect(named.left)), plain.Union(kept.Intersect(named.left))
	}
	slices.SortFunc(out.opaque, cloud.Peer.Compare)
	out.opaque = slices.Compact(out.opaque)
	out.all, out.anonymous, out.plain = all, anonymous.Intersect(all), plain.Intersect(all)
	return out
}

// mayBe returns the addresses that a peer whose members are not known may have.
func (f flattening) mayBe(p cloud.Peer) Set {
	if p.GroupID != "" {
		return f.view.around
	}
	return Everything()
}

// find returns the index of the cell that holds the service, which must lie in one cell.
func (h half) find(s Service) int {
	last := len(h.cells) - 1
	i := sort.Search(last, func(i int) bool {
		c := h.cells[i].service
		return c.Protocol > s.Protocol || c.Protocol == s.Protocol && c.To >= s.From
	})
	if i < last && h.cells[i].service.covers(s) {
		return i
	}
	return last
}

// overlay calls f for every cell of the common refinement of a and b.
func overlay(a, b half, f func(s Service, x, y halfCell)) {
	var services []Service
	for _, c := range a.cells {
		services = append(services, c.service)
	}
	for _, c := range b.cells {
		services = append(services, c.service)
	}
	for _, s := range partition(services) {
		f(s, a.at(s), b.at(s))
	}
}

// at returns the cell that holds the service, cut down to the addresses that the service can have.
func (h half) at(s Service) halfCell {
	if len(h.cells) == 0 {
		return halfCell{service: s}
	}
	c := h.cells[h.find(s)]
	if c.service.Protocol == cloud.AnyProtocol && (s.Protocol == cloud.ICMP || s.Protocol == cloud.ICMPv6) {
		family := familyOf(s.Protocol)
		c.all, c.anonymous, c.plain = c.all.Intersect(family), c.anonymous.Intersect(family), c.plain.Intersect(family)
	}
	c.service = s
	return c
}

// intersect returns what both allow.
func (h half) intersect(o half) half {
	var out half
	overlay(h, o, func(s Service, x, y halfCell) {
		c := halfCell{service: s, all: x.all.Intersect(y.all), anonymous: x.anonymous.Intersect(y.anonymous), plain: x.plain.Intersect(y.plain)}
		for _, p := range x.opaque {
			if slices.Contains(y.opaque, p) {
				c.opaque = append(c.opaque, p)
			}
		}
		out.cells = append(out.cells, c)
	})
	return out
}

// minus returns what h allows and o does not, as cells that are not empty. Opaque peers are left out: nobody's verdict here
// depends on them.
func (h half) minus(o half) []halfCell {
	var out []halfCell
	overlay(h, o, func(s Service, x, y halfCell) {
		if rest := x.all.Minus(y.all); !rest.Empty() {
			out = append(out, halfCell{service: s, all: rest})
		}
	})
	return out
}

// allows reports whether the addresses are allowed for the whole of the service by h or, together with it, by o.
func (h half) allows(o half, s Service, addrs Set) bool {
	if s.Protocol != cloud.AnyProtocol {
		addrs = addrs.Intersect(familyOf(s.Protocol))
		ys := o.within(s)
		for _, x := range h.within(s) {
			for _, y := range ys {
				if x.service.overlaps(y.service) && !addrs.withinEither(x.all, y.all) {
					return false
				}
			}
		}
		return true
	}
	ok := true
	overlay(h, o, func(cell Service, x, y halfCell) {
		ok = ok && addrs.Intersect(familyOf(cell.Protocol)).withinEither(x.all, y.all)
	})
	return ok
}

// touches reports whether any of the addresses is allowed for any part of the service.
func (h half) touches(s Service, addrs Set) bool {
	cells := h.cells
	if s.Protocol != cloud.AnyProtocol {
		cells = h.within(s)
	}
	return slices.ContainsFunc(cells, func(c halfCell) bool { return addrs.Overlaps(c.all) })
}

// mayTouch is touches, where peers whose addresses are not known may have any.
func (h half) mayTouch(s Service, addrs Set) bool {
	cells := h.cells
	if s.Protocol != cloud.AnyProtocol {
		cells = h.within(s)
	}
	return slices.ContainsFunc(cells, func(c halfCell) bool { return len(c.opaque) > 0 || addrs.Overlaps(c.all) })
}

// within returns what is allowed for the parts of a service of one protocol; together the cells are the whole service, or more.
func (h half) within(s Service) []halfCell {
	var out []halfCell
	for _, c := range h.cells {
		if c.service.Protocol == s.Protocol && c.service.overlaps(s) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		out = append(out, h.at(s))
	}
	return out
}
