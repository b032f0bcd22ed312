package packet

import (
	"net/netip"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// header is what a network ACL sees of one packet.
type header struct {
	protocol, port, icmpType, icmpCode int
}

// replyPort is the port that an answer goes to: one of those that every system takes for its own
// end of a connection.
const replyPort = 49152

func (f Flow) header() header { return header{f.Protocol, f.Port, f.ICMPType, f.ICMPCode} }

// reply is what comes back. The answer to an echo has a type of its own; to other messages of ICMP
// there is none.
func (f Flow) reply() (header, bool) {
	p := f.header()
	switch {
	case f.Protocol == aws.ProtoICMP && f.ICMPType == 8:
		p.icmpType = 0
	case f.Protocol == aws.ProtoICMPv6 && f.ICMPType == 128:
		p.icmpType = 129
	case f.Protocol == aws.ProtoICMP || f.Protocol == aws.ProtoICMPv6:
		return p, false
	default:
		p.port = replyPort
	}
	return p, true
}

// matches reports whether an entry is about a packet from or to an address.
func matches(e *aws.ACLEntry, peer netip.Addr, p header) bool {
	if !e.CIDR.Contains(peer) {
		return false
	}
	switch {
	case e.Protocol == aws.ProtoAll:
		return true
	case e.Protocol != p.protocol:
		return false
	case p.protocol == aws.ProtoTCP || p.protocol == aws.ProtoUDP:
		return e.FromPort <= p.port && p.port <= e.ToPort
	case p.protocol == aws.ProtoICMP || p.protocol == aws.ProtoICMPv6:
		return (e.FromPort == -1 || e.FromPort == p.icmpType) && (e.ToPort == -1 || e.ToPort == p.icmpCode)
	}
	return true
}

// decides returns the entry of an ACL that decides a packet; LastACLEntry if none matches.
func decides(a *aws.NetworkACL, egress bool, peer netip.Addr, p header) aws.ACLEntry {
	best := aws.ACLEntry{Number: aws.LastACLEntry, Egress: egress, Protocol: aws.ProtoAll}
	for i := range a.Entries {
		e := &a.Entries[i]
		if e.Egress == egress && e.Number < best.Number && matches(e, peer, p) {
			best = *e
		}
	}
	return best
}
