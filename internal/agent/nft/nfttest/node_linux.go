package nfttest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Lab is a Node with Pods and others around it, each a network namespace.
type Lab struct {
	Node, Peers *Host
	// Pods holds the Pods of NodeWorld. The first half are ports of one bridge, as with the CNI
	// plugin bridge; the others have a route of their own each, as with ptp.
	Pods []*Host
	// Peers4 and Peers6 are the addresses of the machines around it.
	Peers4, Peers6 []netip.Addr
}

// FirstPort and LastPort are where everybody in a Lab serves: around what random rules are about.
const FirstPort, LastPort = 78, 93

// NewLab makes a Lab.
func NewLab(t testing.TB) *Lab {
	t.Helper()
	l := &Lab{Node: NewHost(t), Peers: NewHost(t)}
	var there []netip.Prefix
	add := func(a netip.Addr) {
		there = append(there, netip.PrefixFrom(a, a.BitLen()))
		if a.Is4() {
			l.Peers4 = append(l.Peers4, a)
		} else {
			l.Peers6 = append(l.Peers6, a)
		}
	}
	for i := PodCount + 1; i < PodCount+4; i++ {
		add(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
		add(netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", i)))
	}
	for i := 1; i < 4; i++ {
		add(netip.AddrFrom4([4]byte{192, 168, 0, byte(i)}))
	}
	node := NodeAddresses()
	there = append(there, netip.MustParsePrefix("10.9.9.1/24"), netip.MustParsePrefix("2001:db8:9::1/64"))
	Connect(t, l.Node, l.Peers, []netip.Prefix{netip.PrefixFrom(node[0], 24), netip.PrefixFrom(node[1], 64)}, there)
	l.route(t, l.Node, "10.9.9.1", "2001:db8:9::1")
	l.route(t, l.Peers, node[0].String(), node[1].String())
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "cni0"}}
	l.must(t, l.Node.Handle.LinkAdd(bridge))
	l.address(t, l.Node, "cni0", "10.0.0.254/32", "2001:db8::fe/128")
	for n := range PodCount {
		l.pod(t, n, bridge)
	}
	l.must(t, l.Node.Do(func() error {
		for _, name := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"} {
			if err := os.WriteFile("/proc/sys/"+name, []byte("1"), 0o644); err != nil {
				return err
			}
		}
		return nil
	}))
	Serve(t, l.Node, FirstPort, LastPort, node...)
	Serve(t, l.Peers, FirstPort, LastPort, append(append([]netip.Addr{}, l.Peers4...), l.Peers6...)...)
	for n, p := range l.Pods {
		Serve(t, p, FirstPort, LastPort, PodAddresses(n)...)
	}
	return l
}

func (l *Lab) must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pod makes a Pod and brings it to the Node.
func (l *Lab) pod(t testing.TB, n int, bridge *netlink.Bridge) {
	t.Helper()
	pod := NewHost(t)
	l.Pods = append(l.Pods, pod)
	name := fmt.Sprintf("pod%d", n)
	l.must(t, l.Node.Handle.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "eth0", PeerNamespace: netlink.NsFd(pod.fd.Fd())}))
	outside, err := l.Node.Handle.LinkByName(name)
	l.must(t, err)
	l.must(t, l.Node.Handle.LinkSetUp(outside))
	gateway4, gateway6 := "169.254.1.1", "fe80::1"
	bridged := n < PodCount/2
	if bridged {
		gateway4, gateway6 = "10.0.0.254", "2001:db8::fe"
		l.must(t, l.Node.Handle.LinkSetMaster(outside, bridge))
		l.must(t, l.Node.Handle.LinkSetHairpin(outside, true)) // so that a Pod reaches itself through a Service
	} else {
		l.address(t, l.Node, name, gateway4+"/32", gateway6+"/64")
	}
	a := PodAddresses(n)
	l.address(t, pod, "eth0", a[0].String()+"/32", a[1].String()+"/128")
	inside, err := pod.Handle.LinkByName("eth0")
	l.must(t, err)
	near := []netip.Addr{netip.MustParseAddr(gateway4), netip.MustParseAddr(gateway6)}
	for other := range PodCount / 2 {
		if bridged && other != n {
			near = append(near, PodAddresses(other)...)
		}
	}
	for _, to := range near {
		l.must(t, pod.Handle.RouteReplace(&netlink.Route{LinkIndex: inside.Attrs().Index, Dst: network(netip.PrefixFrom(to, to.BitLen())), Scope: netlink.SCOPE_LINK}))
	}
	l.route(t, pod, gateway4, gateway6)
	link := outside.Attrs().Index
	if bridged {
		link = bridge.Attrs().Index
	}
	for _, to := range a {
		l.must(t, l.Node.Handle.RouteReplace(&netlink.Route{LinkIndex: link, Dst: network(netip.PrefixFrom(to, to.BitLen())), Scope: netlink.SCOPE_LINK}))
	}
}

// address gives a link addresses and sets it up.
func (l *Lab) address(t testing.TB, h *Host, name string, addresses ...string) {
	t.Helper()
	link, err := h.Handle.LinkByName(name)
	l.must(t, err)
	for _, text := range addresses {
		a, err := netlink.ParseAddr(text)
		l.must(t, err)
		if a.IP.To4() == nil {
			a.Flags = unix.IFA_F_NODAD
		}
		l.must(t, h.Handle.AddrAdd(link, a))
	}
	l.must(t, h.Handle.LinkSetUp(link))
}

// route leads all else by the gateway of its family.
func (l *Lab) route(t testing.TB, h *Host, gateway4, gateway6 string) {
	t.Helper()
	for _, way := range []struct{ to, by string }{{"0.0.0.0/0", gateway4}, {"::/0", gateway6}} {
		links, err := h.Handle.LinkList()
		l.must(t, err)
		index := 0
		for _, link := range links {
			if link.Type() == "veth" {
				index = link.Attrs().Index // there is one
			}
		}
		l.must(t, h.Handle.RouteAdd(&netlink.Route{LinkIndex: index, Dst: network(netip.MustParsePrefix(way.to)), Gw: net.ParseIP(way.by), Flags: int(netlink.FLAG_ONLINK)}))
	}
}

func network(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Service is a port of a Service address that leads to another place.
type Service struct {
	Port uint16
	To   netip.AddrPort
}

// Translate leads ports of the Service addresses where they are to go, as kube-proxy does in the
// modes iptables and nftables, and masquerades what comes back to where it came from.
func (l *Lab) Translate(t testing.TB, services []Service) {
	t.Helper()
	l.must(t, l.Node.Do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		for _, f := range []struct {
			family  nftables.TableFamily
			service netip.Addr
			proto   byte
			offset  uint32
			size    uint32
		}{{nftables.TableFamilyIPv4, ServiceAddress4, unix.NFPROTO_IPV4, 16, 4}, {nftables.TableFamilyIPv6, ServiceAddress6, unix.NFPROTO_IPV6, 24, 16}} {
			table := c.AddTable(&nftables.Table{Name: "kube-proxy", Family: f.family})
			for _, h := range []struct {
				name string
				hook *nftables.ChainHook
			}{{"prerouting", nftables.ChainHookPrerouting}, {"output", nftables.ChainHookOutput}} {
				chain := c.AddChain(&nftables.Chain{Name: h.name, Table: table, Type: nftables.ChainTypeNAT, Hooknum: h.hook, Priority: nftables.ChainPriorityNATDest})
				for _, s := range services {
					if s.To.Addr().Is4() != f.service.Is4() {
						continue
					}
					for _, protocol := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
						c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
							&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: f.offset, Len: f.size},
							&expr.Cmp{Register: 1, Data: f.service.AsSlice()},
							&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Register: 1, Data: []byte{protocol}},
							&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
							&expr.Cmp{Register: 1, Data: []byte{byte(s.Port >> 8), byte(s.Port)}},
							&expr.Immediate{Register: 1, Data: s.To.Addr().AsSlice()},
							&expr.Immediate{Register: 2, Data: []byte{byte(s.To.Port() >> 8), byte(s.To.Port())}},
							&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(f.proto), RegAddrMin: 1, RegProtoMin: 2},
						}})
					}
					if err := c.Flush(); err != nil { // a message has a limit
						return err
					}
				}
			}
			post := c.AddChain(
				&nftables.Chain{Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource},
			)
			for n := range PodCount {
				for _, a := range PodAddresses(n) {
					if a.Is4() == f.service.Is4() {
						c.AddRule(&nftables.Rule{Table: table, Chain: post, Exprs: []expr.Any{
							&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: f.offset - f.size, Len: f.size},
							&expr.Cmp{Register: 1, Data: a.AsSlice()},
							&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: f.offset, Len: f.size},
							&expr.Cmp{Register: 1, Data: a.AsSlice()}, &expr.Masq{},
						}})
					}
				}
			}
		}
		return c.Flush()
	}))
}
