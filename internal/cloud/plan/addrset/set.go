// Package addrset is the arithmetic of sets of IP addresses: the union, intersection and difference
// that policies are flattened with, and the prefixes that rules are written with.
//
// It owns the one representation of such sets: sorted, disjoint, non-adjacent ranges per family, so
// that equal sets are equal value by value. Every operation takes time linear in the number of
// ranges, or less.
//
// Sets are values and never change after they were made; they may be shared and read concurrently.
// What a method returns as a slice belongs to the set and must not be written to.
package addrset

import (
	"net/netip"
	"slices"
)

// Set is a set of IP addresses, IPv4 and IPv6 in one. The zero value is the empty set. Addresses
// have no zone, and IPv4 is never in its IPv6-mapped form.
type Set struct {
	v4, v6 Ranges
	hash   uint64 // see Hash; 0 if it is not known
}

// made is a set of ranges that nobody writes to any more.
func made(v4, v6 Ranges) Set {
	s := Set{v4: v4, v6: v6}
	s.hash = s.Hash()
	return s
}

// Range is an inclusive range of addresses of one family.
type Range struct{ From, To Number }

// Ranges are ranges of one family, sorted, disjoint and not adjacent.
type Ranges []Range

var (
	everyV4 = Ranges{{Number{}, Number{0, 0xffffffff}}}
	everyV6 = Ranges{{Number{}, Number{^uint64(0), ^uint64(0)}}}
)

// All returns the set of all addresses.
func All() Set { return made(everyV4, everyV6) }

// AllIPv4 returns the set of all IPv4 addresses.
func AllIPv4() Set { return made(everyV4, nil) }

// AllIPv6 returns the set of all IPv6 addresses.
func AllIPv6() Set { return made(nil, everyV6) }

// IPv4 returns the IPv4 part of the set.
func (s Set) IPv4() Ranges { return s.v4 }

// IPv6 returns the IPv6 part of the set.
func (s Set) IPv6() Ranges { return s.v6 }

// Len is the number of ranges of the set, which is what operations on it cost.
func (s Set) Len() int { return len(s.v4) + len(s.v6) }

// Of returns the set of the given addresses. Invalid ones are left out.
func Of(addrs ...netip.Addr) Set {
	v4 := 0
	for _, a := range addrs {
		if a.Is4() || a.Is4In6() {
			v4++
		}
	}
	s := Set{v4: make(Ranges, 0, v4)}
	if v4 < len(addrs) {
		s.v6 = make(Ranges, 0, len(addrs)-v4)
	}
	for _, a := range addrs {
		if a.IsValid() {
			a = a.Unmap()
			s.add(a, Range{numberOf(a), numberOf(a)})
		}
	}
	return s.normal()
}

// OfRanges returns the union of the ranges of both families. It keeps neither slice.
func OfRanges(v4, v6 []Range) Set {
	return Set{v4: slices.Clone(v4), v6: slices.Clone(v6)}.normal()
}

// RangeOf returns the addresses of a prefix as a range of its family; host bits are ignored.
func RangeOf(p netip.Prefix) Range {
	from := numberOf(p.Masked().Addr())
	return Range{from, from.or(lowest(p.Addr().BitLen() - p.Bits()))}
}

// OfPrefixes returns the union of the prefixes; host bits are ignored, and invalid prefixes are
// left out.
func OfPrefixes(prefixes ...netip.Prefix) Set {
	var s Set
	for _, p := range prefixes {
		if !p.IsValid() {
			continue
		}
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		s.add(p.Addr(), RangeOf(p))
	}
	return s.normal()
}

// add appends a range of the family of a.
func (s *Set) add(a netip.Addr, r Range) {
	if a.Is4() {
		s.v4 = append(s.v4, r)
	} else {
		s.v6 = append(s.v6, r)
	}
}

// normal sorts and merges; it reuses the slices.
func (s Set) normal() Set { return made(normalize(s.v4), normalize(s.v6)) }

func normalize(ranges Ranges) Ranges {
	if len(ranges) < 2 {
		return ranges
	}
	slices.SortFunc(ranges, func(a, b Range) int { return a.From.Compare(b.From) })
	out := ranges[:1]
	for _, r := range ranges[1:] {
		out = appendRange(out, r)
	}
	return out
}

// appendRange appends a range that does not start before the last one, and merges the two if they
// touch.
func appendRange(out Ranges, r Range) Ranges {
	if len(out) == 0 {
		return append(out, r)
	}
	last := &out[len(out)-1]
	if last.To.Less(r.From) && last.To.Next() != r.From {
		return append(out, r)
	}
	if last.To.Less(r.To) {
		last.To = r.To
	}
	return out
}

// Empty reports whether the set has no address.
func (s Set) Empty() bool { return len(s.v4) == 0 && len(s.v6) == 0 }

// Equal reports whether both sets hold the same addresses.
func (s Set) Equal(o Set) bool { return s.v4.equal(o.v4) && s.v6.equal(o.v6) }

func (r Ranges) equal(o Ranges) bool {
	return len(r) == len(o) && (len(r) == 0 || &r[0] == &o[0] || slices.Equal(r, o))
}

// Hash is equal for equal sets, and the same in every process.
func (s Set) Hash() uint64 {
	if s.hash != 0 {
		return s.hash
	}
	h := uint64(14695981039346656037)
	mix := func(x uint64) { h = (h ^ x) * 1099511628211; h ^= h >> 29 }
	for _, r := range s.v4 {
		mix(r.From.lo)
		mix(r.To.lo)
	}
	mix(^uint64(0))
	for _, r := range s.v6 {
		mix(r.From.hi)
		mix(r.From.lo)
		mix(r.To.hi)
		mix(r.To.lo)
	}
	return h
}

// family returns the ranges of the family of a.
func (s Set) family(a netip.Addr) Ranges {
	if a.Is4() {
		return s.v4
	}
	return s.v6
}

// Contains reports whether the address is in the set.
func (s Set) Contains(a netip.Addr) bool {
	a = a.Unmap()
	return s.family(a).Contains(numberOf(a))
}

// Contains reports whether the address is in one of the ranges.
func (a Ranges) Contains(n Number) bool {
	i := a.reaching(n)
	return i < len(a) && !n.Less(a[i].From)
}

// reaching returns the index of the first range that does not end before n.
func (a Ranges) reaching(n Number) int {
	low, high := 0, 1
	for high < len(a) && a[high-1].To.Less(n) { // mostly near, in a walk along two sets
		low, high = high, 2*high
	}
	for high = min(high, len(a)); low < high; {
		if middle := (low + high) / 2; a[middle].To.Less(n) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// Union returns the addresses in s or in o.
func (s Set) Union(o Set) Set { return made(unite(s.v4, o.v4), unite(s.v6, o.v6)) }

func unite(a, b Ranges) Ranges {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	out := make(Ranges, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		if len(b) == 0 || len(a) > 0 && a[0].From.Less(b[0].From) {
			a, b = b, a
		}
		out = appendRange(out, b[0])
		b = b[1:]
	}
	return out
}

// Union returns the addresses in any of the sets.
func Union(sets ...Set) Set {
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
	out := Set{v4: make(Ranges, 0, v4), v6: make(Ranges, 0, v6)}
	for _, s := range sets {
		out.v4, out.v6 = append(out.v4, s.v4...), append(out.v6, s.v6...)
	}
	return out.normal()
}

// Intersect returns the addresses in both.
func (s Set) Intersect(o Set) Set { return made(intersect(s.v4, o.v4), intersect(s.v6, o.v6)) }

func intersect(a, b Ranges) Ranges {
	if len(a) > len(b) {
		a, b = b, a
	}
	switch {
	case len(a) == 0:
		return nil
	case len(b) == 1 && !a[0].From.Less(b[0].From) && !b[0].To.Less(a[len(a)-1].To):
		return a
	case len(a) == 1 && !b[0].From.Less(a[0].From) && !a[0].To.Less(b[len(b)-1].To):
		return b
	}
	out := make(Ranges, 0, len(a))
	sparse := len(b) > 16*len(a)
	j := b.reaching(a[0].From)
	for _, r := range a {
		if sparse {
			j = b.reaching(r.From)
		}
		for ; j < len(b) && !r.To.Less(b[j].From); j++ {
			from, to := r.From, r.To
			if from.Less(b[j].From) {
				from = b[j].From
			}
			if b[j].To.Less(to) {
				to = b[j].To
			}
			if !to.Less(from) {
				out = append(out, Range{from, to})
			}
			if r.To.Less(b[j].To) {
				break // it may reach into the next range too
			}
		}
	}
	return out
}

// Minus returns the addresses in s that are not in o.
func (s Set) Minus(o Set) Set { return made(s.v4.Minus(o.v4), s.v6.Minus(o.v6)) }

// Minus returns the numbers of a that are not in b.
func (a Ranges) Minus(b Ranges) Ranges {
	if len(a) == 0 || len(b) == 0 || b[len(b)-1].To.Less(a[0].From) || a[len(a)-1].To.Less(b[0].From) {
		return a
	}
	out := make(Ranges, 0, len(a))
	j := b.reaching(a[0].From)
	sparse := len(b) > 16*len(a)
	for _, r := range a {
		from, open := r.From, true
		if sparse {
			j = b.reaching(from)
		}
		for ; j < len(b); j++ {
			cut := b[j]
			if cut.To.Less(from) {
				continue
			}
			if r.To.Less(cut.From) {
				break
			}
			if from.Less(cut.From) {
				out = append(out, Range{from, cut.From.Prev()})
			}
			if !cut.To.Less(r.To) {
				open = false
				break // it may reach into the next range too
			}
			from = cut.To.Next()
		}
		if open {
			out = append(out, Range{from, r.To})
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Within reports whether every address of s is in o.
func (s Set) Within(o Set) bool { return s.v4.Within(o.v4) && s.v6.Within(o.v6) }

// Within reports whether every number of a is in b.
func (a Ranges) Within(b Ranges) bool {
	for _, r := range a {
		i := b.reaching(r.From)
		if i == len(b) || r.From.Less(b[i].From) || b[i].To.Less(r.To) {
			return false
		}
		b = b[i:]
	}
	return true
}

// Overlaps reports whether the sets have an address in common.
func (s Set) Overlaps(o Set) bool { return overlap(s.v4, o.v4) || overlap(s.v6, o.v6) }

// OverlapIn reports whether they have an IPv4 and an IPv6 address in common.
func (s Set) OverlapIn(o Set) (v4, v6 bool) { return overlap(s.v4, o.v4), overlap(s.v6, o.v6) }

func overlap(a, b Ranges) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	for _, r := range a {
		i := b.reaching(r.From)
		if i == len(b) {
			return false
		}
		if !r.To.Less(b[i].From) {
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

func appendPrefixes(out []netip.Prefix, r Range, width int) []netip.Prefix {
	for from := r.From; ; {
		// The largest aligned block that starts at from and does not reach beyond to.
		size := min(from.trailingZeros(), width)
		for size > 0 && r.To.Less(from.or(lowest(size))) {
			size--
		}
		out = append(out, netip.PrefixFrom(from.sized(width), width-size))
		end := from.or(lowest(size))
		if !end.Less(r.To) {
			return out
		}
		from = end.Next()
	}
}
