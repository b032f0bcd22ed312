package nft

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// rule makes the rules of the kernel for one of a policy: one for each combination of a peer and a
// service.
func (l *lane) rule(policy *policyParts, r *v1beta2.NetworkPolicyRule, origin *Origin) []Rule {
	if r.Action == nil {
		return nil // it only isolates
	}
	peer := &r.From
	if l.direction == Egress {
		peer = &r.To
	}
	services, named := l.services(r.Services)
	var out []Rule
	var told *Origin
	denies := *r.Action == v1beta2.RuleActionDrop || *r.Action == v1beta2.RuleActionReject
	if r.EnableLogging || l.LogDenied && denies {
		o := *origin
		o.Logged = Logged{l.direction, *r.Action, r.LogLabel, !r.EnableLogging}
		told = &o
	}
	add := func(m []Match) {
		if told != nil {
			out = append(out, Rule{Matches: m, Action: Log, Origin: told})
		}
		out = append(out, l.act(m, *r.Action, policy.stage, origin)...)
	}
	for _, p := range l.peers(peer) {
		for _, s := range services {
			add(slices.Concat(s, p))
		}
	}
	for _, s := range named { // of the peer's members, which so are peers
		for _, group := range peer.AddressGroups {
			m := slices.Clone(s.matches)
			key := l.namedPort(group, s.name)
			m = append(m, Match{Kind: MatchNamedPort, Of: key, Source: l.direction == Ingress})
			add(m)
		}
	}
	return out
}

// act makes the rules that act on what matches.
func (l *lane) act(m []Match, action v1beta2.RuleAction, stage int, origin *Origin) []Rule {
	one := func(a Action, target string) []Rule {
		return []Rule{{Matches: m, Action: a, Target: target, Origin: origin}}
	}
	switch action {
	case v1beta2.RuleActionAllow:
		return one(Accept, "")
	case v1beta2.RuleActionDrop:
		return one(Drop, "")
	case v1beta2.RuleActionPass:
		if stage == 2 {
			return one(Goto, l.chain("-end"))
		}
		return one(Goto, l.chain("-pass"))
	}
	i := slices.IndexFunc(m, func(m Match) bool { return m.Kind == MatchProtocol })
	// Where the destination was translated the reset does not find back.
	reset := func(m []Match) []Rule {
		out := []Rule{{Matches: m, Action: RejectReset, Origin: origin}}
		if l.class.pods {
			out = slices.Insert(out, 0, Rule{Matches: slices.Insert(slices.Clone(m), 0, Match{Kind: MatchTranslated}), Action: RejectICMP, Origin: origin})
		}
		return out
	}
	switch {
	case i < 0: // a match of any protocol has no ports
		return append(reset(append([]Match{{Kind: MatchProtocol, Lo: uint16(TCP)}}, m...)), one(RejectICMP, "")...)
	case m[i].Lo == uint16(TCP):
		return reset(m)
	}
	return one(RejectICMP, "")
}

// named is a service with a port that has a name at the peer.
type named struct {
	matches []Match
	name    string
}

// services returns what each service matches in this family; those whose port has a name at the
// peer apart.
func (l *lane) services(in []v1beta2.Service) (plain [][]Match, byName []named) {
	if len(in) == 0 {
		return [][]Match{nil}, nil
	}
	for i := range in {
		s := &in[i]
		switch {
		case s.Protocol != nil && *s.Protocol == v1beta2.ProtocolICMP:
			protocol := ICMP
			if l.family == IPv6 {
				protocol = ICMPv6
			}
			plain = append(plain, octets(protocol, s.ICMPType, s.ICMPCode))
		case s.Protocol != nil && *s.Protocol == v1beta2.ProtocolIGMP:
			if l.family == IPv4 {
				m := octets(IGMP, s.IGMPType, nil)
				if a, err := netip.ParseAddr(s.GroupAddress); err == nil {
					m = append(m, Match{Kind: MatchIGMPGroup, Peer: &Range{From: a.Unmap(), To: a.Unmap()}})
				}
				plain = append(plain, m)
			}
		default:
			for _, protocol := range protocols(s.Protocol) {
				m := []Match{{Kind: MatchProtocol, Lo: uint16(protocol)}}
				if s.SrcPort != nil {
					m = append(m, portMatch(MatchSourcePort, *s.SrcPort, s.SrcEndPort))
				}
				switch {
				case s.Port == nil:
					plain = append(plain, m)
				case s.Port.Type == intstr.Int:
					plain = append(plain, append(m, portMatch(MatchPort, s.Port.IntVal, s.EndPort)))
				case l.direction == Egress:
					byName = append(byName, named{m, s.Port.StrVal})
				default:
					for _, p := range l.class.host.ports {
						if p.Name == s.Port.StrVal && portProtocol(p) == protocol {
							plain = append(plain, append(slices.Clone(m), portMatch(MatchPort, p.Port, nil)))
						}
					}
				}
			}
		}
	}
	return plain, byName
}

func octets(protocol uint8, typ, code *int32) []Match {
	m := []Match{{Kind: MatchProtocol, Lo: uint16(protocol)}}
	if typ != nil {
		m = append(m, Match{Kind: MatchType, Lo: uint16(*typ)})
	}
	if code != nil {
		m = append(m, Match{Kind: MatchCode, Lo: uint16(*code)})
	}
	return m
}

func portMatch(kind MatchKind, first int32, last *int32) Match {
	m := Match{Kind: kind, Lo: uint16(first), Hi: uint16(first)}
	if last != nil {
		m.Hi = uint16(*last)
	}
	return m
}

func portProtocol(p v1beta2.NamedPort) uint8 {
	switch p.Protocol {
	case v1beta2.ProtocolUDP:
		return UDP
	case v1beta2.ProtocolSCTP:
		return SCTP
	case v1beta2.ProtocolTCP, "":
		return TCP
	}
	return 0
}

// protocols are those with ports that a service is about.
func protocols(p *v1beta2.Protocol) []uint8 {
	if p == nil {
		return []uint8{TCP, UDP, SCTP}
	}
	switch *p {
	case v1beta2.ProtocolTCP:
		return []uint8{TCP}
	case v1beta2.ProtocolUDP:
		return []uint8{UDP}
	case v1beta2.ProtocolSCTP:
		return []uint8{SCTP}
	}
	return nil
}
