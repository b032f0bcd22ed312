package addrset

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// Number is an address as a number. Whether it is one of IPv4 or of IPv6 is for the holder to know.
type Number struct{ hi, lo uint64 }

func numberOf(a netip.Addr) Number {
	if a.Is4() {
		b := a.As4()
		return Number{0, uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	return Number{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// lowest has the n lowest bits set.
func lowest(n int) Number {
	switch {
	case n <= 0:
		return Number{}
	case n <= 64:
		return Number{0, ^uint64(0) >> (64 - n)}
	default:
		return Number{^uint64(0) >> (128 - n), ^uint64(0)}
	}
}

func (v Number) or(o Number) Number { return Number{v.hi | o.hi, v.lo | o.lo} }

// Less reports whether v is lower than o.
func (v Number) Less(o Number) bool { return v.hi < o.hi || v.hi == o.hi && v.lo < o.lo }

// Compare is -1, 0 or 1 where v is lower than o, o itself, or higher.
func (v Number) Compare(o Number) int {
	switch {
	case v.Less(o):
		return -1
	case o.Less(v):
		return 1
	}
	return 0
}

func (v Number) trailingZeros() int {
	if v.lo != 0 {
		return bits.TrailingZeros64(v.lo)
	}
	return 64 + bits.TrailingZeros64(v.hi)
}

// Next is the number after v. The one after the highest is 0.
func (v Number) Next() Number {
	lo, carry := bits.Add64(v.lo, 1, 0)
	return Number{v.hi + carry, lo}
}

// Prev is the number before v.
func (v Number) Prev() Number {
	lo, borrow := bits.Sub64(v.lo, 1, 0)
	return Number{v.hi - borrow, lo}
}

func (v Number) sized(width int) netip.Addr {
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
