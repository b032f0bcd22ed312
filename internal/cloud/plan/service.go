package plan

import (
	"fmt"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Service is a set of packets as seen by protocol and port: the protocol and an inclusive interval of its 16-bit axis. The axis is
// the destination port for TCP, UDP and SCTP and type*256+code for ICMP and ICMPv6; for other protocols it has no meaning and the
// interval is the whole axis.
type Service struct {
	// Protocol is 0..255, or cloud.AnyProtocol for every protocol (in a Cell: every protocol that no other cell names).
	Protocol int
	From, To uint16
}

// anyService matches every packet.
var anyService = Service{Protocol: cloud.AnyProtocol, From: 0, To: 0xffff}

// whole is every packet of one protocol.
func whole(protocol int) Service { return Service{Protocol: protocol, From: 0, To: 0xffff} }

// ServiceOf is the service that a cloud rule matches.
func ServiceOf(m cloud.Match) Service {
	switch m.Protocol {
	case cloud.TCP, cloud.UDP:
		return Service{m.Protocol, uint16(max(m.From, 0)), uint16(m.To)}
	case cloud.ICMP, cloud.ICMPv6:
		switch {
		case m.From < 0:
			return whole(m.Protocol)
		case m.To < 0:
			return Service{m.Protocol, uint16(m.From << 8), uint16(m.From<<8 | 0xff)}
		default:
			return Service{m.Protocol, uint16(m.From<<8 | m.To), uint16(m.From<<8 | m.To)}
		}
	default:
		return whole(m.Protocol)
	}
}

// covers reports whether every packet of o is in s.
func (s Service) covers(o Service) bool {
	if s.Protocol == cloud.AnyProtocol {
		return true
	}
	return s.Protocol == o.Protocol && s.From <= o.From && o.To <= s.To
}

// overlaps reports whether two services of the same protocol share packets.
func (s Service) overlaps(o Service) bool {
	return s.Protocol == o.Protocol && s.From <= o.To && o.From <= s.To
}

func (s Service) String() string {
	if s.Protocol == cloud.AnyProtocol {
		return "any protocol"
	}
	if s.From == 0 && s.To == 0xffff {
		return cloud.Match{Protocol: s.Protocol, From: -1, To: -1}.String()
	}
	return fmt.Sprintf("%s %d-%d", cloud.ProtocolName(s.Protocol), s.From, s.To)
}
