package kernel_test

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// led is a Node that leads from a Service to a backend.
type led struct {
	client, node, server *nfttest.Host
	service, backend     netip.AddrPort
	listener             net.Listener
}

func newLed(t *testing.T) *led {
	t.Helper()
	l := &led{client: nfttest.NewHost(t), node: nfttest.NewHost(t), server: nfttest.NewHost(t), service: netip.MustParseAddrPort("10.96.0.1:80"), backend: netip.MustParseAddrPort("10.244.2.2:8080")}
	for h, subnet := range map[*nfttest.Host]string{l.client: "10.244.1.", l.server: "10.244.2."} {
		nfttest.Connect(t, h, l.node, []netip.Prefix{netip.MustParsePrefix(subnet + "2/24")}, []netip.Prefix{netip.MustParsePrefix(subnet + "1/24")})
		if err := h.Handle.RouteAdd(&netlink.Route{Gw: net.ParseIP(subnet + "1")}); err != nil {
			t.Fatal(err)
		}
	}
	err := l.node.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) })
	err = errors.Join(err, l.server.Do(func() (err error) { l.listener, err = net.Listen("tcp", l.backend.String()); return err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.listener.Close() })
	pods := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
	balanced := &nft.Balanced{To: ruleset.NewLayered(map[nft.Frontend]*nft.Balance{
		{Address: l.service.Addr(), Protocol: ruleset.TCP, Port: l.service.Port()}: {Backends: []netip.AddrPort{l.backend}},
	})}
	if _, err := open(t, l.node).Apply(new(nft.Compiler).Compile(nft.Input{Node: &nft.Node{Network: &nft.Network{Own: pods, Keep: pods}}, Balanced: balanced}).Program); err != nil {
		t.Fatal(err)
	}
	return l
}

// stray sends a segment of the backend to a client that lies outside of the window.
func (l *led) stray(to netip.AddrPort) error {
	from := l.backend
	segment := binary.BigEndian.AppendUint16(nil, from.Port())
	segment = binary.BigEndian.AppendUint16(segment, to.Port())
	segment = append(segment, 0x7f, 0xff, 0xff, 0xf0, 0x7f, 0xff, 0xff, 0xf0, 0x50, 0x10, 0x10, 0, 0, 0, 0, 0)
	source, target := from.Addr().As4(), to.Addr().As4()
	sum := uint32(unix.IPPROTO_TCP) + uint32(len(segment))
	for _, part := range [][]byte{source[:], target[:], segment} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(segment[16:], ^uint16(sum))
	return l.server.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		if err != nil {
			return err
		}
		return errors.Join(unix.Sendto(fd, segment, 0, &unix.SockaddrInet4{Addr: target}), unix.Close(fd))
	})
}

// TestStraySegments: a segment of a backend that conntrack takes for no part of its connection does
// not come to the client with the address of the backend, which would end the connection.
func TestStraySegments(t *testing.T) {
	l := newLed(t)
	var c net.Conn
	if err := l.client.Do(func() (err error) { c, err = net.DialTimeout("tcp", l.service.String(), 10*time.Second); return err }); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	s, err := l.listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var seen int
	if err := l.client.Do(func() (err error) {
		seen, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(seen) }()
	at := c.LocalAddr().(*net.TCPAddr).AddrPort()
	if err := l.stray(at); err != nil {
		t.Fatal(err)
	}
	// What the connection carries after that has come, so the segment would have come as well.
	if _, err := s.Write([]byte("after")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(got); err != nil || string(got) != "after" {
		t.Errorf("%q, %v: the connection has ended", got, err)
	}
	packet, carried := make([]byte, 100), false
	for {
		n, _, err := unix.Recvfrom(seen, packet, 0)
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		source := netip.AddrFrom4([4]byte(packet[12:16]))
		carried = carried || source == l.service.Addr() && n > 40
		if source == l.backend.Addr() {
			t.Errorf("the client got a segment from %s, with which it has no connection", source)
		}
	}
	if !carried {
		t.Error("what the connection carries was not seen: so this shows nothing")
	}
}
