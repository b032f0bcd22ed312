package tracing

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// Words for people who look for what has decided, some as Antrea has them.
const (
	infoEgressRule     = "EgressRule"
	infoIngressRule    = "IngressRule"
	infoEgressDefault  = "EgressDefaultRule"
	infoIngressDefault = "IngressDefaultRule"
	infoEstablished    = "EstablishedConnection"
	infoClassification = "Classification"
	infoOutput         = "Output"
)

// maxObservations bounds what is told of one packet.
const maxObservations = 30

// header is what is known of the headers of a packet.
type header struct {
	source, destination netip.Addr
	tag                 uint8
	protocol            uint8
	ttl                 int32
	length              int32
	sourcePort, port    uint16
	flags               uint8
	id, sequence        uint16
}

// parseHeader reads the headers of a packet.
func parseHeader(network, transport []byte) (h header, ok bool) {
	switch {
	case len(network) >= 20 && network[0]>>4 == 4:
		h = header{source: netip.AddrFrom4([4]byte(network[12:16])), destination: netip.AddrFrom4([4]byte(network[16:20])),
			tag: network[1] >> 2, protocol: network[9], ttl: int32(network[8]), length: int32(binary.BigEndian.Uint16(network[2:]))}
	case len(network) >= 40 && network[0]>>4 == 6:
		h = header{source: netip.AddrFrom16([16]byte(network[8:24])), destination: netip.AddrFrom16([16]byte(network[24:40])),
			tag: network[0]&15<<2 | network[1]>>6, protocol: network[6], ttl: int32(network[7]), length: 40 + int32(binary.BigEndian.Uint16(network[4:]))}
	default:
		return h, false
	}
	switch {
	case len(transport) < 8:
	case h.protocol == ruleset.TCP || h.protocol == ruleset.UDP:
		h.sourcePort, h.port = binary.BigEndian.Uint16(transport), binary.BigEndian.Uint16(transport[2:])
		if h.protocol == ruleset.TCP && len(transport) > 13 {
			h.flags = transport[13]
		}
	case h.protocol == ruleset.ICMP || h.protocol == ruleset.ICMPv6:
		h.id, h.sequence = binary.BigEndian.Uint16(transport[4:]), binary.BigEndian.Uint16(transport[6:])
	}
	return h, true
}

// Place says where packets go.
type Place interface {
	// RuleAt is a rule of the program in force, by where the kernel has it.
	RuleAt(chain string, handle uint64) (ruleset.Rule, bool)
	// PodAt is the Pod of this Node with an address, NAMESPACE/NAME; empty for none.
	PodAt(a netip.Addr) string
	// NodeAt is the address of the other Node that has the Pods of a range with an address; not
	// valid for none.
	NodeAt(a netip.Addr) netip.Addr
}

// story is what happens to one packet on this Node.
type story struct {
	// of is the Traceflow that had the tag of the packet when it came: another one may get the tag
	// before the last event.
	of types.UID
	// first is the packet as it came, now as it is.
	first, now   header
	known        bool
	base         ruleset.Base
	observations []v1beta1.TraceflowObservation
	// over tells that nothing more happens to it here, dropped that it is gone.
	over, dropped bool
}

func (s *story) observe(o v1beta1.TraceflowObservation) {
	if len(s.observations) < maxObservations {
		s.observations = append(s.observations, o)
	}
}

// receive takes in what has happened. Sent tells that a Pod of this Node is traced, else the packet
// comes from elsewhere, and byPod that the packet came by a link to a Pod.
func (s *story) receive(e kernel.TraceEvent, sent, byPod bool, p Place) {
	if h, ok := parseHeader(e.Network, e.Transport); ok {
		switch {
		case !s.known:
			s.first, s.known = h, true
		case h.destination != s.now.destination:
			s.observe(v1beta1.TraceflowObservation{Component: v1beta1.ComponentLB, Action: v1beta1.ActionForwarded, TranslatedDstIP: h.destination.String()})
		}
		s.now = h
	}
	if s.over || !s.known {
		return
	}
	switch {
	case e.Table == kernel.TracerTable && e.Chain == kernel.TraceEnters:
		if len(s.observations) == 0 && !sent {
			s.observe(v1beta1.TraceflowObservation{Component: v1beta1.ComponentForwarding, ComponentInfo: infoClassification, Action: v1beta1.ActionReceived})
		}
	case e.Table == kernel.TracerTable:
		s.over = true
		s.leaves(e, p)
	case e.Table == kernel.DefaultTable:
		if b := ruleset.Base(e.Chain); isBase(b) {
			s.base = b
		}
		s.ours(e, sent && byPod, p)
	case e.Drops:
		s.over, s.dropped = true, true
		s.observe(v1beta1.TraceflowObservation{Component: v1beta1.ComponentForwarding, ComponentInfo: "chain " + e.Chain + " of table " + e.Table, Action: v1beta1.ActionDropped})
	}
}

func isBase(b ruleset.Base) bool {
	return slices.Contains(ruleset.Bases(), b) ||
		slices.Contains([]ruleset.Base{ruleset.FromPods, ruleset.FromNode, ruleset.ToOthers, ruleset.InClear, ruleset.ToServices, ruleset.HostToServices, ruleset.Segments}, b)
}

// ours takes in what a rule of ours has done.
func (s *story) ours(e kernel.TraceEvent, guarded bool, p Place) {
	if e.Handle == 0 && s.base == ruleset.FromPods && guarded {
		s.observe(v1beta1.TraceflowObservation{Component: v1beta1.ComponentSpoofGuard, Action: v1beta1.ActionForwarded, SrcPodIP: s.first.source.String()})
	}
	if !e.Decides || e.Handle == 0 {
		return
	}
	rule, _ := p.RuleAt(e.Chain, e.Handle)
	from := rule.From()
	out := v1beta1.TraceflowObservation{Component: v1beta1.ComponentNetworkPolicy, Action: v1beta1.ActionForwarded}
	if e.Drops {
		s.over, s.dropped = true, true
		out.Action = v1beta1.ActionDropped
		if rule.Action == ruleset.RejectReset || rule.Action == ruleset.RejectICMP || rule.Action == ruleset.RejectPort {
			out.Action = v1beta1.ActionRejected
		}
	}
	egress := s.base.Direction() == ruleset.Egress
	word := func(out, in string) string {
		if egress {
			return out
		}
		return in
	}
	switch from.Kind {
	case ruleset.OriginPolicy:
		name := from.Policy.Name
		if from.Policy.Namespace != "" {
			name = from.Policy.Namespace + "/" + name
		}
		out.ComponentInfo, out.NetworkPolicy, out.NetworkPolicyRule = word(infoEgressRule, infoIngressRule), string(from.Policy.Type)+":"+name, from.Name
	case ruleset.OriginIsolation:
		out.ComponentInfo = word(infoEgressDefault, infoIngressDefault)
	case ruleset.OriginSpoofed:
		out.Component, out.ComponentInfo, out.SrcPodIP = v1beta1.ComponentSpoofGuard, "", s.first.source.String()
	default:
		established := slices.ContainsFunc(rule.Matches, func(m ruleset.Match) bool { return m.Kind == ruleset.MatchEstablished })
		switch {
		case !e.Drops && established && s.base != ruleset.ToOthers:
			out.ComponentInfo = infoEstablished
		case !e.Drops: // nothing has decided about it
			return
		case out.Action == v1beta1.ActionRejected: // a Service without endpoints
			out.Component, out.ComponentInfo = v1beta1.ComponentLB, "no endpoint"
		default:
			out.Component, out.ComponentInfo = v1beta1.ComponentForwarding, from.String()
		}
	}
	s.observe(out)
}

// leaves tells where the packet goes.
func (s *story) leaves(e kernel.TraceEvent, p Place) {
	out := v1beta1.TraceflowObservation{Component: v1beta1.ComponentForwarding, ComponentInfo: infoOutput, TTL: s.now.ttl}
	if s.now.source != s.first.source {
		out.TranslatedSrcIP = s.now.source.String()
	}
	pod := p.PodAt(s.now.destination)
	switch {
	case e.Chain == kernel.TraceArrives:
		out.Action = v1beta1.ActionDelivered
	case pod != "":
		out.Action, out.Pod = v1beta1.ActionDelivered, pod
	default:
		out.Action = v1beta1.ActionForwardedOutOfNetwork
		if node := p.NodeAt(s.now.destination); node.IsValid() {
			out.Action, out.TunnelDstIP = v1beta1.ActionForwarded, node.String()
		}
	}
	s.observe(out)
}

// captured is the packet as it came, for Traceflows of live traffic.
func (s *story) captured() *v1beta1.TraceflowPacket {
	h := &s.first
	out := &v1beta1.TraceflowPacket{SrcIP: h.source.String(), DstIP: h.destination.String(), Length: h.length}
	if h.source.Is4() {
		out.IPHeader = &v1beta1.IPHeader{TTL: h.ttl}
	} else {
		out.IPv6Header = &v1beta1.IPv6Header{HopLimit: h.ttl}
	}
	if next := int32(h.protocol); slices.Contains([]uint8{ruleset.TCP, ruleset.UDP, ruleset.ICMP, ruleset.ICMPv6}, h.protocol) { // the kind knows no others
		if h.source.Is4() {
			out.IPHeader.Protocol = next
		} else {
			out.IPv6Header.NextHeader = &next
		}
	}
	switch h.protocol {
	case ruleset.TCP:
		flags := int32(h.flags)
		out.TransportHeader.TCP = &v1beta1.TCPHeader{SrcPort: int32(h.sourcePort), DstPort: int32(h.port), Flags: &flags}
	case ruleset.UDP:
		out.TransportHeader.UDP = &v1beta1.UDPHeader{SrcPort: int32(h.sourcePort), DstPort: int32(h.port)}
	case ruleset.ICMP, ruleset.ICMPv6:
		out.TransportHeader.ICMP = &v1beta1.ICMPEchoRequestHeader{ID: int32(h.id), Sequence: int32(h.sequence)}
	}
	return out
}
