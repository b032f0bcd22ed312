package flow

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
)

// keptProtocols are the IP protocols that are kept apart from one another where a rule takes some
// traffic out of what "all protocols" allowed: those that policies can name, and those by which
// hosts in a cloud network tunnel, encrypt or route (IANA protocol numbers: IGMP, IPv4 and IPv6
// encapsulation, GRE, ESP, AH, EIGRP, OSPF, EtherIP, PIM, VRRP, L2TP, SCTP, UDP-Lite, MPLS-in-IP).
var keptProtocols = [...]int{cloud.ICMP, 2, 4, cloud.TCP, cloud.UDP, 41, 47, 50, 51, cloud.ICMPv6, 88, 89, 97, 103, 112, 115, cloud.SCTP, 136, 137}

// KeptProtocols are the protocols that stay open where CollapseProtocols closes the others.
func KeptProtocols() []int { return slices.Clone(keptProtocols[:]) }

// Keeps reports whether a protocol, or a type and code of ICMP or ICMPv6 (type*256+code), stays
// open where others are taken out of all of them.
func Keeps(protocol int, at uint16) bool {
	if types, icmp := keptTypes[protocol]; icmp {
		return int(at&0xff) < types[int(at>>8)]
	}
	return slices.Contains(keptProtocols[:], protocol)
}

// CollapseProtocols returns the permit in a form that rules can express without naming every one of
// the 256 protocols. Addresses that may use everything keep "all protocols"; for all others, of the
// protocols without a grant of their own only the kept ones stay allowed. The result allows nothing
// that p does not. It equals p where no rule of a policy tells protocols apart.
func (p Permit) CollapseProtocols() Permit {
	last := len(p.Grants) - 1
	if last <= 0 {
		return p
	}
	rest := common(p.Grants)
	if rest.allowsAs(p.Grants[last]) {
		return p
	}
	out := Permit{Grants: slices.Clone(p.Grants[:last]), Reduced: true}
	for _, protocol := range keptProtocols {
		if !p.tellsApart(protocol) {
			out.Grants = append(out.Grants, p.At(Whole(protocol)))
		}
	}
	slices.SortFunc(out.Grants, func(a, b Grant) int { return a.Service.Compare(b.Service) })
	out.Grants = append(out.Grants, rest)
	return out
}

// common is the last of some grants with nothing but what all of them allow, as far as they are
// about addresses of the same family.
func common(grants []Grant) Grant {
	last := len(grants) - 1
	out := grants[last]
	for _, g := range grants[:last] {
		beyond := addrset.All().Minus(Family(g.Service.Protocol))
		out.All = out.All.Intersect(g.All.Union(beyond))
		out.Opaque = inBoth(out.Opaque, g.Opaque)
	}
	return grants[last].only(out)
}

// allowsAs reports whether a grant allows what another one does. The addresses that it allows
// without any membership may differ.
func (c Grant) allowsAs(o Grant) bool { return c.All.Equal(o.All) && slices.Equal(c.Opaque, o.Opaque) }

// only is the grant with nothing but what another one allows, which is a part of it.
func (c Grant) only(o Grant) Grant {
	c = c.within(o.All)
	c.Opaque = o.Opaque
	return c
}
