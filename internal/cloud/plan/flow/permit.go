package flow

import (
	"iter"
	"slices"
	"sort"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
)

// Permit is what one direction of one interface allows, in terms of addresses. Its grants are
// disjoint and together they are all packets; the grant of cloud.AnyProtocol, which stands for all
// protocols without a grant of their own, is the last one. The zero value allows nothing.
type Permit struct {
	Grants []Grant
	// Reduced is set if the permit is narrower than what it was made from: see CollapseProtocols.
	Reduced bool
}

// Grant is what a Permit allows of one service.
type Grant struct {
	Service Service
	// All are the allowed addresses. Anonymous is the part of All that is allowed without any
	// membership in a group; Plain the part of Anonymous that is allowed without the prefix lists
	// of Opaque, too.
	All, Anonymous, Plain addrset.Set
	// Opaque are allowed peers that rules can only name as they are: groups of other accounts and
	// prefix lists whose members are not known, and prefix lists from which nothing is taken out,
	// so that what their owners change takes effect by itself. Each is there once, perhaps with
	// addresses that are left out of it. Sorted.
	Opaque []cloud.Peer
}

// within is the grant for the addresses of it that are among some.
func (c Grant) within(addrs addrset.Set) Grant {
	c.All, c.Anonymous, c.Plain = c.All.Intersect(addrs), c.Anonymous.Intersect(addrs), c.Plain.Intersect(addrs)
	return c
}

// Join is what some grants allow together of a service that they hold.
func Join(s Service, grants []Grant) Grant {
	out := Grant{Service: s}
	all := make([]addrset.Set, 0, len(grants))
	var anonymous, plain []addrset.Set
	for i := range grants {
		g := &grants[i]
		if !g.Service.Covers(s) {
			continue
		}
		all, out.Opaque = append(all, g.All), append(out.Opaque, g.Opaque...)
		if !g.Anonymous.Empty() {
			anonymous, plain = append(anonymous, g.Anonymous), append(plain, g.Plain)
		}
	}
	out.All, out.Anonymous, out.Plain = addrset.Union(all...), addrset.Union(anonymous...), addrset.Union(plain...)
	out.Opaque = Opaques(out.Opaque)
	return out.within(Family(s.Protocol))
}

// find returns the index of the grant that holds the service, which must lie in one grant.
func (p Permit) find(s Service) int {
	last := len(p.Grants) - 1
	i := sort.Search(last, func(i int) bool {
		g := p.Grants[i].Service
		return g.Protocol > s.Protocol || g.Protocol == s.Protocol && g.To >= s.From
	})
	if i < last && p.Grants[i].Service.Covers(s) {
		return i
	}
	return last
}

// Overlay is what each of two permits grants of every service of their common refinement.
func Overlay(a, b Permit) iter.Seq2[Grant, Grant] {
	return func(yield func(x, y Grant) bool) {
		services := make([]Service, 0, len(a.Grants)+len(b.Grants))
		for _, g := range a.Grants {
			services = append(services, g.Service)
		}
		for _, g := range b.Grants {
			services = append(services, g.Service)
		}
		for _, s := range Partition(services) {
			if !yield(a.At(s), b.At(s)) {
				return
			}
		}
	}
}

// At returns what is granted of a service that lies in one grant, cut down to the addresses that
// the service can have.
func (p Permit) At(s Service) Grant {
	if len(p.Grants) == 0 {
		return Grant{Service: s}
	}
	g := p.Grants[p.find(s)]
	if g.Service.Protocol == cloud.AnyProtocol && (s.Protocol == cloud.ICMP || s.Protocol == cloud.ICMPv6) {
		g = g.within(Family(s.Protocol))
	}
	g.Service = s
	return g
}

// Intersect returns what both allow.
func (p Permit) Intersect(o Permit) Permit {
	var out Permit
	for x, y := range Overlay(p, o) {
		out.Grants = append(out.Grants, Grant{
			Service: x.Service, All: x.All.Intersect(y.All), Anonymous: x.Anonymous.Intersect(y.Anonymous), Plain: x.Plain.Intersect(y.Plain),
			Opaque: inBoth(x.Opaque, y.Opaque),
		})
	}
	return out
}

// Union returns what one of them allows, or both.
func (p Permit) Union(o Permit) Permit {
	out := Permit{Reduced: p.Reduced || o.Reduced}
	for x, y := range Overlay(p, o) {
		out.Grants = append(out.Grants, Join(x.Service, []Grant{x, y}))
	}
	return out
}

// Minus returns what p allows and o does not, as grants that are not empty. Opaque peers are left
// out: nobody's verdict here depends on them.
func (p Permit) Minus(o Permit) []Grant {
	return slices.DeleteFunc(p.Without(o).Grants, func(g Grant) bool { return g.All.Empty() })
}

// Without is Minus as a permit. Grants that allow nothing are there, too, for without them the last
// one would stand for their protocols; neighbors among them are one.
func (p Permit) Without(o Permit) Permit {
	var out Permit
	for x, y := range Overlay(p, o) {
		s, rest := x.Service, x.All.Minus(y.All)
		if n := len(out.Grants) - 1; n >= 0 && rest.Empty() && out.Grants[n].All.Empty() && out.Grants[n].Service.Protocol == s.Protocol {
			out.Grants[n].Service.To = s.To
			continue
		}
		out.Grants = append(out.Grants, Grant{Service: s, All: rest})
	}
	return out
}

// Empty reports whether no address is allowed anything.
func (p Permit) Empty() bool {
	return !slices.ContainsFunc(p.Grants, func(g Grant) bool { return !g.All.Empty() })
}

// Allows reports whether the addresses are allowed for the whole of the service.
func (p Permit) Allows(s Service, addrs addrset.Set) bool {
	return !slices.ContainsFunc(p.Within(s), func(g Grant) bool { return !addrs.Intersect(Family(g.Service.Protocol)).Within(g.All) })
}

// MayTouch reports whether any of the addresses is allowed for any part of the service. Peers whose
// addresses are not known may have any.
func (p Permit) MayTouch(s Service, addrs addrset.Set) bool {
	return slices.ContainsFunc(p.Within(s), func(g Grant) bool { return len(g.Opaque) > 0 || addrs.Overlaps(g.All) })
}

// Within returns what is allowed for the parts of a service; together the grants are the whole
// service, or more.
func (p Permit) Within(s Service) []Grant {
	var out []Grant
	for _, g := range p.Grants {
		if s.Protocol == cloud.AnyProtocol || g.Service.Overlaps(s) {
			out = append(out, g)
		}
	}
	if len(out) == 0 {
		out = append(out, p.At(s))
	}
	return out
}

// Meet reports whether a flow between two parties could be allowed by both permits: whether there
// is a service for which x has an address of xs and y one of ys of the same family.
func Meet(x Permit, xs addrset.Set, y Permit, ys addrset.Set) bool {
	for _, a := range x.Grants {
		x4, x6 := a.All.OverlapIn(xs)
		if !x4 && !x6 {
			continue
		}
		for _, b := range y.Grants {
			if !a.Service.MayOverlap(b.Service) { // most do not, and that is quickly seen
				continue
			}
			y4, y6 := b.All.OverlapIn(ys)
			if (x4 && y4 || x6 && y6) && (a.Service.Overlaps(b.Service) || x.standsFor(a, b) || y.standsFor(b, a)) {
				return true
			}
		}
	}
	return false
}

// standsFor reports whether one of the permit's grants, as that of all protocols without a grant of
// their own, is about the protocol of another permit's grant.
func (p Permit) standsFor(g, other Grant) bool {
	return g.Service.Protocol == cloud.AnyProtocol && !p.tellsApart(other.Service.Protocol)
}

// tellsApart reports whether a protocol has a grant of its own.
func (p Permit) tellsApart(protocol int) bool {
	return slices.ContainsFunc(p.Grants, func(g Grant) bool { return g.Service.Protocol == protocol })
}
