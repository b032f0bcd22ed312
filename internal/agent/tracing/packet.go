package tracing

import (
	"encoding/binary"
	"net/netip"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

const (
	defaultTTL = 64
	// firstPort and somePorts are the ports from which packets are sent that name none: each
	// attempt has one of its own, so that no one is a part of the connection of a former one.
	firstPort, somePorts = 40000, 20000
	synFlag              = 2
	echoRequest          = 8
	echoRequest6         = 128
)

// packet makes the packet of a Traceflow. Attempt is how many were sent before.
func packet(t *v1beta1.Traceflow, attempt int) []byte {
	traced, spec := t.Status.Traced, &t.Spec.Packet
	source, err1 := netip.ParseAddr(traced.SourceIP)
	destination, err2 := netip.ParseAddr(traced.DestinationIP)
	if err1 != nil || err2 != nil || source.Is4() != destination.Is4() {
		return nil
	}
	number := attempt
	for _, c := range []byte(t.UID) {
		number = (number*31 + int(c)) % somePorts
	}
	from := uint16(firstPort + number)
	if traced.SourcePort != 0 {
		from = uint16(traced.SourcePort)
	}
	payload := transport(t, uint8(traced.Protocol), from, uint16(number))
	if source.Is4() {
		ttl, flags := int32(0), int32(0)
		if h := spec.IPHeader; h != nil {
			ttl, flags = h.TTL, h.Flags
		}
		b := []byte{0x45, byte(t.Status.DataplaneTag) << 2}
		b = binary.BigEndian.AppendUint16(b, uint16(20+len(payload)))
		b = binary.BigEndian.AppendUint16(b, uint16(number))
		b = binary.BigEndian.AppendUint16(b, uint16(flags)<<13)
		b = append(b, hops(ttl), byte(traced.Protocol), 0, 0)
		b = append(append(b, source.AsSlice()...), destination.AsSlice()...)
		binary.BigEndian.PutUint16(b[10:], sum(b))
		return append(b, complete(payload, source, destination, uint8(traced.Protocol))...)
	}
	limit := int32(0)
	if h := spec.IPv6Header; h != nil {
		limit = h.HopLimit
	}
	tag := byte(t.Status.DataplaneTag)
	b := []byte{0x60 | tag>>2, tag << 6, 0, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
	b = append(b, byte(traced.Protocol), hops(limit))
	b = append(append(b, source.AsSlice()...), destination.AsSlice()...)
	return append(b, complete(payload, source, destination, uint8(traced.Protocol))...)
}

func hops(n int32) byte {
	if n == 0 {
		return defaultTTL
	}
	return byte(n)
}

// transport is what is behind the header of IP, without its sum.
func transport(t *v1beta1.Traceflow, protocol uint8, from, number uint16) []byte {
	to, header := uint16(t.Status.Traced.DestinationPort), &t.Spec.Packet.TransportHeader
	ports := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, from), to)
	switch protocol {
	case ruleset.TCP:
		flags := int32(synFlag)
		if header.TCP != nil && header.TCP.Flags != nil {
			flags = *header.TCP.Flags
		}
		b := binary.BigEndian.AppendUint32(ports, uint32(number)<<16) // the number of its first byte
		b = append(b, 0, 0, 0, 0, 5<<4, byte(flags))
		return append(binary.BigEndian.AppendUint16(b, 1024), 0, 0, 0, 0)
	case ruleset.UDP:
		return append(binary.BigEndian.AppendUint16(ports, 8), 0, 0)
	}
	id, sequence := number, uint16(0)
	if h := header.ICMP; h != nil {
		sequence = uint16(h.Sequence)
		if h.ID != 0 {
			id = uint16(h.ID)
		}
	}
	kind := byte(echoRequest)
	if protocol == ruleset.ICMPv6 {
		kind = echoRequest6
	}
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16([]byte{kind, 0, 0, 0}, id), sequence)
}

// complete writes the sum into what is behind the header of IP.
func complete(b []byte, source, destination netip.Addr, protocol uint8) []byte {
	at := map[uint8]int{ruleset.TCP: 16, ruleset.UDP: 6}[protocol]
	covered := b
	if at == 0 {
		at = 2
	}
	if protocol != ruleset.ICMP { // the sum is about the addresses, too
		covered = append(append(source.AsSlice(), destination.AsSlice()...), 0, protocol)
		covered = append(binary.BigEndian.AppendUint16(covered, uint16(len(b))), b...)
	}
	n := sum(covered)
	if n == 0 && protocol == ruleset.UDP { // 0 means that there is none
		n = 0xffff
	}
	binary.BigEndian.PutUint16(b[at:], n)
	return b
}

// sum is the checksum of the Internet protocols (RFC 1071).
func sum(b []byte) uint16 {
	n := uint32(0)
	for ; len(b) > 1; b = b[2:] {
		n += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		n += uint32(b[0]) << 8
	}
	for n>>16 != 0 {
		n = n&0xffff + n>>16
	}
	return ^uint16(n)
}
