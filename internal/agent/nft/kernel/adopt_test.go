package kernel_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel/conntrack"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// pair are both ends of a connection.
type pair struct {
	name        string
	here, there net.Conn
}

// say lets one end speak, and reports whether the other one hears it.
func say(from, to net.Conn, limit time.Duration) bool {
	_ = from.SetDeadline(time.Now().Add(limit))
	_ = to.SetDeadline(time.Now().Add(limit))
	if _, err := from.Write([]byte("x")); err != nil {
		return false
	}
	_, err := to.Read(make([]byte, 16)) // what was sent before comes with it
	return err == nil
}

// join makes a connection between two hosts, to a port where nobody else listens. The one that
// listens goes on doing so unless it leaves.
func join(t *testing.T, from, to *nfttest.Host, network string, source, destination netip.AddrPort, leaves bool) (client, server net.Conn) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a := nfttest.Attempt{From: from, Network: network, Source: source, Destination: destination}
	if network == "udp" {
		// Both ends are connected sockets, as in servers that make one for each client.
		var here, there net.Conn
		check(to.Do(func() (err error) {
			d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(destination)}
			there, err = d.Dial("udp", source.String())
			return err
		}))
		here, err := a.Open(patient)
		check(err)
		t.Cleanup(func() { _, _ = here.Close(), there.Close() })
		return here, there
	}
	var l net.Listener
	check(to.Do(func() (err error) { l, err = net.Listen("tcp", destination.String()); return err }))
	client, err := a.Open(patient)
	check(err)
	server, err = l.Accept()
	check(err)
	if leaves {
		check(l.Close())
	} else {
		t.Cleanup(func() { _ = l.Close() })
	}
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

// isolating is a program that lets in, and out, connections to some ports only, of the directions
// that it names.
func isolating(open map[ruleset.Direction][]uint16) *ruleset.Program {
	p := guard(nil)
	for d, ports := range open {
		c := p.Chains[d.String()]
		c.Rules = append(c.Rules, ruleset.Rule{Matches: []ruleset.Match{{Kind: ruleset.MatchNeighbour}}, Action: ruleset.Accept})
		for _, port := range ports {
			c.Rules = append(c.Rules, ruleset.Rule{Action: ruleset.Accept, Matches: []ruleset.Match{{Kind: ruleset.MatchProtocol, Lo: uint16(ruleset.TCP)}, {Kind: ruleset.MatchPort, Lo: port, Hi: port}}})
		}
		c.Rules = append(c.Rules, ruleset.Rule{Action: ruleset.Drop})
	}
	return p
}

// opened opens the table and the connections of the lab's host, joined as in an agent.
func (l *lab) opened(t *testing.T) *conntrack.Connections {
	t.Helper()
	var c *conntrack.Connections
	if err := l.host.Do(func() (err error) { c, err = conntrack.Open(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	c.Local = func() ([]netip.Addr, error) { return []netip.Addr{local4, local6}, nil }
	l.table.Adopt = func() {
		if err := c.Adopt(); err != nil {
			t.Error(err)
		}
	}
	return c
}

func (l *lab) enforce(t *testing.T, c *conntrack.Connections, p *ruleset.Program) int {
	t.Helper()
	if _, err := l.table.Apply(p); err != nil {
		t.Fatal(err)
	}
	n, err := c.Cut(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestConnectionsOlderThanTheRules makes connections on a host without connection tracking, and
// brings rules there. Whichever end speaks first then, those that are allowed go on, and the others
// end: also where the listener has left, so that only ports show which end connected.
func TestConnectionsOlderThanTheRules(t *testing.T) {
	for _, first := range []string{"this end", "the other end"} {
		t.Run(strings.ReplaceAll(first, " ", "-"), func(t *testing.T) {
			l := newLab(t)
			cutter := l.opened(t)
			var allowed, denied []pair
			port := uint16(45000)
			for _, here := range []netip.Addr{local4, local6} {
				there := peers4[1]
				if here.Is6() {
					there = peers6[1]
				}
				for _, leaves := range []bool{false, true} {
					for _, service := range []uint16{180, 181} {
						// Each has a service of its own, so that an end that has left listens
						// nowhere.
						if service += 2 * (port % 100); leaves {
							service += 1000
						}
						port++
						at := func(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }
						client, server := join(t, l.host, l.peers, "tcp", at(here, port), at(there, service), leaves)
						allowed = append(allowed, pair{fmt.Sprintf("out %s %d, leaves %t", here, service, leaves), client, server})
						client, server = join(t, l.peers, l.host, "tcp", at(there, port), at(here, service), leaves)
						p := pair{fmt.Sprintf("in %s %d, leaves %t", here, service, leaves), server, client}
						if service%2 == 0 {
							allowed = append(allowed, p)
						} else {
							denied = append(denied, p)
						}
					}
				}
				port++
				here2, there2 := join(t, l.host, l.peers, "udp", netip.AddrPortFrom(here, port), netip.AddrPortFrom(there, 700), false)
				allowed = append(allowed, pair{fmt.Sprintf("out %s udp", here), here2, there2})
			}
			var open []uint16
			for n := uint16(180); n < 1600; n += 2 {
				open = append(open, n)
			}
			program := isolating(map[ruleset.Direction][]uint16{ruleset.Ingress: open})
			if _, err := l.table.Apply(program); err != nil {
				t.Fatal(err)
			}
			speak := func(p pair, limit time.Duration) bool {
				if first == "this end" {
					return say(p.here, p.there, limit) && say(p.there, p.here, limit)
				}
				return say(p.there, p.here, limit) && say(p.here, p.there, limit)
			}
			for _, p := range allowed {
				if !speak(p, patient) {
					t.Errorf("%s is dropped before anybody has judged it", p.name)
				}
			}
			if n, err := cutter.Cut(t.Context(), program); err != nil || n != len(denied) {
				t.Errorf("%d were cut, %v; want %d", n, err, len(denied))
			}
			for _, p := range allowed {
				if !speak(p, patient) {
					t.Errorf("%s is cut", p.name)
				}
			}
			for _, p := range denied {
				if speak(p, soon) {
					t.Errorf("%s goes on", p.name)
				}
			}
			// It is all the same when others make conntrack forget everything.
			if err := l.host.Handle.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
				t.Fatal(err)
			}
			if _, err := cutter.Cut(t.Context(), program); err != nil {
				t.Fatal(err)
			}
			for _, p := range allowed {
				if !strings.HasSuffix(p.name, "udp") && !speak(p, patient) {
					t.Errorf("%s is cut after conntrack has forgotten it", p.name)
				}
			}
			for _, p := range denied {
				if speak(p, soon) {
					t.Errorf("%s lives again after conntrack has forgotten it", p.name)
				}
			}
		})
	}
}

// TestWayOfConnectionUnknown: neither sockets nor ports show which end made a connection, and
// conntrack has picked it up by a packet of the other end. It goes on while it is allowed one way
// round, and ends when it is not at all.
func TestWayOfConnectionUnknown(t *testing.T) {
	l := newLab(t)
	cutter := l.opened(t)
	client, server := join(t, l.host, l.peers, "tcp", netip.AddrPortFrom(local4, 45001), netip.AddrPortFrom(peers4[1], 45002), true)
	p := pair{"out", client, server}
	l.table.Adopt = nil // so that conntrack sees the other end first
	if n := l.enforce(t, cutter, guard(nil)); n != 0 {
		t.Errorf("%d were cut where all is allowed", n)
	}
	if !say(p.there, p.here, patient) {
		t.Fatal("it does not work")
	}
	if n := l.enforce(t, cutter, isolating(map[ruleset.Direction][]uint16{ruleset.Ingress: nil})); n != 0 || !say(p.there, p.here, patient) {
		t.Errorf("%d were cut that egress allows", n)
	}
	if n := l.enforce(t, cutter, isolating(map[ruleset.Direction][]uint16{ruleset.Ingress: nil, ruleset.Egress: nil})); n != 1 || say(p.here, p.there, soon) {
		t.Errorf("%d were cut that nothing allows", n)
	}
	if n := l.enforce(t, cutter, guard(nil)); n != 0 || !say(p.here, p.there, patient) {
		t.Errorf("it does not live again when it is allowed again")
	}
}

// TestConnectionsWithoutRoomForLabels: conntrack has followed a connection before the first rule
// that uses labels, for somebody else. It ends all the same when it is not allowed any more.
func TestConnectionsWithoutRoomForLabels(t *testing.T) {
	l := newLab(t)
	cutter := l.opened(t)
	// Rules of somebody else that look at connections.
	var other *kernel.Table
	if err := l.host.Do(func() (err error) { other, err = kernel.Open("other"); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	plain := &ruleset.Program{Chains: map[string]*ruleset.Chain{"ingress": {Rules: []ruleset.Rule{{Matches: []ruleset.Match{{Kind: ruleset.MatchEstablished}}, Action: ruleset.Accept}}}}}
	if _, err := other.Apply(plain); err != nil {
		t.Fatal(err)
	}
	client, server := join(t, l.peers, l.host, "tcp", netip.AddrPortFrom(peers4[1], 45001), netip.AddrPortFrom(local4, 181), false)
	if !say(client, server, patient) {
		t.Fatal("it does not work")
	}
	if list, err := l.host.Handle.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET); err != nil || len(list) == 0 {
		t.Fatalf("nobody follows it: %v", err)
	}
	if n := l.enforce(t, cutter, isolating(map[ruleset.Direction][]uint16{ruleset.Ingress: {180}})); n != 1 || say(client, server, soon) {
		t.Errorf("%d were cut", n)
	}
	if n := l.enforce(t, cutter, guard(nil)); n != 0 || !say(client, server, patient) {
		t.Errorf("it does not live again, %d were cut", n)
	}
}
