package network

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
)

// MeetPort is the port of UDP by which agents find out whether packets come to other Nodes.
const MeetPort = 10352

// Peer is another Node that is reached by VXLAN, WireGuard or IPsec.
type Peer struct {
	Name string
	// At is where packets are sent to, Through the address of its device.
	At, Through netip.Addr
	// Port is the UDP port, and Sealed the name of the protocol that encrypts, for people; empty
	// for none.
	Port   uint16
	Sealed string
}

const (
	questionMagic = "nephele?"
	answerMagic   = "nephele!"
	// meetSize is that of an answer, and of the least question: magic, number, size.
	meetSize = 8 + 8 + 4
)

// Question is a packet of a size that asks for an answer.
func Question(number uint64, size int) []byte {
	b := append([]byte(questionMagic), make([]byte, max(size, meetSize)-len(questionMagic))...)
	binary.BigEndian.PutUint64(b[8:], number)
	return b
}

// AnswerTo is the answer to a question; nil to what is none. It is never larger than what it
// answers.
func AnswerTo(packet []byte) []byte {
	if len(packet) < meetSize || !bytes.HasPrefix(packet, []byte(questionMagic)) {
		return nil
	}
	b := append([]byte(answerMagic), packet[8:16]...)
	return binary.BigEndian.AppendUint32(b, uint32(len(packet)))
}

// ParseAnswer reads an answer.
func ParseAnswer(packet []byte) (number uint64, size int, ok bool) {
	if len(packet) != meetSize || !bytes.HasPrefix(packet, []byte(answerMagic)) {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(packet[8:]), int(binary.BigEndian.Uint32(packet[16:])), true
}

// QuestionSize is that of a question that makes a packet of the MTU.
func QuestionSize(mtu int, six bool) int {
	if six {
		return mtu - 48
	}
	return mtu - 28
}

// Met is what came of asking another Node.
type Met struct{ Small, Large bool }

// Trouble is what is wrong with that; empty for nothing.
func (p Peer) Trouble(m Met, local netip.Addr, mtu int) string {
	by, more := "VXLAN", ""
	switch p.Sealed {
	case "":
	case byName(true):
		by, more = p.Sealed, "charon may be away there or here or believe another authority, "
	default:
		by, more = p.Sealed, "it may have another key than it tells, "
	}
	switch {
	case !m.Small:
		return fmt.Sprintf("Node %s does not answer by %s: UDP port %d may be blocked between %s and %s, %sits agent may be away, or a policy on a Node forbid UDP port %d between Nodes", p.Name, by, p.Port, local, p.At, more, MeetPort)
	case !m.Large:
		return fmt.Sprintf("packets of %d bytes do not come to Node %s, and small ones do: set the MTU of Pods (--network-mtu) to what the network between the Nodes carries", mtu, p.Name)
	}
	return ""
}
