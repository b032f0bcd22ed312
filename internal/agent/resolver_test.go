package agent_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/dns/dnsmessage"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/fqdn"
	"github.com/nephele-io/nephele/internal/agent/fqdn/fqdntest"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// peerLink gives the peer more addresses.
func (f *fixture) peerLink(addresses ...netip.Addr) {
	f.t.Helper()
	links, err := f.peer.Handle.LinkList()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, l := range links {
		if l.Attrs().Name == "lo" {
			continue
		}
		for _, a := range addresses {
			if err := f.peer.Handle.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(24, 32)}}); err != nil {
				f.t.Fatal(err)
			}
		}
		return
	}
	f.t.Fatal("the peer has no link")
}

// serveNames answers questions about names on port 53 of the peer, by UDP and TCP.
func (f *fixture) serveNames(zone map[string][]fqdntest.Record) {
	f.t.Helper()
	serveZone(f.t, f.peer, peerAddr, zone)
}

// ask asks the peer for a name, from the host.
func (f *fixture) ask(network, name string) error {
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (c net.Conn, err error) {
		outer := f.host.Do(func() error {
			c, err = (&net.Dialer{}).DialContext(ctx, network, netip.AddrPortFrom(peerAddr, 53).String())
			return nil
		})
		return c, errors.Join(outer, err)
	}}
	ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Second)
	defer cancel()
	found, err := r.LookupNetIP(ctx, "ip4", name+".")
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s has no address", name)
	}
	return err
}

// listens reports whether the rules hand the answers of the resolver to the agent.
func (f *fixture) listens() bool {
	known, _ := f.names.Current()
	return len(known.Resolvers) == 1
}

// serveZone answers questions about names on port 53 of an address of a host; by TCP in two
// segments, some time apart.
func serveZone(t testing.TB, h *nfttest.Host, at netip.Addr, zone map[string][]fqdntest.Record) {
	t.Helper()
	answer := func(question []byte) []byte {
		var p dnsmessage.Parser
		head, err := p.Start(question)
		if err != nil {
			return nil
		}
		q, err := p.Question()
		if err != nil {
			return nil
		}
		name := q.Name.String()
		name = name[:len(name)-1]
		return fqdntest.Message(t, head.ID, name, 60, zone[name]...)
	}
	place := netip.AddrPortFrom(at, 53).String()
	err := h.Do(func() error {
		u, err := net.ListenPacket("udp", place)
		if err != nil {
			return err
		}
		l, err := net.Listen("tcp", place)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _, _ = u.Close(), l.Close() })
		go func() {
			b := make([]byte, 1500)
			for {
				n, from, err := u.ReadFrom(b)
				if err != nil {
					return
				}
				_, _ = u.WriteTo(answer(b[:n]), from)
			}
		}()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer func() { _ = c.Close() }()
					var size [2]byte
					if _, err := io.ReadFull(c, size[:]); err != nil {
						return
					}
					question := make([]byte, binary.BigEndian.Uint16(size[:]))
					if _, err := io.ReadFull(c, question); err != nil {
						return
					}
					out := answer(question)
					out = append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)
					_, _ = c.Write(out[:len(out)/2])
					time.Sleep(50 * time.Millisecond) // so that these are two segments
					_, _ = c.Write(out[len(out)/2:])
				}()
			}
		}()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// namesFrom are names that only the answers of a resolver tell of.
func namesFrom(c clock.WithTicker, resolver netip.Addr) *fqdn.Names {
	return fqdn.New(fqdn.Options{Clock: c, Resolvers: func() ([]netip.Addr, error) { return []netip.Addr{resolver}, nil },
		LookUp: func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no look-ups") }})
}

// TestNamesOnAHost asks a resolver for names that policies name, from a host with an agent, and
// connects at once.
func TestNamesOnAHost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	addresses := []netip.Addr{netip.MustParseAddr("10.1.0.3"), netip.MustParseAddr("10.1.0.4"), netip.MustParseAddr("10.1.0.5")}
	f.peerLink(addresses...)
	nfttest.Serve(t, f.peer, 90, 90, addresses...)
	f.serveNames(map[string][]fqdntest.Record{
		"a.good.example": {{Name: "a.good.example", Value: "10.1.0.3"}},
		"b.good.example": {{Name: "b.good.example", Value: "b.net"}, {Name: "b.net", Value: "10.1.0.4"}},
		"evil.net":       {{Name: "evil.net", Value: "10.1.0.5"}, {Name: "c.good.example", Value: "10.1.0.5"}},
	})
	var queue *kernel.Queue
	if err := f.host.Do(func() (err error) { queue, err = kernel.OpenQueue(); return err }); err != nil {
		t.Fatal(err)
	}
	f.names = namesFrom(clock.RealClock{}, peerAddr)
	ended := make(chan error, 1)
	go func() { ended <- queue.Run(f.names.Answer) }()
	t.Cleanup(func() {
		queue.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	running, end := context.WithCancel(t.Context())
	found := make(chan struct{})
	go func() {
		defer close(found)
		f.names.Run(running)
	}()
	t.Cleanup(func() {
		end()
		<-found
	})

	f.engine.PutPolicy(policy.Policy{
		Kind:       policy.AntreaNetworkPolicy,
		Namespace:  "vms",
		Name:       "p",
		UID:        "p",
		Generation: 1,
		Priority:   5,
		AppliedTo:  []policy.AppliedTo{{ExternalEntitySelector: &policy.Selector{MatchLabels: map[string]string{"app": "web"}}}},
		Egress: []policy.Rule{
			{Name: "out", Action: policy.Allow, Peers: []policy.Peer{{FQDN: "*.good.example"}}},
			{Name: "dns", Action: policy.Allow, Peers: []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: peerAddr.String() + "/32"}}}},
		},
	})
	f.source.store.Publish(convert.Delta(f.engine.Commit()))
	a, stop := f.start()
	f.eventually("enforced", func() bool { r := f.reports.of("p"); return r.Generation == 1 && !r.RealizationFailure })
	f.eventually("the resolver is known", func() bool { return a.Status().Names.Names == 1 && f.listens() })
	connect := func(to string, limit time.Duration) error {
		return f.host.Do(func() error {
			c, err := (&net.Dialer{Timeout: limit}).Dial("tcp", net.JoinHostPort(to, "90"))
			if err != nil {
				return err
			}
			return c.Close()
		})
	}
	for _, network := range []string{"udp", "tcp"} {
		name, address := "a.good.example", "10.1.0.3"
		if network == "tcp" {
			name, address = "b.good.example", "10.1.0.4"
		}
		if err := connect(address, 200*time.Millisecond); err == nil {
			t.Fatalf("%s is reachable before its name is known", address)
		}
		for range 3 {
			if err := f.ask(network, name); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.host.Do(func() error { return dialAtOnce(net.JoinHostPort(address, "90")) }); err != nil {
			t.Errorf("%s by %s: not reachable as soon as its name is known: %v", name, network, err)
		}
	}
	if err := f.ask("udp", "evil.net"); err != nil {
		t.Fatal(err)
	}
	if err := connect("10.1.0.5", 200*time.Millisecond); err == nil {
		t.Error("an answer about one name has opened another")
	}
	// What is known is known after a restart, and answers go on while there is no agent.
	stop()
	if err := f.ask("udp", "a.good.example"); err != nil {
		t.Errorf("without an agent: %v", err)
	}
	f.source.away.Store(true)
	f.names = namesFrom(clock.RealClock{}, peerAddr)
	a, _ = f.start()
	f.eventually("what was enforced is loaded", func() bool { return a.Status().Names.Addresses == 2 })
	if err := f.host.Do(func() error { return dialAtOnce("10.1.0.3:90") }); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	f.eventually("that the server is away is told", func() bool { return a.Status().State == agent.StateKept })
}
