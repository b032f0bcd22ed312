package nft

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// rule makes the rules of the kernel for one of a policy: one for each combination of a peer and a
// service.
func (l *lane) rule(policy *policyParts, r *v1beta2.NetworkPolicyRule, origin *ruleset.Origin) []ruleset.Rule {
	if r.Action == nil {
		return nil // it only isolates
	}
	peer := &r.From
	if l.direction == ruleset.Egress {
		peer = &r.To
	}
	services, named := l.services(r.Services)
	var out []ruleset.Rule
	var told *ruleset.Origin
	denies := *r.Action == v1beta2.RuleActionDrop || *r.Action == v1beta2.RuleActionReject
	if r.EnableLogging || l.work.LogDenied && denies {
		o := *origin
		o.Logged = ruleset.Logged{Direction: l.direction, Action: *r.Action, Label: r.LogLabel, Unasked: !r.EnableLogging}
		told = &o
	}
	add := func(m []ruleset.Match) {
		if told != nil {
			out = append(out, ruleset.Rule{Matches: m, Action: ruleset.Log, Origin: told})
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
			m = append(m, ruleset.Match{Kind: ruleset.MatchNamedPort, Of: key, Source: l.direction == ruleset.Ingress})
			add(m)
		}
	}
	return out
}

// act makes the rules that act on what matches.
func (l *lane) act(m []ruleset.Match, action v1beta2.RuleAction, stage int, origin *ruleset.Origin) []ruleset.Rule {
	one := func(a ruleset.Action, target string) []ruleset.Rule {
		return []ruleset.Rule{{Matches: m, Action: a, Target: target, Origin: origin}}
	}
	switch action {
	case v1beta2.RuleActionAllow:
		return one(ruleset.Accept, "")
	case v1beta2.RuleActionDrop:
		return one(ruleset.Drop, "")
	case v1beta2.RuleActionPass:
		if stage == 2 {
			return one(ruleset.Goto, l.chain("-end"))
		}
		return one(ruleset.Goto, l.chain("-pass"))
	}
	i := slices.IndexFunc(m, func(m ruleset.Match) bool { return m.Kind == ruleset.MatchProtocol })
	// Where the destination was translated the reset does not find back.
	reset := func(m []ruleset.Match) []ruleset.Rule {
		out := []ruleset.Rule{{Matches: m, Action: ruleset.RejectReset, Origin: origin}}
		if l.class.pods {
			out = slices.Insert(out, 0, ruleset.Rule{Matches: slices.Insert(slices.Clone(m), 0, ruleset.Match{Kind: ruleset.MatchTranslated}),
				Action: ruleset.RejectICMP, Origin: origin})
		}
		return out
	}
	switch {
	case i < 0: // a match of any protocol has no ports
		return append(reset(append([]ruleset.Match{{Kind: ruleset.MatchProtocol, Lo: uint16(ruleset.TCP)}}, m...)), one(ruleset.RejectICMP, "")...)
	case m[i].Lo == uint16(ruleset.TCP):
		return reset(m)
	}
	return one(ruleset.RejectICMP, "")
}

// named is a service with a port that has a name at the peer.
type named struct {
	matches []ruleset.Match
	name    string
}

// services returns what each service matches in this family, and apart from that the services whose
// port is a name that the peer resolves.
func (l *lane) services(in []v1beta2.Service) (plain [][]ruleset.Match, byName []named) {
	if len(in) == 0 {
		return [][]ruleset.Match{nil}, nil
	}
	for i := range in {
		s := &in[i]
		switch {
		case s.Protocol != nil && *s.Protocol == v1beta2.ProtocolICMP:
			protocol := ruleset.ICMP
			if l.family == ruleset.IPv6 {
				protocol = ruleset.ICMPv6
			}
			plain = append(plain, octets(protocol, s.ICMPType, s.ICMPCode))
		case s.Protocol != nil && *s.Protocol == v1beta2.ProtocolIGMP:
			if l.family == ruleset.IPv4 {
				m := octets(ruleset.IGMP, s.IGMPType, nil)
				if a, err := netip.ParseAddr(s.GroupAddress); err == nil {
					m = append(m, ruleset.Match{Kind: ruleset.MatchIGMPGroup, Peer: &ruleset.Range{From: a.Unmap(), To: a.Unmap()}})
				}
				plain = append(plain, m)
			}
		default:
			for _, protocol := range protocols(s.Protocol) {
				m := []ruleset.Match{{Kind: ruleset.MatchProtocol, Lo: uint16(protocol)}}
				if s.SrcPort != nil {
					m = append(m, portMatch(ruleset.MatchSourcePort, *s.SrcPort, s.SrcEndPort))
				}
				switch {
				case s.Port == nil:
					plain = append(plain, m)
				case s.Port.Type == intstr.Int:
					plain = append(plain, append(m, portMatch(ruleset.MatchPort, s.Port.IntVal, s.EndPort)))
				case l.direction == ruleset.Egress:
					byName = append(byName, named{m, s.Port.StrVal})
				default:
					for _, p := range l.class.host.ports {
						if p.Name == s.Port.StrVal && portProtocol(p) == protocol {
							plain = append(plain, append(slices.Clone(m), portMatch(ruleset.MatchPort, p.Port, nil)))
						}
					}
				}
			}
		}
	}
	return plain, byName
}

func octets(protocol uint8, typ, code *int32) []ruleset.Match {
	m := []ruleset.Match{{Kind: ruleset.MatchProtocol, Lo: uint16(protocol)}}
	if typ != nil {
		m = append(m, ruleset.Match{Kind: ruleset.MatchType, Lo: uint16(*typ)})
	}
	if code != nil {
		m = append(m, ruleset.Match{Kind: ruleset.MatchCode, Lo: uint16(*code)})
	}
	return m
}

func portMatch(kind ruleset.MatchKind, first int32, last *int32) ruleset.Match {
	m := ruleset.Match{Kind: kind, Lo: uint16(first), Hi: uint16(first)}
	if last != nil {
		m.Hi = uint16(*last)
	}
	return m
}

func portProtocol(p v1beta2.NamedPort) uint8 {
	switch p.Protocol {
	case v1beta2.ProtocolUDP:
		return ruleset.UDP
	case v1beta2.ProtocolSCTP:
		return ruleset.SCTP
	case v1beta2.ProtocolTCP, "":
		return ruleset.TCP
	}
	return 0
}

// protocols are those with ports that a service is about.
func protocols(p *v1beta2.Protocol) []uint8 {
	if p == nil {
		return []uint8{ruleset.TCP, ruleset.UDP, ruleset.SCTP}
	}
	switch *p {
	case v1beta2.ProtocolTCP:
		return []uint8{ruleset.TCP}
	case v1beta2.ProtocolUDP:
		return []uint8{ruleset.UDP}
	case v1beta2.ProtocolSCTP:
		return []uint8{ruleset.SCTP}
	}
	return nil
}
