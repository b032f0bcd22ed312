package plan

import (
	"net/netip"
	"slices"
	"sort"
)

// Set is a set of IP addresses, IPv4 and IPv6 in one. It is kept as sorted, disjoint, non-adjacent ranges of each family and is never
// changed after it was made; the zero value is the empty set. Addresses have no zone and IPv4 is never in its IPv6-mapped form.
type Set struct{ v4, v6 []span }

// span is an inclusive range of addresses of one family, as numbers.
type span struct{ from, to u128 }

var (
	everyV4 = []span{{u128{}, u128{0, 0xffffffff}}}
	everyV6 = []span{{u128{}, u128{^uint64(0), ^uint64(0)}}}
)

// Everything returns the set of all addresses.
func Everything() Set { return Set{everyV4, everyV6} }

// familyOf returns the addresses that packets of the protocol can have: ICMP is IPv4 only, ICMPv6 is IPv6 only.
func familyOf(protocol int) Set {
	switch protocol {
	case 1:
		return Set{v4: everyV4}
	case 58:
		return Set{v6: everyV6}
	default:
		return Everything()
	}
}

// SetOf returns the set of the given addresses.
func SetOf(addrs ...netip.Addr) Set {
	var s Set
	for _, a := range addrs {
		if a.IsValid() {
			a = a.Unmap()
			s.add(a, span{toU128(a), toU128(a)})
		}
	}
	return s.normal()
}

// SetOfPrefixes returns the union of the prefixes; host bits are ignored.
func SetOfPrefixes(prefixes ...netip.Prefix) Set {
	var s Set
	for _, p := range prefixes {
		if !p.IsValid() {
			continue
		}
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		from := toU128(p.Masked().Addr())
		s.add(p.Addr(), span{from, from.or(mask128(p.Bits() + 128 - p.Addr().BitLen()))})
	}
	return s.normal()
}

// add appends a range of the family of a.
func (s *Set) add(a netip.Addr, r span) {
	if a.Is4() {
		s.v4 = append(s.v4, r)
	} else {
		s.v6 = append(s.v6, r)
	}
}

// normal sorts and merges; it reuses the slices.
func (s Set) normal() Set { return Set{normalize(s.v4), normalize(s.v6)} }

func normalize(spans []span) []span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from.compare(b.from) })
	out := spans[:1]
	for _, r := range spans[1:] {
		out = appendSpan(out, r)
	}
	return out
}

// appendSpan appends a range that does not start before the last one, and merges the two if they touch.
func appendSpan(out []span, r span) []span {
	if len(out) == 0 {
		return append(out, r)
	}
	last := &out[len(out)-1]
	if last.to.less(r.from) && last.to.next() != r.from {
		return append(out, r)
	}
	if last.to.less(r.to) {
		last.to = r.to
	}
	return out
}

// Empty reports whether the set has no address.
func (s Set) Empty() bool { return len(s.v4) == 0 && len(s.v6) == 0 }

// Equal reports whether both sets hold the same addresses.
func (s Set) Equal(o Set) bool { return slices.Equal(s.v4, o.v4) && slices.Equal(s.v6, o.v6) }

// hash is equal for equal sets.
func (s Set) hash() uint64 {
	h := uint64(14695981039346656037)
	mix := func(x uint64) { h = (h ^ x) * 1099511628211; h ^= h >> 29 }
	for _, r := range s.v4 {
		mix(r.from.lo)
		mix(r.to.lo)
	}
	mix(^uint64(0))
	for _, r := range s.v6 {
		mix(r.from.hi)
		mix(r.from.lo)
		mix(r.to.hi)
		mix(r.to.lo)
	}
	return h
}

// family returns the ranges of the family of a.
func (s Set) family(a netip.Addr) []span {
	if a.Is4() {
		return s.v4
	}
	return s.v6
}

// Contains reports whether the address is in the set.
func (s Set) Contains(a netip.Addr) bool {
	a = a.Unmap()
	v := toU128(a)
	spans := s.family(a)
	i := reaching(spans, v)
	return i < len(spans) && !v.less(spans[i].from)
}

// reaching returns the index of the first range that does not end before v.
func reaching(spans []span, v u128) int {
	return sort.Search(len(spans), func(i int) bool { return !spans[i].to.less(v) })
}

// Union returns the addresses in s or in o.
func (s Set) Union(o Set) Set { return Set{unite(s.v4, o.v4), unite(s.v6, o.v6)} }

func unite(a, b []span) []span {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	out := make([]span, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		if len(b) == 0 || len(a) > 0 && a[0].from.less(b[0].from) {
			a, b = b, a
		}
		out = appendSpan(out, b[0])
		b = b[1:]
	}
	return out
}

// unionAll returns the addresses in any of the sets.
func unionAll(sets []Set) Set {
	switch len(sets) {
	case 0:
		return Set{}
	case 1:
		return sets[0]
	case 2:
		return sets[0].Union(sets[1])
	}
	v4, v6 := 0, 0
	for _, s := range sets {
		v4, v6 = v4+len(s.v4), v6+len(s.v6)
	}
	out := Set{make([]span, 0, v4), make([]span, 0, v6)}
	for _, s := range sets {
		out.v4, out.v6 = append(out.v4, s.v4...), append(out.v6, s.v6...)
	}
	return out.normal()
}

// Intersect returns the addresses in both.
func (s Set) Intersect(o Set) Set { return Set{intersect(s.v4, o.v4), intersect(s.v6, o.v6)} }

func intersect(a, b []span) []span {
	if len(a) > len(b) {
		a, b = b, a
	}
	switch {
	case len(a) == 0:
		return nil
	case len(b) == 1 && !a[0].from.less(b[0].from) && !b[0].to.less(a[len(a)-1].to):
		return a
	case len(a) == 1 && !b[0].from.less(a[0].from) && !a[0].to.less(b[len(b)-1].to):
		return b
	}
	out := make([]span, 0, len(a))
	sparse := len(b) > 16*len(a)
	j := reaching(b, a[0].from)
	for _, r := range a {
		if sparse {
			j = reaching(b, r.from)
		}
		for ; j < len(b) && !r.to.less(b[j].from); j++ {
			from, to := r.from, r.to
			if from.less(b[j].from) {
				from = b[j].from
			}
			if b[j].to.less(to) {
				to = b[j].to
			}
			if !to.less(from) {
				out = append(out, span{from, to})
			}
			if r.to.less(b[j].to) {
				break // it may reach into the next range too
			}
		}
	}
	return out
}

// Minus returns the addresses in s that are not in o.
func (s Set) Minus(o Set) Set { return Set{subtract(s.v4, o.v4), subtract(s.v6, o.v6)} }

func subtract(a, b []span) []span {
	if len(a) == 0 || len(b) == 0 || b[len(b)-1].to.less(a[0].from) || a[len(a)-1].to.less(b[0].from) {
		return a
	}
	out := make([]span, 0, len(a))
	j := reaching(b, a[0].from)
	sparse := len(b) > 16*len(a)
	for _, r := range a {
		from, open := r.from, true
		if sparse {
			j = reaching(b, from)
		}
		for ; j < len(b); j++ {
			cut := b[j]
			if cut.to.less(from) {
				continue
			}
			if r.to.less(cut.from) {
				break
			}
			if from.less(cut.from) {
				out = append(out, span{from, cut.from.prev()})
			}
			if !cut.to.less(r.to) {
				open = false
				break // it may reach into the next range too
			}
			from = cut.to.next()
		}
		if open {
			out = append(out, span{from, r.to})
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Within reports whether every address of s is in o.
func (s Set) Within(o Set) bool { return within(s.v4, o.v4) && within(s.v6, o.v6) }

// withinEither reports whether every address of s is in x or in y.
func (s Set) withinEither(x, y Set) bool { return s.Within(x) || s.Within(y) || s.Minus(x).Within(y) }

func within(a, b []span) bool {
	for _, r := range a {
		i := reaching(b, r.from)
		if i == len(b) || r.from.less(b[i].from) || b[i].to.less(r.to) {
			return false
		}
		b = b[i:]
	}
	return true
}

// Overlaps reports whether the sets have an address in common.
func (s Set) Overlaps(o Set) bool { return overlap(s.v4, o.v4) || overlap(s.v6, o.v6) }

func overlap(a, b []span) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	for _, r := range a {
		i := reaching(b, r.from)
		if i == len(b) {
			return false
		}
		if !r.to.less(b[i].from) {
			return true
		}
		b = b[i:]
	}
	return false
}

// Prefixes returns the smallest list of prefixes that is exactly the set, sorted.
func (s Set) Prefixes() []netip.Prefix {
	var out []netip.Prefix
	for _, r := range s.v4 {
		out = appendPrefixes(out, r, 32)
	}
	for _, r := range s.v6 {
		out = appendPrefixes(out, r, 128)
	}
	return out
}

func appendPrefixes(out []netip.Prefix, r span, width int) []netip.Prefix {
	for from := r.from; ; {
		// The largest aligned block that starts at from and does not reach beyond to.
		size := min(from.trailingZeros(), width)
		for size > 0 && r.to.less(from.or(mask128(128-size))) {
			size--
		}
		out = append(out, netip.PrefixFrom(from.sized(width), width-size))
		end := from.or(mask128(128 - size))
		if !end.less(r.to) {
			return out
		}
		from = end.next()
	}
}
