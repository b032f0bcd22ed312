package kernel_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/conntrack"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// guard is a program that drops some ports of TCP and UDP, in one direction or both.
func guard(drop map[ruleset.Direction][]uint16) *ruleset.Program {
	p := &ruleset.Program{Chains: map[string]*ruleset.Chain{}}
	for _, d := range []ruleset.Direction{ruleset.Ingress, ruleset.Egress} {
		c := &ruleset.Chain{
			Rules: []ruleset.Rule{{Matches: []ruleset.Match{{Kind: ruleset.MatchDead}}, Action: ruleset.Drop}, {Matches: []ruleset.Match{{Kind: ruleset.MatchEstablished}}, Action: ruleset.Accept}},
		}
		for _, port := range drop[d] {
			for _, protocol := range []uint8{ruleset.TCP, ruleset.UDP} {
				c.Rules = append(c.Rules, ruleset.Rule{Action: ruleset.Drop,
					Matches: []ruleset.Match{{Kind: ruleset.MatchProtocol, Lo: uint16(protocol)}, {Kind: ruleset.MatchPort, Lo: port, Hi: port}}})
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
	var cutter *conntrack.Connections
	if err := l.host.Do(func() (err error) { cutter, err = conntrack.Open(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cutter.Close() })
	cutter.Local = func() ([]netip.Addr, error) { return []netip.Addr{local4, local6}, nil }
	enforce := func(p *ruleset.Program) int {
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
		dir  ruleset.Direction
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
				for _, d := range []ruleset.Direction{ruleset.Ingress, ruleset.Egress} {
					a := nfttest.Attempt{From: l.peers, Network: network, Source: netip.AddrPortFrom(there, uint16(l.port.Add(1))), Destination: netip.AddrPortFrom(here, port)}
					if d == ruleset.Egress {
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
	if n := enforce(guard(map[ruleset.Direction][]uint16{ruleset.Ingress: {80}, ruleset.Egress: {81}})); n != 8 {
		t.Errorf("%d connections were cut, want 8", n)
	}
	check("tightened", func(h held) bool { return (h.dir == ruleset.Ingress) == (h.port == 81) })
	if n := enforce(guard(nil)); n != 0 {
		t.Errorf("%d connections were cut by a policy that allows all", n)
	}
	check("loosened", func(held) bool { return true })
}
