package nft

import (
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// neverRouted is the hop limit of what no router has passed on, and onLink that of what none will.
const (
	neverRouted = 255
	onLink      = 1
)

// linkLocal are the addresses from which routers ask on a link; multicast those of groups.
var (
	linkLocal = Range{netip.MustParseAddr("fe80::"), netip.MustParseAddr("febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff")}
	multicast = Range{netip.MustParseAddr("224.0.0.0"), netip.MustParseAddr("239.255.255.255")}
)

// keepsLink are rules that let pass without which a host loses its network whatever it is allowed:
// neighbour discovery (RFC 4861), and what a host and routers say of groups of multicast on their
// link: MLD (RFC 3810), the discovery of multicast routers (RFC 4286), and unless policies are
// about that, IGMP (RFC 3376). A switch that listens to it brings a host nothing of groups that the
// host does not report, and neighbour discovery comes to such.
func keepsLink(d Direction, igmp bool) []Rule {
	rules := []Rule{{Matches: []Match{{Kind: MatchNeighbour}}, Action: Accept}}
	for _, types := range [][2]uint16{{130, 132}, {143, 143}, {151, 153}} {
		m := []Match{{Kind: MatchFamily, Lo: uint16(IPv6)}, {Kind: MatchProtocol, Lo: uint16(ICMPv6)},
			{Kind: MatchType, Lo: types[0], Hi: types[1]}, {Kind: MatchHopLimit, Lo: onLink}}
		if d == Ingress {
			m = append(m, Match{Kind: MatchPeer, Peer: &linkLocal, Source: true})
		}
		rules = append(rules, Rule{Matches: m, Action: Accept})
	}
	if igmp {
		rules = append(rules, Rule{Action: Accept, Matches: []Match{{Kind: MatchFamily, Lo: uint16(IPv4)}, {Kind: MatchProtocol, Lo: uint16(IGMP)},
			{Kind: MatchHopLimit, Lo: onLink}, {Kind: MatchPeer, Peer: &multicast}}})
	}
	return rules
}

// aboutIGMP reports whether a policy is about IGMP.
func aboutIGMP(p *v1beta2.NetworkPolicy) bool {
	return slices.ContainsFunc(p.Rules, func(r v1beta2.NetworkPolicyRule) bool {
		return slices.ContainsFunc(r.Services, func(s v1beta2.Service) bool { return s.Protocol != nil && *s.Protocol == v1beta2.ProtocolIGMP })
	})
}
