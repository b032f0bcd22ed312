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

	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
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
func (f *fixture) serveNames(zone map[string][]record) {
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
func serveZone(t *testing.T, h *nfttest.Host, at netip.Addr, zone map[string][]record) {
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
		return message(t, head.ID, name, 60, zone[name]...)
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
