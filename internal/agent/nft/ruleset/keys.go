package ruleset

import (
	"encoding/binary"
	"net/netip"
)

// AddressBytes is the length of an address of a family in bytes.
func AddressBytes(f Family) int {
	if f == IPv6 {
		return 16
	}
	return 4
}

// BlockKey is a protocol and port as BlockPorts has them: each filled up to four bytes.
func BlockKey(protocol uint8, port uint16) string {
	key := [8]byte{0: protocol}
	binary.BigEndian.PutUint16(key[4:], port)
	return string(key[:])
}

// PortKey is an address with a protocol and a port, as keys of sets have them.
func PortKey(a netip.Addr, protocol uint8, port uint16) string {
	return string(a.AsSlice()) + string([]byte{protocol, 0, 0, 0, byte(port >> 8), byte(port), 0, 0})
}
