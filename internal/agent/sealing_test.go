package agent_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/network/ipsec"
	"github.com/nephele-io/nephele/internal/agent/network/wireguard"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/agent/nodenetwork"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/tier"
)

// seal gives a Node its keys, and the means to encrypt.
func (n *netNode) seal(o *nodenetwork.Options, byKernel bool) {
	n.t.Helper()
	o.Publish = func(_ context.Context, p nodenetwork.Published) error {
		value := func(text string) string {
			if text == "" {
				return "null"
			}
			return fmt.Sprintf("%q", text)
		}
		return n.publish(fmt.Sprintf(`{"metadata":{"annotations":{%q:%s,%q:%s}}}`, cloudv1alpha1.AnnotationWireGuardKey, value(p.Key), cloudv1alpha1.AnnotationIPsecIdentity, value(p.Identity)))
	}
	if n.sealer != nil {
		n.sealer.Close()
	}
	n.kernel.Seal(nil)
	n.kernel.SealIPsec(nil)
	switch {
	case n.config.Encryption.IPsec():
		n.charon.options(o)
		return
	case n.charon != nil:
		n.site.must(ipsec.Leave(n.charon.socket()))
	}
	if n.config.Encryption == "" || n.config.Encryption == network.NoEncryption {
		return
	}
	keys, err := wireguard.OpenKeys(n.keys)
	n.site.must(err)
	o.Keys = keys
	n.sealer = wireguard.New(wireguard.Options{Keys: keys, Handle: n.kernel.Handle(), Do: n.host.Do, InAgent: !byKernel, Log: n.log})
	n.kernel.Seal(n.sealer)
	n.t.Cleanup(n.sealer.Close)
}

// publish changes the object of a Node.
func (n *netNode) publish(patch string) error {
	_, err := n.site.client.CoreV1().Nodes().Patch(context.Background(), n.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// secret is what Pods say, and nobody else should hear.
const secret = "what Pods say and nobody else should hear"

// wire is what goes over the wire of a Node.
type wire struct {
	mu sync.Mutex
	// sealed counts packets of WireGuard, and clear are those that are of Pods and not encrypted.
	sealed int
	clear  []string
	// pieces counts those that were cut.
	pieces int
}

// listen hears what goes over the wire of a Node until the test ends.
func (s *site) listen(n *netNode, pods ...string) *wire {
	s.t.Helper()
	var ranges []netip.Prefix
	for _, text := range pods {
		ranges = append(ranges, netip.MustParsePrefix(text))
	}
	link, err := s.router.Handle.LinkByName(n.name)
	s.must(err)
	var fd int
	protocol := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	s.inside(s.router, func() error {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(protocol)); err != nil {
			return err
		}
		return errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 8<<20),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: link.Attrs().Index}))
	})
	w, over, done := &wire{}, make(chan struct{}), make(chan struct{})
	s.t.Cleanup(func() { close(over); <-done; _ = unix.Close(fd) })
	go func() {
		defer close(done)
		b := make([]byte, 1<<16)
		for {
			select {
			case <-over:
				return
			default:
			}
			if size, _, err := unix.Recvfrom(fd, b, 0); err == nil {
				w.hear(b[:size], ranges)
			}
		}
	}()
	return w
}

// hear takes in a packet.
func (w *wire) hear(frame []byte, pods []netip.Prefix) {
	if len(frame) < 14+40 {
		return
	}
	var from, to netip.Addr
	var protocol byte
	var transport []byte
	switch packet := frame[14:]; binary.BigEndian.Uint16(frame[12:]) {
	case unix.ETH_P_IP:
		from, to = netip.AddrFrom4([4]byte(packet[12:])), netip.AddrFrom4([4]byte(packet[16:]))
		protocol, transport = packet[9], packet[int(packet[0]&15)*4:]
	case unix.ETH_P_IPV6:
		from, to = netip.AddrFrom16([16]byte(packet[8:])), netip.AddrFrom16([16]byte(packet[24:]))
		protocol, transport = packet[6], packet[40:]
	default:
		return
	}
	port := uint16(0)
	if protocol == unix.IPPROTO_UDP && len(transport) > 4 {
		port = binary.BigEndian.Uint16(transport[2:])
	}
	of := slices.ContainsFunc(pods, func(p netip.Prefix) bool { return p.Contains(from) || p.Contains(to) })
	w.mu.Lock()
	defer w.mu.Unlock()
	pieces := protocol == unix.IPPROTO_UDP && frame[12] == 8 && binary.BigEndian.Uint16(frame[20:])&0x3fff != 0 || protocol == unix.IPPROTO_FRAGMENT
	switch {
	case pieces:
		w.pieces++
	case of || port == network.DefaultPort || bytes.Contains(frame, []byte(secret)):
		if len(w.clear) < 5 {
			w.clear = append(w.clear, fmt.Sprintf("protocol %d from %s to %s port %d: %x", protocol, from, to, port, frame[:min(len(frame), 100)]))
		}
	case port == network.DefaultWireGuardPort || port == network.IPsecPort:
		w.sealed++
	}
}

func (w *wire) heard() (sealed int, clear []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sealed, slices.Clone(w.clear)
}

// tells sends much of what nobody should hear from a Pod to another one, which sends it back.
func (s *site) tells(from, to *netPod) {
	s.t.Helper()
	said := []byte(strings.Repeat(secret+"\n", 5000))
	for _, a := range to.at {
		s.inside(from.Host, func() error {
			c, err := net.DialTimeout("tcp", netip.AddrPortFrom(a, 80).String(), patient)
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(2 * patient))
			go func() { _, _ = c.Write(said) }()
			got := make([]byte, len(said))
			if _, err := io.ReadFull(c, got); err != nil {
				return err
			}
			if !bytes.Equal(got, said) {
				return errors.New("what came back is something else")
			}
			return nil
		})
	}
}

// meet waits until two Pods reach each other, in both families.
func (s *site) meet(what string, a, b *netPod) {
	s.t.Helper()
	s.nodes[0].eventually(what, func() bool {
		for _, way := range [][2]*netPod{{a, b}, {b, a}} {
			for _, to := range way[1].at {
				if !s.reaches(way[0].Host, way[0].family(to.Is6()), to, 81, time.Second) {
					return false
				}
			}
		}
		return true
	})
}

// apart looks that two Pods do not reach each other.
func (s *site) apart(a, b *netPod) {
	s.t.Helper()
	for _, to := range b.at {
		if s.reaches(a.Host, a.family(to.Is6()), to, 81, impatient) {
			s.t.Errorf("%s reaches %s at %s", a.name, b.name, to)
		}
	}
}

// kernelSeals reports whether the kernel has WireGuard.
func kernelSeals(t *testing.T) bool {
	h := nfttest.NewHost(t)
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "probe"
	return h.Handle.LinkAdd(&netlink.Wireguard{LinkAttrs: attrs}) == nil
}

// TestSealedLink: rules know the device of WireGuard by the name that its maker gives it.
func TestSealedLink(t *testing.T) {
	t.Parallel()
	if network.WireGuardDevice != ruleset.SealedLink {
		t.Errorf("the device of WireGuard is called %s, and rules look for %s", network.WireGuardDevice, ruleset.SealedLink)
	}
}

// TestSealed hears what is on the wire between two Nodes that encrypt, in each mode: packets of
// WireGuard, and nothing of Pods in the clear, whatever becomes of agents and keys.
func TestSealed(t *testing.T) {
	dual := []string{"10.244.N.0/24", "fd00:N::/64"}
	cases := map[string]siteOf{
		"encap":                  {config: network.Config{Mode: network.Encap}, subnets: []int{1, 2}, cidrs: dual, four: true, six: true},
		"hybrid, on one subnet":  {config: network.Config{Mode: network.Hybrid}, subnets: []int{1, 1}, cidrs: dual, four: true, six: true},
		"noEncap, below by IPv6": {config: network.Config{Mode: network.NoEncap}, subnets: []int{1, 2}, cidrs: dual, six: true},
	}
	if kernelSeals(t) {
		of := cases["encap"]
		of.kernel = true
		cases["encap, by the kernel"] = of
	} else {
		t.Log("not proven: WireGuard by the kernel, which has none")
	}
	if !tier.Long() { // the other two go by other ways only when nothing is encrypted
		delete(cases, "noEncap, below by IPv6")
		delete(cases, "encap")
	}
	for name, of := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of.keys, of.meets, of.config.Encryption = true, true, network.ByWireGuard
			testSealed(t, of)
		})
	}
}

func testSealed(t *testing.T, of siteOf) {
	s := newSite(t, of)
	here, there := s.nodes[0], s.nodes[1]
	heard := s.listen(here, "10.244.0.0/16", "fd00::/16")
	here.denies("no80", 1, policy.AppliedTo{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "guarded"}}})
	a, b := here.pod("guarded"), there.pod("free")
	s.meet("Pods reach each other", a, b)
	s.tells(a, b)
	s.both(b, a, 80, false)
	inTheDark := func(when string) {
		t.Helper()
		if _, clear := heard.heard(); len(clear) > 0 {
			t.Fatalf("%s: in the clear: %s", when, strings.Join(clear, "\n"))
		}
	}
	inTheDark("at first")
	heard.mu.Lock()
	pieces := heard.pieces
	heard.mu.Unlock()
	if pieces > 0 {
		t.Errorf("%d packets were cut into pieces", pieces)
	}
	if sealed, _ := heard.heard(); sealed < 20 {
		t.Errorf("%d packets of WireGuard", sealed)
	}
	mtu := 1440
	if !of.four {
		mtu = 1420
	}
	here.eventually("all is well", func() bool { return here.agent.Status().Network.Trouble() == "" })
	st := here.agent.Status().Network
	if e := st.Encrypted; e == nil || e.Nodes != 1 || e.InAgent == of.kernel || st.MTU != mtu || st.Tunnels != 0 || st.Direct != 0 || st.Links[0].Link != "eth0" {
		t.Errorf("%+v %+v, want MTU %d", st, st.Encrypted, mtu)
	}
	// Nothing differs: nothing is written.
	here.made.Sync()
	if now := here.agent.Status().Network; now.Written != st.Written || now.Error != "" {
		t.Errorf("written once more: %+v, before %d", now, st.Written)
	}
	// A Node reaches a Pod elsewhere, encrypted.
	s.inside(here.host, func() error {
		for _, to := range b.at {
			c, err := net.DialTimeout("tcp", netip.AddrPortFrom(to, 80).String(), patient)
			if err != nil {
				return err
			}
			if _, err := c.Write([]byte(secret)); err != nil {
				return err
			}
			_ = c.Close()
		}
		return nil
	})
	// The agent is away: what it encrypts itself is lost meanwhile, and nothing goes another way.
	here.ended()
	if !of.kernel {
		here.sealer.Close()
		s.apart(a, b)
	}
	here.serve()
	s.meet("Pods reach each other after a restart", a, b)
	// Somebody removes the device: nothing goes another way, and it comes back.
	link, err := here.host.Handle.LinkByName(network.WireGuardDevice)
	s.must(err)
	s.must(here.host.Handle.LinkDel(link))
	s.apart(a, b)
	here.made.Sync()
	s.meet("Pods reach each other by another device", a, b)
	// A new key.
	old := there.agent.Status().Network.Encrypted.Key
	renewed, err := there.made.RenewKey()
	s.must(err)
	there.eventually("the key is another one", func() bool { return there.agent.Status().Network.Encrypted.Key == renewed.String() })
	if renewed.String() == old {
		t.Error("the new key is the old one")
	}
	s.meet("Pods reach each other by the new key", a, b)
	// The other one has told a key that it has not, then none.
	there.ended()
	other, err := wireguard.OpenKeys(t.TempDir())
	s.must(err)
	for _, key := range []string{other.Public().String(), "no key", ""} {
		object := s.object(there)
		if key == "" {
			delete(object.Annotations, cloudv1alpha1.AnnotationWireGuardKey)
		} else {
			object.Annotations = map[string]string{cloudv1alpha1.AnnotationWireGuardKey: key}
		}
		_, err = s.client.CoreV1().Nodes().Update(t.Context(), object, metav1.UpdateOptions{})
		s.must(err)
		want := map[string]string{"": "Node node1 has told no key of WireGuard, so nothing is sent to its Pods", "no key": `"no key", is none`,
			other.Public().String(): "Node node1 does not answer by WireGuard"}[key]
		here.eventually("it is told: "+want, func() bool { return strings.Contains(here.agent.Status().Network.Trouble(), want) })
		s.apart(a, b)
		s.apart(b, a)
	}
	inTheDark("in the end")
	// One that does not encrypt is not heard.
	there.config.Encryption = network.NoEncryption
	if of.config.Mode == network.NoEncap { // whose Nodes are on two subnets
		there.config.Mode = network.Encap
	}
	there.serve()
	s.apart(b, a)
	s.apart(a, b)
	if st := here.agent.Status().Network; st.Encrypted.Nodes != 0 {
		t.Errorf("%+v", st)
	}
}

// TestSealedByAndBy turns encryption on and off again Node by Node while Pods talk, by way of
// sending to those in the clear that have no key.
func TestSealedByAndBy(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1, 2}, cidrs: []string{"10.244.N.0/24", "fd00:N::/64"}, four: true, six: true, keys: true})
	a, b := s.nodes[0].pod("free"), s.nodes[1].pod("free")
	s.meet("Pods reach each other in the clear", a, b)
	for _, encryption := range []network.Encryption{network.ByWireGuardOrClear, network.ByWireGuard, network.ByWireGuardOrClear, network.NoEncryption} {
		for i, n := range s.nodes {
			n.ended()
			n.config.Encryption = encryption
			n.serve()
			s.meet(fmt.Sprintf("Pods reach each other when %s has %s", n.name, encryption), a, b)
			other := s.nodes[1-i].config.Encryption
			both := encryption != network.NoEncryption && other != network.NoEncryption && other != ""
			n.eventually("encrypted or not, as it is to be", func() bool {
				e := n.agent.Status().Network.Encrypted
				return e == nil && encryption == network.NoEncryption || e != nil && (e.Nodes == 1) == both
			})
		}
	}
	for _, n := range s.nodes { // nothing is left
		if o := s.object(n); o.Annotations[cloudv1alpha1.AnnotationWireGuardKey] != "" {
			t.Errorf("%s still tells a key", n.name)
		}
		state, _, err := n.kernel.Observe(network.Look{})
		s.must(err)
		if state.WireGuard != nil || len(state.Ways)+len(state.Rules) > 0 {
			t.Errorf("%s has left %+v", n.name, state)
		}
	}
}

// TestSealedBesides encrypts what is between Nodes whose network another plugin makes, and takes
// all of it away again.
func TestSealedBesides(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOf{config: network.Config{Mode: network.PolicyOnly, Encryption: network.ByWireGuard}, subnets: []int{1, 1}, cidrs: []string{"10.244.N.0/24", "fd00:N::/64"}, four: true, six: true, keys: true})
	heard := s.listen(s.nodes[0], "10.244.0.0/16", "fd00::/16")
	pods := []*netPod{s.theirs(0), s.theirs(1)}
	s.meet("Pods reach each other", pods[0], pods[1])
	s.tells(pods[0], pods[1])
	if sealed, clear := heard.heard(); sealed < 20 || len(clear) > 0 {
		t.Errorf("%d packets of WireGuard, in the clear: %s", sealed, strings.Join(clear, "\n"))
	}
	st := s.nodes[0].agent.Status().Network
	if st.Mode != network.PolicyOnly || st.Encrypted == nil || st.Encrypted.Nodes != 1 || st.Trouble() != "" || len(st.Ranges) > 0 {
		t.Errorf("%+v", st)
	}
	for _, n := range s.nodes {
		n.ended()
		n.config.Encryption = network.NoEncryption
		n.serve()
	}
	s.meet("Pods reach each other in the clear", pods[0], pods[1])
	if state, _, err := s.nodes[0].kernel.Observe(network.Look{}); err != nil || state.WireGuard != nil || len(state.Ways)+len(state.Rules) > 0 {
		t.Errorf("left: %+v, %v", state, err)
	}
}

// theirs is a Pod on a Node whose network another plugin makes, with a route from each Node to the
// Pods of the other one.
func (s *site) theirs(i int) *netPod {
	s.t.Helper()
	n, other := s.nodes[i], s.nodes[1-i]
	p := &netPod{Host: nfttest.NewHost(s.t), node: n, name: fmt.Sprintf("theirs%d", i)}
	file, err := os.Open(p.Path())
	s.must(err)
	s.must(n.host.Handle.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "theirs"}, PeerName: "eth0", PeerNamespace: netlink.NsFd(file.Fd())}))
	s.must(file.Close())
	end, err := n.host.Handle.LinkByName("theirs")
	s.must(err)
	eth0, err := p.Handle.LinkByName("eth0")
	s.must(err)
	s.inside(n.host, func() error {
		return errors.Join(os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644), os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0o644))
	})
	network := func(p netip.Prefix) *net.IPNet {
		return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
	}
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n1", Name: p.name, UID: types.UID(p.name)}, Spec: corev1.PodSpec{NodeName: n.name}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for family, text := range []string{"10.244.%d.%d", "fd00:%d::%d"} {
		gateway, own, far := netip.MustParseAddr(fmt.Sprintf(text, i, 99)), netip.MustParseAddr(fmt.Sprintf(text, i, 77)), netip.MustParseAddr(fmt.Sprintf(text, 1-i, 0))
		bits := own.BitLen()
		s.give(n.host, end, netip.PrefixFrom(gateway, bits).String())
		s.give(p.Host, eth0, netip.PrefixFrom(own, bits).String())
		s.must(n.host.Handle.RouteAdd(&netlink.Route{LinkIndex: end.Attrs().Index, Dst: network(netip.PrefixFrom(own, bits))}))
		s.must(p.Handle.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Dst: network(netip.PrefixFrom(gateway, bits)), Scope: netlink.SCOPE_LINK}))
		s.must(p.Handle.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: gateway.AsSlice()}))
		s.must(n.host.Handle.RouteAdd(&netlink.Route{Dst: network(netip.PrefixFrom(far, []int{24, 64}[family])), Gw: other.at[family].AsSlice()}))
		p.at = append(p.at, own)
		object.Status.PodIPs = append(object.Status.PodIPs, corev1.PodIP{IP: own.String()})
	}
	_, err = s.client.CoreV1().Pods("n1").Create(s.t.Context(), object, metav1.CreateOptions{})
	s.must(err)
	nfttest.Serve(s.t, p.Host, 80, 81, p.at...)
	return p
}

// TestNetworkMigrates takes the network of Nodes over from another plugin that routes between them,
// Node by Node, while Pods of it talk, and gives it back.
func TestNetworkMigrates(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOf{config: network.Config{Mode: network.PolicyOnly}, subnets: []int{1, 1}, cidrs: []string{"10.244.N.0/24", "fd00:N::/64"}, four: true, six: true})
	theirs := []*netPod{s.theirs(0), s.theirs(1)}
	s.meet("Pods of the other plugin reach each other", theirs[0], theirs[1])
	asking := s.ask(theirs[0], theirs[1])
	var ours []*netPod
	for i, n := range s.nodes {
		n.ended()
		n.config.Mode = network.NoEncap
		n.serve()
		if p := n.agent.Status().Network.Problems; len(p) != 2 || !strings.Contains(p[0], "somebody else routes") {
			t.Errorf("%s: it is told: %q", n.name, p)
		}
		p := n.pod("free")
		ours = append(ours, p)
		for _, other := range theirs {
			s.meet(fmt.Sprintf("a new Pod on %s and one of the other plugin on %s reach each other", n.name, other.node.name), p, other)
		}
		if i == 1 {
			s.meet("new Pods reach each other", ours[0], ours[1])
		}
	}
	asking.none(t, "the Nodes are taken over")
	asking = s.ask(ours[0], ours[1])
	for i, n := range s.nodes { // the routes of the other plugin go, and ours come
		routes, err := n.host.Handle.RouteList(nil, netlink.FAMILY_ALL)
		s.must(err)
		for _, r := range routes {
			if r.Gw != nil && r.Gw.Equal(net.IP(s.nodes[1-i].at[0].AsSlice())) || r.Gw != nil && r.Gw.Equal(net.IP(s.nodes[1-i].at[1].AsSlice())) {
				s.must(n.host.Handle.RouteDel(&r))
			}
		}
		n.made.Sync()
		if st := n.agent.Status().Network; st.Direct != 1 || st.Trouble() != "" {
			t.Errorf("%s: %+v", n.name, st)
		}
	}
	close(asking.stop) // between the one and the other packets may be lost
	asking.done.Wait()
	s.meet("Pods reach each other by our routes", ours[0], ours[1])
	asking = s.ask(ours[0], theirs[1])
	for _, n := range s.nodes { // and back: Pods that have our network keep it
		n.ended()
		n.config.Mode = network.PolicyOnly
		n.serve()
		s.meet("Pods reach each other when "+n.name+" is given back", ours[0], ours[1])
	}
	asking.none(t, "the Nodes are given back")
}
