package plan

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// told are the IP protocols that are kept apart from one another where a rule takes some traffic out of what "all protocols" allowed:
// those that policies can name, and those by which hosts in a cloud network tunnel, encrypt or route (IANA protocol numbers: IGMP,
// IPv4 and IPv6 encapsulation, GRE, ESP, AH, EIGRP, OSPF, EtherIP, PIM, VRRP, L2TP, SCTP, UDP-Lite, MPLS-in-IP).
var told = [...]int{cloud.ICMP, 2, 4, cloud.TCP, cloud.UDP, 41, 47, 50, 51, cloud.ICMPv6, 88, 89, 97, 103, 112, 115, cloud.SCTP, 136, 137}

// thrifty returns the half in a form that rules can express without naming every one of the 256 protocols. Addresses that may use
// everything keep "all protocols"; for all others, of the protocols without a cell of their own only the told ones stay allowed.
// The result allows nothing that h does not. It equals h where no rule of a policy tells protocols apart.
func (h half) thrifty() half {
	last := len(h.cells) - 1
	if last <= 0 {
		return h
	}
	rest := h.cells[last]
	common := halfCell{service: rest.service, all: rest.all, opaque: rest.opaque}
	named := map[int]bool{}
	for _, c := range h.cells[:last] {
		common.all = common.all.Intersect(c.all.Union(Everything().Minus(familyOf(c.service.Protocol))))
		common.opaque = slices.DeleteFunc(slices.Clone(common.opaque), func(p cloud.Peer) bool { return !slices.Contains(c.opaque, p) })
		named[c.service.Protocol] = true
	}
	if common.all.Equal(rest.all) && len(common.opaque) == len(rest.opaque) {
		return h
	}
	common.anonymous, common.plain = rest.anonymous.Intersect(common.all), rest.plain.Intersect(common.all)
	out := half{cells: slices.Clone(h.cells[:last]), reduced: true}
	for _, protocol := range told {
		if named[protocol] {
			continue
		}
		family := familyOf(protocol)
		out.cells = append(out.cells, halfCell{
			service: Service{protocol, 0, 0xffff}, opaque: rest.opaque,
			all: rest.all.Intersect(family), anonymous: rest.anonymous.Intersect(family), plain: rest.plain.Intersect(family),
		})
	}
	slices.SortFunc(out.cells, func(a, b halfCell) int { return compareServices(a.service, b.service) })
	out.cells = append(out.cells, common)
	return out
}
