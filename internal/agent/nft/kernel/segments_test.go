package kernel_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// tunnelled is a client outside of the cluster and a Pod of another Node, both with an MTU of 1500,
// and the Node between them, which reaches the Pod by a link where 1400 bytes fit. The Node tells
// no one that a packet is too large, as if the way back were closed to that.
type tunnelled struct {
	*testing.T
	client, node, pod *nfttest.Host
}

func newTunnelled(t *testing.T, link string) *tunnelled {
	t.Helper()
	l := &tunnelled{t, nfttest.NewHost(t), nfttest.NewHost(t), nfttest.NewHost(t)}
	prefixes := func(four, six string) []netip.Prefix {
		return []netip.Prefix{netip.MustParsePrefix(four), netip.MustParsePrefix(six)}
	}
	nfttest.Connect(t, l.client, l.node, prefixes("192.0.2.2/24", "2001:db8::2/64"), prefixes("192.0.2.1/24", "2001:db8::1/64"))
	nfttest.Connect(t, l.pod, l.node, prefixes("10.244.1.2/24", "fd00:1::2/64"), prefixes("10.244.1.1/24", "fd00:1::1/64"))
	routes, err := l.node.Handle.RouteGet(net.ParseIP("10.244.1.2"))
	if err != nil || len(routes) == 0 {
		t.Fatal(err)
	}
	narrow, err := l.node.Handle.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.node.Handle.LinkSetDown(narrow), l.node.Handle.LinkSetName(narrow, link), l.node.Handle.LinkSetMTU(narrow, 1400), l.node.Handle.LinkSetUp(narrow)); err != nil {
		t.Fatal(err)
	}
	six := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP("fd00:1::1"), Mask: net.CIDRMask(64, 128)}, Flags: unix.IFA_F_NODAD}
	if err := l.node.Handle.AddrReplace(narrow, six); err != nil { // the kernel has taken it with the link
		t.Fatal(err)
	}
	for h, gateways := range map[*nfttest.Host][]string{l.client: {"192.0.2.1", "2001:db8::1"}, l.pod: {"10.244.1.1", "fd00:1::1"}} {
		for _, g := range gateways {
			if err := h.Handle.RouteAdd(&netlink.Route{Gw: net.ParseIP(g)}); err != nil {
				t.Fatalf("by %s: %v", g, err)
			}
		}
	}
	if err := l.node.Do(func() error {
		return errors.Join(os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0), os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0), deafen())
	}); err != nil {
		t.Fatal(err)
	}
	return l
}

// deafen lets the host of this thread say to no one that a packet is too large.
func deafen() error {
	conn := &nftables.Conn{}
	table := conn.AddTable(&nftables.Table{Name: "deaf", Family: nftables.TableFamilyINet})
	chain := conn.AddChain(&nftables.Chain{Name: "out", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter})
	for protocol, kind := range map[byte][]byte{unix.IPPROTO_ICMP: {3, 4}, unix.IPPROTO_ICMPV6: {2, 0}} {
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{protocol}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Len: 2}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: kind},
			&expr.Verdict{Kind: expr.VerdictDrop},
		}})
	}
	return conn.Flush()
}

// carries reports whether a connection carries so many bytes each way within a time, and the
// largest segment that its ends send then.
func (l *tunnelled) carries(to netip.AddrPort, size int, limit time.Duration) (segments [2]int, err error) {
	l.Helper()
	var server net.Listener
	if err := l.pod.Do(func() (err error) { server, err = net.Listen("tcp", to.String()); return err }); err != nil {
		l.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	exchange := func(c net.Conn) (segment int, err error) {
		sent := make(chan error, 1)
		go func() {
			_, err := c.Write(make([]byte, size))
			sent <- err
		}()
		_, err = io.CopyN(io.Discard, c, int64(size))
		if err = errors.Join(err, <-sent); err != nil {
			return 0, err
		}
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			return 0, err
		}
		var inner error
		err = raw.Control(func(fd uintptr) { segment, inner = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG) })
		return segment, errors.Join(err, inner)
	}
	theirs := make(chan error, 1)
	go func() {
		c, err := server.Accept()
		if err == nil {
			_ = c.SetDeadline(time.Now().Add(limit))
			segments[1], err = exchange(c)
			_ = c.Close()
		}
		theirs <- err
	}()
	var c net.Conn
	if err := l.client.Do(func() (err error) { c, err = net.DialTimeout("tcp", to.String(), limit); return err }); err != nil {
		return segments, fmt.Errorf("connect: %w", err)
	}
	_ = c.SetDeadline(time.Now().Add(limit))
	segments[0], err = exchange(c)
	_ = c.Close()
	return segments, errors.Join(err, <-theirs)
}

// TestSegments: connections from outside to a Pod of another Node use packets that fit between the
// Nodes, though neither end hears that larger ones are dropped. Without the rules they stall.
func TestSegments(t *testing.T) {
	for _, link := range []string{ruleset.WrappedLink, ruleset.SealedLink} {
		t.Run(link, func(t *testing.T) {
			l := newTunnelled(t, link)
			table := open(t, l.node)
			network := &nft.Network{Own: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")}, NoSNAT: true}
			if link == ruleset.SealedLink {
				network.Sealed = []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:1::/64")}
			} else {
				network.Wraps, network.Port = true, 4789
			}
			program := new(nft.Compiler).Compile(nft.Input{Node: &nft.Node{Network: network}}).Program
			for to, most := range map[string]int{"10.244.1.2:8080": 1360, "[fd00:1::2]:8080": 1340} {
				at := netip.MustParseAddrPort(to)
				if _, err := table.Apply(ruleset.LetPass()); err != nil {
					t.Fatal(err)
				}
				if segments, err := l.carries(at, 256<<10, 1500*time.Millisecond); err == nil {
					t.Errorf("%s: without the rules it is carried in segments of %d: so this shows nothing", to, segments)
				}
				if _, err := table.Apply(program); err != nil {
					t.Fatal(err)
				}
				verify(t, table, program)
				segments, err := l.carries(at, 256<<10, 20*time.Second)
				if err != nil {
					t.Errorf("%s: %v", to, err)
				}
				for _, s := range segments {
					if s > most || s < most-40 {
						t.Errorf("%s: segments of %d, want a little less than %d", to, segments, most)
					}
				}
			}
			if lacks := table.Lacks(); len(lacks) > 0 {
				t.Logf("the kernel lacks %v", lacks)
			}
			if err := table.Close(); err != nil {
				t.Fatal(err)
			}
			next := open(t, l.node)
			if w, err := next.Apply(program); err != nil || w.Whole || w.Rules+w.Chains > 0 {
				t.Errorf("adopting wrote %+v, %v", w, err)
			}
		})
	}
}
