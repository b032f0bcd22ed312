package conntrack

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
)

// eventOf is the message of a connection of TCP that has ended, with all that the kernel tells.
func eventOf() []byte {
	x := connection{
		orig:  tuple{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.96.0.9"), unix.IPPROTO_TCP, 40000, 443, 0, 0},
		reply: tuple{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1"), unix.IPPROTO_TCP, 8443, 40000, 0, 0},
	}
	counters := func(packets, bytes uint64) []byte {
		return netfilter.Attr(netfilter.Attr(nil, counterPackets, binary.BigEndian.AppendUint64(nil, packets)), counterBytes, binary.BigEndian.AppendUint64(nil, bytes))
	}
	b := append(make([]byte, 4), x.made()...)
	b = netfilter.Nest(b, ctCountersOrig, counters(7, 700))
	return netfilter.Nest(b, ctCountersReply, counters(5, 5000))
}

// TestParse reads a message as it was made, and of one that is cut anywhere, or of which any byte
// is another one, no more than there is.
func TestParse(t *testing.T) {
	body := eventOf()
	x, err := parseConnection(body)
	if err != nil || x.orig.destinationPort != 443 || x.reply.source != netip.MustParseAddr("10.0.0.2") || x.reply.sourcePort != 8443 || !x.pickedUp || x.expected || x.dead {
		t.Errorf("%+v %v", x, err)
	}
	e := Event{}
	if e.count(body); e.Packets != 7 || e.Bytes != 700 || e.ReplyPackets != 5 || e.ReplyBytes != 5000 {
		t.Errorf("%+v", e)
	}
	for n := range len(body) {
		_, _ = parseConnection(body[:n])
		if n >= 4 {
			(&Event{}).count(body[:n])
		}
		for _, v := range []byte{0, 1, 3, 0x7f, 0xff} {
			other := append([]byte(nil), body...)
			other[n] = v
			_, _ = parseConnection(other)
			(&Event{}).count(other)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	body := eventOf()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseConnection(body); err != nil {
			b.Fatal(err)
		}
		(&Event{}).count(body)
	}
}
