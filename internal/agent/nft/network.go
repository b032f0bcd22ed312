package nft

import (
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// onLink is the hop limit of a packet that no router will pass on.
const onLink = 1

// linkLocal are the addresses from which routers ask on a link; multicast the addresses of groups.
var (
	linkLocal = ruleset.Range{From: netip.MustParseAddr("fe80::"), To: netip.MustParseAddr("febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff")}
	multicast = ruleset.Range{From: netip.MustParseAddr("224.0.0.0"), To: netip.MustParseAddr("239.255.255.255")}
)

// keepsLink are rules of a family that let pass without which a host loses its network whatever it
// is allowed. For IPv6: neighbour discovery (RFC 4861), and what a host and routers say of groups
// of multicast on their link, by MLD (RFC 3810) and the discovery of multicast routers (RFC 4286).
// For IPv4, unless policies are about that: IGMP (RFC 3376). A switch that listens to it brings a
// host nothing of groups that the host does not report, and neighbour discovery comes to such.
func keepsLink(f ruleset.Family, d ruleset.Direction, igmp bool) (rules []ruleset.Rule) {
	if f == ruleset.IPv4 {
		if igmp {
			rules = append(rules, ruleset.Rule{Action: ruleset.Accept,
				Matches: []ruleset.Match{{Kind: ruleset.MatchFamily, Lo: uint16(ruleset.IPv4)}, {Kind: ruleset.MatchProtocol, Lo: uint16(ruleset.IGMP)},
					{Kind: ruleset.MatchHopLimit, Lo: onLink}, {Kind: ruleset.MatchPeer, Peer: &multicast}}})
		}
		return rules
	}
	rules = append(rules, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchNeighbour}}, Action: ruleset.Accept})
	for _, types := range [][2]uint16{{130, 132}, {143, 143}, {151, 153}} {
		m := []ruleset.Match{{Kind: ruleset.MatchFamily, Lo: uint16(ruleset.IPv6)}, {Kind: ruleset.MatchProtocol, Lo: uint16(ruleset.ICMPv6)},
			{Kind: ruleset.MatchType, Lo: types[0], Hi: types[1]}, {Kind: ruleset.MatchHopLimit, Lo: onLink}}
		if d == ruleset.Ingress {
			m = append(m, ruleset.Match{Kind: ruleset.MatchPeer, Peer: &linkLocal, Source: true})
		}
		rules = append(rules, ruleset.Rule{Matches: m, Action: ruleset.Accept})
	}
	return rules
}

// aboutIGMP reports whether a policy is about IGMP.
func aboutIGMP(p *v1beta2.NetworkPolicy) bool {
	return slices.ContainsFunc(p.Rules, func(r v1beta2.NetworkPolicyRule) bool {
		return slices.ContainsFunc(r.Services, func(s v1beta2.Service) bool { return s.Protocol != nil && *s.Protocol == v1beta2.ProtocolIGMP })
	})
}
