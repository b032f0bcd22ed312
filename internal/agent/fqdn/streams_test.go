package fqdn_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/nephele-io/nephele/internal/agent/fqdn/fqdntest"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/seed"
)

// asker is a client that asks the resolver by TCP.
var asker = netip.MustParseAddrPort("10.0.0.7:40000")

// segment gives the names a segment of TCP, and reports whether it was let go at once.
func (f *namesFixture) segment(to netip.AddrPort, sequence uint32, payload []byte, change func(*kernel.Queued)) bool {
	var gone atomic.Bool
	p := kernel.Queued{Source: netip.AddrPortFrom(resolver, 53), Destination: to, Protocol: ruleset.TCP, Sequence: sequence, Payload: payload}
	if change != nil {
		change(&p)
	}
	f.Names.Answer(p, func() { gone.Store(true) })
	return gone.Load()
}

func begins(p *kernel.Queued) { p.Begins = true }

// framed is a message as it is in a stream.
func framed(m []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...)
}

// TestAnswersInSegments cuts random answers into segments, which come in random order and some of
// them twice, from any sequence number on: every address is learned, the segment with which a
// message is whole is held, and all others go on.
func TestAnswersInSegments(t *testing.T) {
	start := seed.Of(t)
	for n := range uint64(200) {
		random := rand.New(rand.NewPCG(start+n, 61))
		f := newNames(t, "*.example")
		var stream []byte
		var want []string
		for i := range 1 + random.IntN(3) {
			var records []fqdntest.Record
			for k := range 1 + random.IntN(40) {
				address := fmt.Sprintf("10.%d.%d.%d", i, k, random.IntN(250))
				records = append(records, fqdntest.Record{Name: fmt.Sprintf("n%d.example", i), Value: address})
				want = append(want, address)
			}
			stream = append(stream, framed(fqdntest.Message(t, 1, fmt.Sprintf("n%d.example", i), 60, records...))...)
		}
		first := random.Uint32()
		f.segment(asker, first-1, nil, begins)
		type part struct{ from, to int }
		var parts []part
		for at := 0; at < len(stream); {
			to := min(at+1+random.IntN(300), len(stream))
			parts = append(parts, part{at, to})
			if random.IntN(4) == 0 { // once more, and some of what came before
				parts = append(parts, part{max(0, at-random.IntN(50)), to})
			}
			at = to
		}
		for range parts { // neighbours change places
			if i := random.IntN(len(parts)); i > 0 {
				parts[i-1], parts[i] = parts[i], parts[i-1]
			}
		}
		heldBack := 0
		for _, p := range parts {
			if !f.segment(asker, first+uint32(p.from), stream[p.from:p.to], nil) {
				heldBack++
			}
		}
		slices.SortFunc(want, func(a, b string) int { return netip.MustParseAddr(a).Compare(netip.MustParseAddr(b)) })
		if got := f.addresses("*.example"); !slices.Equal(got, slices.Compact(want)) || heldBack == 0 {
			t.Fatalf("seed %d: learned %v, want %v; %d segments held", start+n, got, want, heldBack)
		}
	}
}

// TestSegmentSentAgain: what a resolver sends again because we hold it is held as well.
func TestSegmentSentAgain(t *testing.T) {
	f := newNames(t, "*.example")
	m := framed(fqdntest.Message(t, 1, "a.example", 60, fqdntest.Record{Name: "a.example", Value: "192.0.2.1"}))
	f.segment(asker, 0, nil, begins)
	for _, c := range []struct {
		what string
		part []byte
		at   uint32
		gone bool
	}{{"the first half", m[:20], 1, true}, {"the rest", m[20:], 21, false}, {"the rest again", m[20:], 21, false}, {"nothing but an acknowledgement", nil, 1 + uint32(len(m)), true}} {
		if gone := f.segment(asker, c.at, c.part, nil); gone != c.gone {
			t.Errorf("%s: let go: %t", c.what, gone)
		}
	}
	f.enforce()
	if !f.segment(asker, 21, m[20:], nil) {
		t.Error("held although its addresses are in force")
	}
}

// TestStreamsAreBounded: of a client that opens many connections to a resolver, or leaves messages
// unfinished, its own are forgotten, and no other client's.
func TestStreamsAreBounded(t *testing.T) {
	f := newNames(t, "*.example")
	m := framed(fqdntest.Message(t, 1, "a.example", 60, fqdntest.Record{Name: "a.example", Value: "192.0.2.1"}))
	f.segment(asker, 0, nil, begins)
	f.segment(asker, 1, m[:10], nil)
	hostile := netip.MustParseAddr("10.0.0.66")
	for i := range 2000 {
		to := netip.AddrPortFrom(hostile, uint16(1024+i))
		f.segment(to, 0, nil, begins)
		f.segment(to, 1, append([]byte{0xff, 0xff}, make([]byte, 60_000)...), nil)
		for k := range uint32(100) { // and what is far ahead
			f.segment(to, 61_000+k*100, make([]byte, 90), nil)
		}
	}
	if got := f.addresses("*.example"); len(got) > 0 {
		t.Fatalf("learned %v", got)
	}
	if gone := f.segment(asker, 11, m[10:], nil); gone || len(f.addresses("*.example")) != 1 {
		t.Errorf("the stream of another was forgotten: let go %t, learned %v", gone, f.addresses("*.example"))
	}
}

// TestStreamWithoutBeginning: an agent that starts while a connection is there takes the next
// segment for the beginning of a message.
func TestStreamWithoutBeginning(t *testing.T) {
	f := newNames(t, "*.example")
	m := framed(fqdntest.Message(t, 1, "a.example", 60, fqdntest.Record{Name: "a.example", Value: "192.0.2.1"}))
	if !f.segment(asker, 77, m[:20], nil) || f.segment(asker, 97, m[20:], nil) || len(f.addresses("*.example")) != 1 {
		t.Errorf("learned %v", f.addresses("*.example"))
	}
	last := framed(fqdntest.Message(t, 1, "b.example", 60, fqdntest.Record{Name: "b.example", Value: "192.0.2.2"}))
	f.segment(netip.MustParseAddrPort("10.0.0.8:1"), 5, last, func(p *kernel.Queued) { p.Ends = true })
	if got := f.addresses("*.example"); len(got) != 2 {
		t.Errorf("learned %v", got)
	}
}
