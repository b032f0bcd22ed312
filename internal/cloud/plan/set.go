package plan

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
)

// Set is a set of IP addresses, IPv4 and IPv6 in one. It is kept as sorted, disjoint, non-adjacent ranges and is never changed
// after it was made; the zero value is the empty set. Addresses have no zone and IPv4 is never in its IPv6-mapped form.
type Set struct{ ranges []addrRange }

// addrRange is an inclusive range within one address family.
type addrRange struct{ from, to netip.Addr }

var (
	firstV4 = netip.AddrFrom4([4]byte{})
	lastV4  = netip.AddrFrom4([4]byte{255, 255, 255, 255})
	firstV6 = netip.IPv6Unspecified()
	lastV6  = netip.AddrFrom16([16]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255})
)

// Everything returns the set of all addresses.
func Everything() Set { return Set{[]addrRange{{firstV4, lastV4}, {firstV6, lastV6}}} }

// familyOf returns the addresses that packets of the protocol can have: ICMP is IPv4 only, ICMPv6 is IPv6 only.
func familyOf(protocol int) Set {
	switch protocol {
	case 1:
		return Set{[]addrRange{{firstV4, lastV4}}}
	case 58:
		return Set{[]addrRange{{firstV6, lastV6}}}
	default:
		return Everything()
	}
}

// SetOf returns the set of the given addresses.
func SetOf(addrs ...netip.Addr) Set {
	ranges := make([]addrRange, 0, len(addrs))
	for _, a := range addrs {
		if a.IsValid() {
			a = a.Unmap().WithZone("")
			ranges = append(ranges, addrRange{a, a})
		}
	}
	return normalize(ranges)
}

// SetOfPrefixes returns the union of the prefixes; host bits are ignored.
func SetOfPrefixes(prefixes ...netip.Prefix) Set {
	ranges := make([]addrRange, 0, len(prefixes))
	for _, p := range prefixes {
		if p.IsValid() {
			ranges = append(ranges, rangeOf(p))
		}
	}
	return normalize(ranges)
}

func rangeOf(p netip.Prefix) addrRange {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	p = p.Masked()
	return addrRange{p.Addr(), lastOf(p)}
}

func lastOf(p netip.Prefix) netip.Addr {
	if p.Addr().Is4() {
		b := p.Addr().As4()
		v := binary.BigEndian.Uint32(b[:]) | uint32(uint64(0xffffffff)>>p.Bits())
		binary.BigEndian.PutUint32(b[:], v)
		return netip.AddrFrom4(b)
	}
	v := toU128(p.Addr()).or(mask128(p.Bits()))
	return v.addr()
}

// normalize sorts and merges; it reuses the slice.
func normalize(ranges []addrRange) Set {
	if len(ranges) < 2 {
		return Set{ranges}
	}
	slices.SortFunc(ranges, func(a, b addrRange) int { return a.from.Compare(b.from) })
	out := ranges[:1]
	for _, r := range ranges[1:] {
		last := &out[len(out)-1]
		if last.from.BitLen() == r.from.BitLen() && (r.from.Compare(last.to) <= 0 || last.to.Next() == r.from) {
			if r.to.Compare(last.to) > 0 {
				last.to = r.to
			}
			continue
		}
		out = append(out, r)
	}
	return Set{out}
}

// Empty reports whether the set has no address.
func (s Set) Empty() bool { return len(s.ranges) == 0 }

// Equal reports whether both sets hold the same addresses.
func (s Set) Equal(o Set) bool { return slices.Equal(s.ranges, o.ranges) }

// Contains reports whether the address is in the set.
func (s Set) Contains(a netip.Addr) bool {
	a = a.Unmap()
	i, ok := slices.BinarySearchFunc(s.ranges, a, func(r addrRange, a netip.Addr) int { return r.from.Compare(a) })
	return ok || i > 0 && s.ranges[i-1].to.Compare(a) >= 0
}

// Union returns the addresses in s or in o.
func (s Set) Union(o Set) Set {
	switch {
	case s.Empty():
		return o
	case o.Empty():
		return s
	}
	return normalize(slices.Concat(s.ranges, o.ranges))
}

// Intersect returns the addresses in both.
func (s Set) Intersect(o Set) Set {
	var out []addrRange
	for i, j := 0, 0; i < len(s.ranges) && j < len(o.ranges); {
		a, b := s.ranges[i], o.ranges[j]
		from, to := a.from, a.to
		if b.from.Compare(from) > 0 {
			from = b.from
		}
		if b.to.Compare(to) < 0 {
			to = b.to
		}
		if from.Compare(to) <= 0 {
			out = append(out, addrRange{from, to})
		}
		if a.to.Compare(b.to) < 0 {
			i++
		} else {
			j++
		}
	}
	return Set{out}
}

// Minus returns the addresses in s that are not in o.
func (s Set) Minus(o Set) Set {
	if s.Empty() || o.Empty() {
		return s
	}
	var out []addrRange
	j := 0
	for _, r := range s.ranges {
		from, open := r.from, true
		for j > 0 && o.ranges[j-1].to.Compare(from) >= 0 {
			j--
		}
		for ; j < len(o.ranges); j++ {
			cut := o.ranges[j]
			if cut.to.Compare(from) < 0 {
				continue
			}
			if cut.from.Compare(r.to) > 0 {
				break
			}
			if cut.from.Compare(from) > 0 {
				out = append(out, addrRange{from, cut.from.Prev()})
			}
			if cut.to.Compare(r.to) >= 0 {
				open = false
				break
			}
			from = cut.to.Next()
		}
		if open {
			out = append(out, addrRange{from, r.to})
		}
	}
	return Set{out}
}

// Within reports whether every address of s is in o.
func (s Set) Within(o Set) bool {
	for _, r := range s.ranges {
		i, ok := slices.BinarySearchFunc(o.ranges, r.from, func(x addrRange, a netip.Addr) int { return x.from.Compare(a) })
		if !ok {
			i--
		}
		if i < 0 || o.ranges[i].to.Compare(r.to) < 0 {
			return false
		}
	}
	return true
}

// Overlaps reports whether the sets have an address in common.
func (s Set) Overlaps(o Set) bool {
	if len(s.ranges) > len(o.ranges) {
		s, o = o, s
	}
	for _, r := range s.ranges {
		i, ok := slices.BinarySearchFunc(o.ranges, r.from, func(x addrRange, a netip.Addr) int { return x.from.Compare(a) })
		if ok || i > 0 && o.ranges[i-1].to.Compare(r.from) >= 0 || i < len(o.ranges) && o.ranges[i].from.Compare(r.to) <= 0 {
			return true
		}
	}
	return false
}

// Prefixes returns the smallest list of prefixes that is exactly the set, sorted.
func (s Set) Prefixes() []netip.Prefix {
	var out []netip.Prefix
	for _, r := range s.ranges {
		out = appendPrefixes(out, r)
	}
	return out
}

func appendPrefixes(out []netip.Prefix, r addrRange) []netip.Prefix {
	width := r.from.BitLen()
	from, to := toU128(r.from), toU128(r.to)
	for {
		// The largest aligned block that starts at from and does not reach beyond to.
		size := min(from.trailingZeros(), width)
		for size > 0 && to.less(from.or(mask128(128-size))) {
			size--
		}
		out = append(out, netip.PrefixFrom(from.sized(width), width-size))
		end := from.or(mask128(128 - size))
		if !end.less(to) {
			return out
		}
		from = end.next()
	}
}

// u128 is an address as a number.
type u128 struct{ hi, lo uint64 }

func toU128(a netip.Addr) u128 {
	if a.Is4() {
		b := a.As4()
		return u128{0, uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	return u128{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// mask128 has the lowest 128-n bits set.
func mask128(n int) u128 {
	switch {
	case n >= 128:
		return u128{}
	case n >= 64:
		return u128{0, ^uint64(0) >> (n - 64)}
	default:
		return u128{^uint64(0) >> n, ^uint64(0)}
	}
}

func (v u128) or(o u128) u128   { return u128{v.hi | o.hi, v.lo | o.lo} }
func (v u128) less(o u128) bool { return v.hi < o.hi || v.hi == o.hi && v.lo < o.lo }
func (v u128) trailingZeros() int {
	if v.lo != 0 {
		return bits.TrailingZeros64(v.lo)
	}
	return 64 + bits.TrailingZeros64(v.hi)
}

func (v u128) next() u128 {
	lo, carry := bits.Add64(v.lo, 1, 0)
	return u128{v.hi + carry, lo}
}

func (v u128) addr() netip.Addr { return v.sized(128) }

func (v u128) sized(width int) netip.Addr {
	if width == 32 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(v.lo))
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], v.hi)
	binary.BigEndian.PutUint64(b[8:], v.lo)
	return netip.AddrFrom16(b)
}
