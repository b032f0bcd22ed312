// Package flow is the algebra of what interfaces allow: services (protocol and ports), permits (for
// every service the addresses that one direction of one interface allows), and traffic (the same
// with groups in place of addresses, as a cloud's rules have to say it).
//
// It owns the comparison of such meanings: what is allowed by both, by either, by one and not by
// the other. It knows neither policies nor classes nor quotas. Its one liberty is to collapse what
// no cloud can say in few rules, see Permit.CollapseProtocols; the result is never wider.
//
// Everything is a value that does not change after it was made; it may be shared and read
// concurrently.
package flow

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
)

// axisEnd is the greatest value of the 16-bit axis of a Service.
const axisEnd = 0xffff

// Service is a set of packets as seen by protocol and port: the protocol and an inclusive interval
// of its 16-bit axis. The axis is the destination port for TCP, UDP and SCTP and type*256+code for
// ICMP and ICMPv6; for other protocols it has no meaning and the interval is the whole axis.
type Service struct {
	// Protocol is 0..255, or cloud.AnyProtocol for every protocol (in a Grant or Cell: every
	// protocol that no other one names).
	Protocol int
	From, To uint16
}

// Any is the service that every packet belongs to.
func Any() Service { return Service{Protocol: cloud.AnyProtocol, To: axisEnd} }

// Whole is every packet of one protocol.
func Whole(protocol int) Service { return Service{Protocol: protocol, To: axisEnd} }

// ServiceOf is the service that a cloud rule matches.
func ServiceOf(m cloud.Match) Service {
	switch m.Protocol {
	case cloud.TCP, cloud.UDP:
		return Service{m.Protocol, uint16(max(m.From, 0)), uint16(m.To)}
	case cloud.ICMP, cloud.ICMPv6:
		switch {
		case m.From < 0:
			return Whole(m.Protocol)
		case m.To < 0:
			return Service{m.Protocol, uint16(m.From << 8), uint16(m.From<<8 | 0xff)}
		default:
			return Service{m.Protocol, uint16(m.From<<8 | m.To), uint16(m.From<<8 | m.To)}
		}
	default:
		return Whole(m.Protocol)
	}
}

// Family is the set of addresses that packets of a protocol can have: ICMP is IPv4 only, ICMPv6 is
// IPv6 only.
func Family(protocol int) addrset.Set {
	switch protocol {
	case cloud.ICMP:
		return addrset.AllIPv4()
	case cloud.ICMPv6:
		return addrset.AllIPv6()
	}
	return addrset.All()
}

// Covers reports whether every packet of o is in s.
func (s Service) Covers(o Service) bool {
	if s.Protocol == cloud.AnyProtocol {
		return true
	}
	return s.Protocol == o.Protocol && s.From <= o.From && o.To <= s.To
}

// Overlaps reports whether two services of the same protocol share packets.
func (s Service) Overlaps(o Service) bool {
	return s.Protocol == o.Protocol && s.From <= o.To && o.From <= s.To
}

// MayOverlap reports whether two services may share packets. One for all other protocols, which
// does not say which these are, is taken to share some with any.
func (s Service) MayOverlap(o Service) bool {
	return s.Protocol == cloud.AnyProtocol || o.Protocol == cloud.AnyProtocol || s.Overlaps(o)
}

// Compare orders services by protocol, then by their place on the axis.
func (s Service) Compare(o Service) int {
	return cmp.Or(cmp.Compare(s.Protocol, o.Protocol), cmp.Compare(s.From, o.From), cmp.Compare(s.To, o.To))
}

// String says the service as people do: "tcp 80", "udp 1-9", "icmp type 3 code 4". Different
// services have different texts.
func (s Service) String() string {
	name := cloud.ProtocolName(s.Protocol)
	switch types := s.From&0xff == 0 && s.To&0xff == 0xff; {
	case s.Protocol == cloud.AnyProtocol:
		return "any protocol"
	case s.From == 0 && s.To == axisEnd:
		return name
	case s.Protocol != cloud.ICMP && s.Protocol != cloud.ICMPv6 && s.From == s.To:
		return fmt.Sprintf("%s %d", name, s.From)
	case s.Protocol != cloud.ICMP && s.Protocol != cloud.ICMPv6:
		return fmt.Sprintf("%s %d-%d", name, s.From, s.To)
	case types && s.From>>8 == s.To>>8:
		return fmt.Sprintf("%s type %d", name, s.From>>8)
	case types:
		return fmt.Sprintf("%s types %d-%d", name, s.From>>8, s.To>>8)
	case s.From == s.To:
		return fmt.Sprintf("%s type %d code %d", name, s.From>>8, s.From&0xff)
	}
	return fmt.Sprintf("%s type %d code %d to type %d code %d", name, s.From>>8, s.From&0xff, s.To>>8, s.To&0xff)
}

// Recorded is the service as tags in the cloud identify it. It stays the same from release to
// release, so that an upgrade changes no tag.
func (s Service) Recorded() string {
	switch {
	case s.Protocol == cloud.AnyProtocol:
		return "any protocol"
	case s.From == 0 && s.To == axisEnd:
		return cloud.Match{Protocol: s.Protocol, From: -1, To: -1}.String()
	}
	return fmt.Sprintf("%s %d-%d", cloud.ProtocolName(s.Protocol), s.From, s.To)
}

// Partition cuts all packets into services of which each of the given ones is a union, sorted. The
// last one stands for all protocols that none of them names.
func Partition(services []Service) []Service {
	cuts := map[int][]int{}
	for _, s := range services {
		if s.Protocol != cloud.AnyProtocol {
			cuts[s.Protocol] = append(cuts[s.Protocol], int(s.From), int(s.To)+1)
		}
	}
	var out []Service
	for protocol, at := range cuts {
		at = append(at, 0, axisEnd+1)
		slices.Sort(at)
		at = slices.Compact(at)
		for i := 1; i < len(at); i++ {
			out = append(out, Service{protocol, uint16(at[i-1]), uint16(at[i] - 1)})
		}
	}
	slices.SortFunc(out, Service.Compare)
	return append(out, Any())
}
