package convert

import (
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/policy"
)

// Effective returns the networks that together are a block less its exceptions, in order. A block
// without exceptions is returned as written.
func Effective(b policy.CIDRBlock) []v1beta2.IPNet {
	if len(b.Except) == 0 {
		return []v1beta2.IPNet{prefix(b.CIDR)}
	}
	var out []v1beta2.IPNet
	for _, p := range remaining(b.CIDR.Masked(), b.Except) {
		out = append(out, prefix(p))
	}
	return out
}

// remaining returns what is left of p, halving what is excepted in part.
func remaining(p netip.Prefix, except []netip.Prefix) []netip.Prefix {
	inside := slices.DeleteFunc(slices.Clone(except), func(e netip.Prefix) bool { return !e.Overlaps(p) })
	switch {
	case len(inside) == 0:
		return []netip.Prefix{p}
	case slices.ContainsFunc(inside, func(e netip.Prefix) bool { return e.Bits() <= p.Bits() }):
		return nil
	}
	low, high := halves(p)
	return append(remaining(low, inside), remaining(high, inside)...)
}

func halves(p netip.Prefix) (low, high netip.Prefix) {
	bytes := p.Addr().AsSlice()
	bytes[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	upper, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(p.Addr(), p.Bits()+1), netip.PrefixFrom(upper, p.Bits()+1)
}
