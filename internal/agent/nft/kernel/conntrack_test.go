package kernel_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
)

// guard is a program that drops some ports of TCP and UDP, in one direction or both.
func guard(drop map[nft.Direction][]uint16) *nft.Program {
	p := &nft.Program{Chains: map[string]*nft.Chain{}}
	for _, d := range []nft.Direction{nft.Ingress, nft.Egress} {
		c := &nft.Chain{
			Rules: []nft.Rule{{Matches: []nft.Match{{Kind: nft.MatchDead}}, Action: nft.Drop}, {Matches: []nft.Match{{Kind: nft.MatchEstablished}}, Action: nft.Accept}},
		}
		for _, port := range drop[d] {
			for _, protocol := range []uint8{nft.TCP, nft.UDP} {
				c.Rules = append(c.Rules, nft.Rule{Action: nft.Drop,
					Matches: []nft.Match{{Kind: nft.MatchProtocol, Lo: uint16(protocol)}, {Kind: nft.MatchPort, Lo: port, Hi: port}}})
			}
		}
		p.Chains[d.String()] = c
	}
	return p
}

// echoes reports whether a connection still carries data both ways.
func echoes(c net.Conn, limit time.Duration) bool {
	_ = c.SetDeadline(time.Now().Add(limit))
	if _, err := c.Write([]byte("x")); err != nil {
		return false
	}
	_, err := c.Read(make([]byte, 1))
	return err == nil
}

// TestEstablishedConnectionsObey holds connections open while policies change: those that are not
// allowed any more end, in both directions, the others go on, and one that is allowed again lives
// again.
func TestEstablishedConnectionsObey(t *testing.T) {
	l := newLab(t)
	var cutter *kernel.Connections
	if err := l.host.Do(func() (err error) { cutter, err = kernel.OpenConnections(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cutter.Close() })
	cutter.Local = func() ([]netip.Addr, error) { return []netip.Addr{local4, local6}, nil }
	enforce := func(p *nft.Program) int {
		t.Helper()
		if _, err := l.table.Apply(p); err != nil {
			t.Fatal(err)
		}
		n, err := cutter.Cut(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	enforce(guard(nil))
	type held struct {
		net.Conn
		name string
		dir  nft.Direction
		port uint16
	}
	var all []held
	for _, network := range []string{"tcp", "udp"} {
		for _, here := range []netip.Addr{local4, local6} {
			there := peers4[1]
			if here.Is6() {
				there = peers6[1]
			}
			for _, port := range []uint16{80, 81} {
				for _, d := range []nft.Direction{nft.Ingress, nft.Egress} {
					a := nfttest.Attempt{From: l.peers, Network: network, Source: netip.AddrPortFrom(there, uint16(l.port.Add(1))), Destination: netip.AddrPortFrom(here, port)}
					if d == nft.Egress {
						a = nfttest.Attempt{From: l.host, Network: network, Source: netip.AddrPortFrom(here, uint16(l.port.Add(1))), Destination: netip.AddrPortFrom(there, port)}
					}
					c, err := a.Open(patient)
					if err != nil {
						t.Fatal(a, err)
					}
					defer func() { _ = c.Close() }()
					if !echoes(c, patient) {
						t.Fatalf("%s does not work", a)
					}
					all = append(all, held{c, d.String() + " " + a.String(), d, port})
				}
			}
		}
	}
	check := func(when string, alive func(h held) bool) {
		t.Helper()
		for _, h := range all {
			limit := patient
			if !alive(h) {
				limit = soon
			}
			if got := echoes(h, limit); got != alive(h) {
				t.Errorf("%s: %s alive: %t", when, h.name, got)
			}
		}
	}
	if n := enforce(guard(map[nft.Direction][]uint16{nft.Ingress: {80}, nft.Egress: {81}})); n != 8 {
		t.Errorf("%d connections were cut, want 8", n)
	}
	check("tightened", func(h held) bool { return (h.dir == nft.Ingress) == (h.port == 81) })
	if n := enforce(guard(nil)); n != 0 {
		t.Errorf("%d connections were cut by a policy that allows all", n)
	}
	check("loosened", func(held) bool { return true })
}
