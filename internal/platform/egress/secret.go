package egress

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// secrets are where clouds tell machines their credentials: link-local addresses, which most of
// them use, and the others that are known. A rule lets no one there that is about more.
func secrets() []netip.Prefix {
	var out []netip.Prefix
	for _, text := range []string{
		"169.254.0.0/16", "fe80::/10",
		"fd00:ec2::/32",      // AWS
		"168.63.129.16/32",   // Azure
		"100.100.100.200/32", // Alibaba
		"fd20:ce::254/128",   // Google
		"192.0.0.192/32",     // Oracle
	} {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func secret(a netip.Addr) bool { return secretBits(a) > 0 }

// secretBits is how long the prefix of a rule must be to mean an address: as long as the range of
// secrets that it is in, or all of it where it represents one of IPv4 that is; 0 for others.
func secretBits(a netip.Addr) int {
	for _, p := range secrets() {
		if p.Contains(a) {
			return p.Bits()
		}
	}
	if slices.ContainsFunc(standsFor(a), func(four netip.Addr) bool {
		return slices.ContainsFunc(secrets(), func(p netip.Prefix) bool { return p.Contains(four) })
	}) {
		return a.BitLen()
	}
	return 0
}

// standsFor returns the addresses of IPv4 that one of IPv6 may lead to: of NAT64 behind its known
// prefixes, of 6to4, of Teredo, of ISATAP, and in the old form without a prefix. Behind any other
// prefix NAT64 may have been set up as well: there the best known address is looked for in every
// place where it may stand.
func standsFor(a netip.Addr) []netip.Addr {
	if !a.Is6() {
		return nil
	}
	raw := a.As16()
	four := func(at ...int) netip.Addr {
		return netip.AddrFrom4([4]byte{raw[at[0]], raw[at[1]], raw[at[2]], raw[at[3]]})
	}
	last := four(12, 13, 14, 15)
	var out []netip.Addr
	in := func(prefix string) bool { return netip.MustParsePrefix(prefix).Contains(a) }
	switch {
	case in("64:ff9b::/96"), in("::/96"):
		out = append(out, last)
	case in("2002::/16"):
		out = append(out, four(2, 3, 4, 5))
	case in("2001::/32"):
		client := binary.BigEndian.Uint32(raw[12:]) ^ 0xffffffff
		out = append(out, four(4, 5, 6, 7), netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, client))))
	}
	if binary.BigEndian.Uint32(raw[8:])&0xfdffffff == 0x5efe {
		out = append(out, last)
	}
	// By RFC 6052 the prefix has 32, 40, 48, 56, 64 or 96 bits, and the byte behind the first 64
	// bits is left out. Of whole ranges of addresses too much would be met by chance.
	for _, embedded := range []netip.Addr{four(4, 5, 6, 7), four(5, 6, 7, 9), four(6, 7, 9, 10), four(7, 9, 10, 11), four(9, 10, 11, 12), last} {
		if wellKnown(embedded) {
			out = append(out, embedded)
		}
	}
	return out
}

// wellKnown reports whether an address of IPv4 is one at which credentials are given out.
func wellKnown(a netip.Addr) bool {
	single := slices.ContainsFunc(secrets(), func(p netip.Prefix) bool { return p.IsSingleIP() && p.Contains(a) })
	return single || slices.Contains([]string{"169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.0.23"}, a.String())
}
