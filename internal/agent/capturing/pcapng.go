package capturing

import (
	"encoding/binary"
	"time"
)

// Blocks of pcapng (draft-ietf-opsawg-pcapng): of a section, of an interface whose packets begin
// with the header of IP, with times in nanoseconds, and of a packet.
const (
	sectionBlock   = 0x0A0D0D0A
	interfaceBlock = 1
	packetBlock    = 6
	byteOrder      = 0x1A2B3C4D
	linkRaw        = 101
	optionTime     = 9
	nanoseconds    = 9
)

// block appends a block with a body of whole words.
func block(b []byte, kind uint32, body []byte) []byte {
	size := uint32(len(body) + 12)
	b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, kind), size)
	return binary.LittleEndian.AppendUint32(append(b, body...), size)
}

// fileHeader begins a file.
func fileHeader() []byte {
	body := binary.LittleEndian.AppendUint32(nil, byteOrder)
	body = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(body, 1), 0)
	b := block(nil, sectionBlock, binary.LittleEndian.AppendUint64(body, 1<<64-1))
	body = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, linkRaw), 0)
	body = binary.LittleEndian.AppendUint32(body, 0)
	body = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(body, optionTime), 1)
	return block(b, interfaceBlock, append(body, nanoseconds, 0, 0, 0, 0, 0, 0, 0)) // and the end of options
}

// packetOf is the block of a packet, which may have been longer.
func packetOf(at time.Time, packet []byte, length int) []byte {
	n := uint64(at.UnixNano())
	body := binary.LittleEndian.AppendUint32(nil, 0)
	body = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(body, uint32(n>>32)), uint32(n))
	body = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(body, uint32(len(packet))), uint32(length))
	body = append(body, packet...)
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	return block(nil, packetBlock, body)
}

// lengthOf is the length of a packet as its header says, or what there is of it.
func lengthOf(packet []byte) int {
	n := 0
	switch {
	case len(packet) >= 4 && packet[0]>>4 == 4:
		n = int(binary.BigEndian.Uint16(packet[2:]))
	case len(packet) >= 6 && packet[0]>>4 == 6:
		n = 40 + int(binary.BigEndian.Uint16(packet[4:]))
	}
	return max(n, len(packet))
}
