package plan

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

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

func (v u128) compare(o u128) int {
	switch {
	case v.less(o):
		return -1
	case o.less(v):
		return 1
	}
	return 0
}

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

func (v u128) prev() u128 {
	lo, borrow := bits.Sub64(v.lo, 1, 0)
	return u128{v.hi - borrow, lo}
}

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
