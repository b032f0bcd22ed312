package packet

import (
	"fmt"
	"net/netip"
)

// End is one end of a Flow.
//
//   - NIC set: that network interface; Addr, if set too, picks one of its addresses, otherwise the
//     first one of the flow's family is taken.
//   - NIC empty: an address. It is looked up among the private addresses of VPC (if given), else of
//     the VPC of the other end, else of the VPCs actively peered with that. An address that no
//     interface has there is an outside address (if it is the public address of an interface, the
//     flow goes through the internet: group references do not match).
type End struct {
	NIC  string
	Addr netip.Addr
	VPC  string
}

// Flow is a new connection or a first packet. Port is the destination port of TCP, UDP and SCTP;
// ICMPType and ICMPCode belong to ICMP and ICMPv6. Interfaces are looked up by id in the whole
// world.
type Flow struct {
	Src, Dst End
	Protocol int // IANA number: 6 TCP, 17 UDP, 1 ICMP, 58 ICMPv6
	Port     int
	ICMPType int
	ICMPCode int
}

// Half is the verdict of one end's security groups.
type Half struct {
	Filtered bool   // false: this end is outside, or the flow stays on one interface
	Allowed  bool   // true also when not filtered
	NIC      string // the interface that decided
	GroupID  string // group of the first allowing rule
	RuleID   string // first allowing rule
}

// Filter is a network ACL that stops a flow, or its answer: at which interface.
type Filter struct {
	NIC            string
	Egress, Answer bool
}

// Verdict is the answer of Allowed. Reason is one printable line: which half refused, or which rule
// of which group allowed.
type Verdict struct {
	Allowed bool
	Egress  Half
	Ingress Half
	// Obstacle is the route table or network ACL that stops the flow, whatever the security groups
	// say; empty if none does.
	Obstacle string
	// StoppedBy is the network ACL, if the obstacle is one.
	StoppedBy Filter
	Reason    string
}

// service is protocol and port of the flow in words.
func (f Flow) service() string {
	switch f.Protocol {
	case 6:
		return fmt.Sprintf("tcp %d", f.Port)
	case 17:
		return fmt.Sprintf("udp %d", f.Port)
	case 1, 58:
		return fmt.Sprintf("%s %d/%d", map[int]string{1: "icmp", 58: "icmpv6"}[f.Protocol], f.ICMPType, f.ICMPCode)
	}
	return fmt.Sprintf("protocol %d", f.Protocol)
}

// String prints the flow, such as "tcp 443 from eni-0a to 10.0.0.7".
func (f Flow) String() string {
	return f.service() + " from " + f.Src.String() + " to " + f.Dst.String()
}

// String prints the end as it was given.
func (e End) String() string {
	switch {
	case e.NIC != "" && e.Addr.IsValid():
		return e.NIC + "/" + e.Addr.String()
	case e.NIC != "":
		return e.NIC
	}
	return e.Addr.String()
}
