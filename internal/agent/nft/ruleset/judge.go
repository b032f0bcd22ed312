package ruleset

import (
	"net/netip"
	"slices"
)

// Packet is what Judge decides about.
type Packet struct {
	Direction   Direction
	Source      netip.Addr
	Destination netip.Addr
	Protocol    uint8
	SourcePort  uint16
	Port        uint16
	// Type and Code are for ICMP, ICMPv6 and IGMP, Group for IGMP.
	Type, Code uint8
	Group      netip.Addr
	// HopLimit counts for what stays on a link: neighbour discovery, MLD and IGMP.
	HopLimit uint8
	// Loopback tells that the packet stays on the host.
	Loopback bool
	// Established tells that the packet belongs to a connection, Dead that it was given up.
	Established, Dead bool
	// Invalid tells that conntrack assigns it to no connection.
	Invalid bool
	// Translated tells that it was made to another destination, and Original to which one.
	Translated bool
	Original   netip.AddrPort
	// FromBridge and ToBridge tell that it comes from a bridge of the host, and goes to one.
	FromBridge, ToBridge bool
	// Redirected tells that the kernel has sent it on as its own, though it came from elsewhere, as
	// IPVS does.
	Redirected bool
}

func (p *Packet) family() Family {
	if p.Source.Is4() {
		return IPv4
	}
	return IPv6
}

// Judgement is what becomes of a packet: Accept, Drop, RejectReset or RejectICMP, and the rule that
// says so.
type Judgement struct {
	Action Action
	By     Origin
	// Direction is that of the rules that By is one of.
	Direction Direction
	// Before is what let the packet pass in a place before, as the rules of the Pod that sends it;
	// nil if nothing but By said anything.
	Before *Judgement
}

// Allows reports whether the packet passes.
func (j Judgement) Allows() bool { return j.Action == Accept }

// Judge says what the program does with a packet to or from the host itself, as the kernel would.
// Whether a Pod may send it to its Node it does not say.
func (p *Program) Judge(packet Packet) Judgement {
	return p.JudgeIn(Base(packet.Direction.String()), packet)
}

// JudgeIn says what the rules that packets meet in one place do with one.
func (p *Program) JudgeIn(base Base, packet Packet) Judgement {
	packet.Source, packet.Destination = packet.Source.Unmap(), packet.Destination.Unmap()
	out := Judgement{Action: Accept, By: Origin{Kind: OriginNative}, Direction: base.Direction()}
	if r := p.walk(string(base), &packet); r != nil {
		out.Action, out.By = r.Action, r.From()
	}
	return out
}

// JudgeWay says what becomes of a packet on its whole way: the first place that does not let it
// pass decides. What passes all passes by what was said last.
func (p *Program) JudgeWay(way Way, packet Packet) Judgement {
	out := Judgement{Action: Accept, By: Origin{Kind: OriginNative}}
	for _, b := range Bases() {
		if p.Chains[string(b)] == nil || b.Way() != way {
			continue
		}
		j := p.JudgeIn(b, packet)
		if j.Allows() && (j.By.Kind == OriginNative || j.By.Kind == OriginFrame || j.By.Kind == OriginNames) {
			continue
		}
		if out.By.Kind != OriginNative {
			before := out
			j.Before = &before
		}
		if out = j; !j.Allows() {
			break
		}
	}
	return out
}

// NamesSourcePorts reports whether a policy's rule is about source ports, so that what it decides
// depends on them.
func (p *Program) NamesSourcePorts() bool {
	for _, c := range p.Chains {
		for i := range c.Rules {
			r := &c.Rules[i]
			if r.From().Kind == OriginPolicy && slices.ContainsFunc(r.Matches, func(m Match) bool { return m.Kind == MatchSourcePort }) {
				return true
			}
		}
	}
	return false
}

// walk returns the rule that ends the way of the packet through a chain and those that it leads to.
func (p *Program) walk(chain string, packet *Packet) *Rule {
	c := p.Chains[chain]
	if c == nil {
		return nil
	}
	for i := range c.Rules {
		r := &c.Rules[i]
		if !p.matches(r, packet) {
			continue
		}
		switch r.Action {
		case Log, SetExit, ClampSegments, NoTrack:
		case Queue:
			return &Rule{Action: Accept, Origin: r.Origin}
		case Jump:
			if end := p.walk(r.Target, packet); end != nil {
				return end
			}
		case Goto:
			return p.walk(r.Target, packet)
		case Lookup:
			name := SetName(r.Target)
			if chain, found := p.Dispatch[name].Get(name.DispatchKey(packet.Source, packet.Destination)); found {
				return p.walk(chain, packet)
			}
		default:
			return r
		}
	}
	return nil
}

func (p *Program) matches(r *Rule, packet *Packet) bool {
	for i := range r.Matches {
		if !p.match(&r.Matches[i], packet) {
			return false
		}
	}
	return true
}

func (p *Program) match(m *Match, packet *Packet) bool {
	peer := packet.Destination
	if m.Source {
		peer = packet.Source
	}
	within := func(n uint16) bool { return n >= m.Lo && n <= m.Hi }
	switch m.Kind {
	case MatchDead:
		return packet.Dead
	case MatchEstablished:
		return packet.Established
	case MatchInvalid:
		return packet.Invalid
	case MatchLoopback:
		return packet.Loopback
	case MatchTranslated:
		return packet.Translated
	case MatchProcess:
		return !packet.Redirected
	case MatchRouted:
		return packet.Redirected
	case MatchFamily:
		return uint16(packet.family()) == m.Lo
	case MatchNeighbour:
		return packet.Protocol == ICMPv6 && packet.Type >= 133 && packet.Type <= 137 && packet.HopLimit == neverRouted
	case MatchProtocol:
		return uint16(packet.Protocol) == m.Lo
	case MatchSourcePort:
		return within(packet.SourcePort)
	case MatchPort:
		return within(packet.Port)
	case MatchAskedPort:
		if packet.Translated {
			return within(packet.Original.Port())
		}
		return within(packet.Port)
	case MatchFromBridge:
		return packet.FromBridge
	case MatchToBridge:
		return packet.ToBridge
	case MatchType:
		return uint16(packet.Type) >= m.Lo && uint16(packet.Type) <= max(m.Lo, m.Hi)
	case MatchHopLimit:
		return uint16(packet.HopLimit) == m.Lo
	case MatchCode:
		return uint16(packet.Code) == m.Lo
	case MatchIGMPGroup:
		return packet.Group == m.Peer.From
	case MatchPeer:
		return contains(*m.Peer, peer)
	case MatchPeerIn:
		for _, r := range p.Ranges[m.Of.Set] {
			if contains(r, peer) {
				return true
			}
		}
		return false
	case MatchMember:
		part := p.Parts.Get(*m.Of)
		return part != nil && part.Keys.Has(string(peer.AsSlice()))
	case MatchNamedPort:
		part := p.Parts.Get(*m.Of)
		return part != nil && part.Keys.Has(PortKey(peer, packet.Protocol, packet.Port))
	case MatchPortOf:
		part := p.Parts.Get(*m.Of)
		return part != nil && part.Keys.Has(BlockKey(packet.Protocol, packet.Port))
	case MatchAskedPortOf:
		port := packet.Port
		if packet.Translated {
			port = packet.Original.Port()
		}
		part := p.Parts.Get(*m.Of)
		return part != nil && part.Keys.Has(BlockKey(packet.Protocol, port))
	case MatchService:
		to := netip.AddrPortFrom(packet.Destination, packet.Port)
		if packet.Translated {
			to = packet.Original
		}
		part := p.Parts.Get(*m.Of)
		return part != nil && part.Keys.Has(PortKey(to.Addr().Unmap(), packet.Protocol, to.Port()))
	}
	return false
}

func contains(r Range, a netip.Addr) bool {
	return a.BitLen() == r.From.BitLen() && r.From.Compare(a) <= 0 && a.Compare(r.To) <= 0
}
