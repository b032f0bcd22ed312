package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/network/links"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/control/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// choosing is a cluster that leaves out what field selectors leave out, as the fake one does not.
type choosing struct{ fakeCluster }

// Follow implements agent.Cluster.
func (c choosing) Follow(of schema.GroupVersionResource, namespace string, only func(*metav1.ListOptions)) cache.ListerWatcher {
	var o metav1.ListOptions
	only(&o)
	selector := fields.ParseSelectorOrDie(o.FieldSelector)
	matches := func(x runtime.Object) bool {
		switch x := x.(type) {
		case *corev1.Node:
			return selector.Matches(fields.Set{"metadata.name": x.Name})
		case *corev1.Pod:
			return selector.Matches(fields.Set{"spec.nodeName": x.Spec.NodeName})
		}
		return true
	}
	inner := c.fakeCluster.Follow(of, namespace, only)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListFunc: func(l metav1.ListOptions) (runtime.Object, error) {
			got, err := inner.List(l)
			switch list := got.(type) {
			case *corev1.NodeList:
				list.Items = slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return !matches(&n) })
			case *corev1.PodList:
				list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !matches(&p) })
			}
			return got, err
		},
		WatchFunc: func(l metav1.ListOptions) (watch.Interface, error) {
			w, err := inner.Watch(l)
			if err != nil {
				return nil, err
			}
			return watch.Filter(w, func(e watch.Event) (watch.Event, bool) { return e, matches(e.Object) }), nil
		},
	}, c.Clientset)
}

// site is Nodes without any other network, each on a subnet, with a router between these.
type site struct {
	t      *testing.T
	router *nfttest.Host
	client *fake.Clientset
	nodes  []*netNode
	port   uint16
	pods   int
}

// netNode is a Node of a site.
type netNode struct {
	*fixture
	site   *site
	name   string
	at     []netip.Addr
	config network.Config
	kernel *links.Kernel
	agent  *agent.Agent
	socket string
	// ended ends the agent.
	ended func()
}

// plan is what a site is made of.
type siteOf struct {
	config network.Config
	// subnets has one for each Node; cidrs are the podCIDRs of Node N, with N in the place of %d.
	subnets []int
	cidrs   []string
	// six and four tell that Nodes have addresses of that family.
	four, six bool
	mtu       int
}

func newSite(t *testing.T, of siteOf) *site {
	s := &site{t: t, router: nfttest.NewHost(t), client: fake.NewClientset(), port: 20000}
	s.inside(s.router, func() error {
		return errors.Join(os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644), os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0o644))
	})
	for i, subnet := range of.subnets {
		s.join(i, subnet, of)
	}
	for _, n := range s.nodes {
		n.serve()
	}
	return s
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) inside(h *nfttest.Host, f func() error) {
	s.t.Helper()
	s.must(h.Do(f))
}

// give gives a link addresses that need no neighbour discovery to be complete.
func (s *site) give(h *nfttest.Host, link netlink.Link, addresses ...string) {
	s.t.Helper()
	for _, text := range addresses {
		a, err := netlink.ParseAddr(text)
		s.must(err)
		if a.IP.To4() == nil {
			a.Flags = 2 // IFA_F_NODAD
		}
		s.must(h.Handle.AddrAdd(link, a))
	}
	s.must(h.Handle.LinkSetUp(link))
}

// join makes a Node on a subnet: a port of the bridge of the router.
func (s *site) join(i, subnet int, of siteOf) {
	n := &netNode{fixture: newWorld(s.t), site: s, name: fmt.Sprintf("node%d", i), config: of.config, socket: filepath.Join(s.t.TempDir(), "agent.sock")}
	s.nodes = append(s.nodes, n)
	n.host, n.key = nfttest.NewHost(s.t), n.name
	name := fmt.Sprintf("subnet%d", subnet)
	bridge, err := s.router.Handle.LinkByName(name)
	if err != nil {
		s.must(s.router.Handle.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}))
		bridge, err = s.router.Handle.LinkByName(name)
		s.must(err)
		s.give(s.router, bridge, fmt.Sprintf("192.168.%d.254/24", subnet), fmt.Sprintf("2001:db8:%d::fe/64", subnet))
	}
	var file *os.File
	s.inside(n.host, func() (err error) { file, err = os.Open("/proc/thread-self/ns/net"); return err })
	defer func() { _ = file.Close() }()
	s.must(s.router.Handle.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: n.name, MTU: max(of.mtu, 1500)}, PeerName: "eth0", PeerNamespace: netlink.NsFd(file.Fd())}))
	port, err := s.router.Handle.LinkByName(n.name)
	s.must(err)
	s.must(s.router.Handle.LinkSetMaster(port, bridge))
	s.must(s.router.Handle.LinkSetUp(port))
	own, err := n.host.Handle.LinkByName("eth0")
	s.must(err)
	if of.mtu != 0 {
		s.must(n.host.Handle.LinkSetMTU(own, of.mtu))
	}
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, UID: types.UID(n.name), CreationTimestamp: metav1.Unix(int64(1000+i), 0)}}
	for _, text := range of.cidrs {
		object.Spec.PodCIDRs = append(object.Spec.PodCIDRs, strings.ReplaceAll(text, "N", fmt.Sprint(i)))
	}
	for _, f := range []struct {
		has             bool
		subnet, gateway string
		bits            int
		to              string
	}{{of.four, fmt.Sprintf("192.168.%d.", subnet), "254", 24, "0.0.0.0/0"}, {of.six, fmt.Sprintf("2001:db8:%d::", subnet), "fe", 64, "::/0"}} {
		if !f.has {
			continue
		}
		address := fmt.Sprintf("%s%d", f.subnet, i+1)
		n.at = append(n.at, netip.MustParseAddr(address))
		object.Status.Addresses = append(object.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
		s.give(n.host, own, fmt.Sprintf("%s/%d", address, f.bits))
		_, to, err := net.ParseCIDR(f.to)
		s.must(err)
		s.must(n.host.Handle.RouteAdd(&netlink.Route{LinkIndex: own.Attrs().Index, Dst: to, Gw: net.ParseIP(f.subnet + f.gateway)}))
	}
	_, err = s.client.CoreV1().Nodes().Create(s.t.Context(), object, metav1.CreateOptions{})
	s.must(err)
	n.local = n.at
	cluster := choosing{fakeCluster{s.client}}
	n.pods = func() *agent.Pods {
		return agent.NewPods(agent.PodsOptions{Node: n.name, Cluster: cluster, Log: logr.Discard(), Own: func() (out []netip.Addr, err error) { return n.at, nil }})
	}
	s.inside(n.host, func() (err error) { n.kernel, err = links.Open(); return err })
	s.t.Cleanup(n.kernel.Close)
	n.network = func() *agent.Network {
		return agent.NewNetwork(agent.NetworkOptions{Node: n.name, Cluster: cluster, Config: n.config, Links: n.kernel, Clock: clock.RealClock{}, Log: n.log})
	}
	n.engine.PutNamespace(policy.Namespace{Name: "n1"})
	n.source.store.Publish(convert.Delta(n.engine.Commit()))
}

// serve runs the agent of a Node until ended is called.
func (n *netNode) serve() {
	n.t.Helper()
	a, stop := n.start()
	n.agent = a
	ctx, cancel := context.WithCancel(n.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Serve(ctx, n.socket); err != nil {
			n.t.Error(err)
		}
	}()
	n.ended = sync.OnceFunc(func() { cancel(); <-done; stop() })
	n.t.Cleanup(n.ended)
	n.eventually("the network is there", func() bool { return n.plugin(call{command: "STATUS"}, nil).ok() })
}

// plugin runs the plugin on the Node as a runtime does.
func (n *netNode) plugin(c call, pod *netPod) said {
	n.t.Helper()
	config := map[string]any{"cniVersion": "1.1.0", "name": "nephele", "type": cni.Type, "socket": n.socket, "network": true}
	for k, v := range c.config {
		config[k] = v
	}
	stdin, err := json.Marshal(config)
	n.site.must(err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asPlugin+"=1", "CNI_COMMAND="+c.command, "CNI_IFNAME=eth0", "CNI_PATH=/opt/cni/bin")
	if pod != nil {
		cmd.Env = append(cmd.Env, "CNI_CONTAINERID="+pod.container, "CNI_NETNS="+pod.Path(), fmt.Sprintf("CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=n1;K8S_POD_NAME=%s;K8S_POD_UID=%s", pod.name, pod.name))
	}
	cmd.Stdin = bytes.NewReader(stdin)
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	err = n.host.Do(cmd.Run)
	s := said{text: out.String()}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		var e struct {
			Code int    `json:"code"`
			Msg  string `json:"msg"`
		}
		if err := json.Unmarshal(out.Bytes(), &e); err != nil {
			n.t.Fatalf("%v: %s %s", err, &out, &failed)
		}
		s.code, s.msg = e.Code, e.Msg
		return s
	}
	n.site.must(err)
	return s
}

// netPod is a Pod with its network.
type netPod struct {
	*nfttest.Host
	node            *netNode
	name, container string
	at              []netip.Addr
	result          json.RawMessage
}

// pod starts a Pod, and serves on its ports.
func (n *netNode) pod(app string) *netPod {
	n.t.Helper()
	p := n.newPod(app)
	if s := n.add(p); !s.ok() {
		n.t.Fatalf("ADD: %+v", s)
	}
	nfttest.Serve(n.t, p.Host, 80, 81, p.at...)
	return p
}

// newPod makes a Pod that has no network yet, which the API server and the controller know.
func (n *netNode) newPod(app string) *netPod {
	n.t.Helper()
	n.site.pods++
	p := &netPod{Host: nfttest.NewHost(n.t), node: n, name: fmt.Sprintf("pod%d", n.site.pods), container: fmt.Sprintf("container%d", n.site.pods)}
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n1", Name: p.name, UID: types.UID(p.name)}, Spec: corev1.PodSpec{NodeName: n.name}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	_, err := n.site.client.CoreV1().Pods("n1").Create(n.t.Context(), object, metav1.CreateOptions{})
	n.site.must(err)
	n.engine.PutEntity(policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "n1", Name: p.name}, Labels: map[string]string{"app": app}, Host: n.name})
	n.source.store.Publish(convert.Delta(n.engine.Commit()))
	return p
}

// add asks for the network of a Pod.
func (n *netNode) add(p *netPod) said {
	n.t.Helper()
	s := n.plugin(call{command: "ADD"}, p)
	if !s.ok() {
		return s
	}
	var result struct {
		IPs []struct{ Address netip.Prefix }
	}
	if err := json.Unmarshal([]byte(s.text), &result); err != nil {
		n.t.Fatalf("%v: %s", err, s.text)
	}
	p.at, p.result = nil, json.RawMessage(s.text)
	for _, ip := range result.IPs {
		p.at = append(p.at, ip.Address.Addr())
	}
	return s
}

// remove ends a Pod.
func (n *netNode) remove(p *netPod) {
	n.t.Helper()
	if s := n.plugin(call{command: "DEL"}, p); !s.ok() {
		n.t.Fatalf("DEL: %+v", s)
	}
	n.site.must(n.site.client.CoreV1().Pods("n1").Delete(n.t.Context(), p.name, metav1.DeleteOptions{}))
}

// family returns the address of a Pod of a family.
func (p *netPod) family(six bool) netip.Addr {
	for _, a := range p.at {
		if a.Is6() == six {
			return a
		}
	}
	return netip.Addr{}
}

// reaches reports whether somebody reaches a port of an address.
func (s *site) reaches(from *nfttest.Host, source, to netip.Addr, port uint16, limit time.Duration) bool {
	s.t.Helper()
	s.port++
	got, err := nfttest.Attempt{From: from, Network: "tcp", Source: netip.AddrPortFrom(source, s.port), Destination: netip.AddrPortFrom(to, port)}.Run(limit)
	s.must(err)
	return got == nfttest.Passed
}

const (
	// patient is for what should pass, on a busy machine, impatient for what should not.
	patient, impatient = 5 * time.Second, 300 * time.Millisecond
)

// both looks in each family whether a Pod reaches a port of another one.
func (s *site) both(from, to *netPod, port uint16, want bool) {
	s.t.Helper()
	limit := patient
	if !want {
		limit = impatient
	}
	for _, a := range to.at {
		if got := s.reaches(from.Host, from.family(a.Is6()), a, port, limit); got != want {
			s.t.Errorf("%s on %s reaches port %d of %s on %s, %s: %t, want %t", from.name, from.node.name, port, to.name, to.node.name, a, got, want)
		}
	}
}

// wrapped counts the packets that came to a Node by VXLAN.
func (n *netNode) wrapped() uint64 {
	n.t.Helper()
	l, err := n.host.Handle.LinkByName(network.Device)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		return 0
	}
	n.site.must(err)
	return l.Attrs().Statistics.RxPackets
}

// TestNetwork makes the network of two Nodes on different subnets, which know of each other's Pods
// nothing but what the API says.
func TestNetwork(t *testing.T) {
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1, 2}, cidrs: []string{"10.244.N.0/24", "fd00:N::/64"}, four: true, six: true})
	here, there := s.nodes[0], s.nodes[1]
	here.denies("no80", 1, policy.AppliedTo{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "guarded"}}})
	a, b, far := here.pod("guarded"), here.pod("free"), there.pod("free")
	if got, want := fmt.Sprint(a.at, b.at, far.at), "[10.244.0.1 fd00::1] [10.244.0.2 fd00::2] [10.244.1.1 fd00:1::1]"; got != want {
		t.Fatalf("addresses %s, want %s", got, want)
	}
	s.both(a, b, 80, true)
	s.both(b, a, 81, true)
	s.both(b, a, 80, false)
	s.both(a, far, 80, true)
	s.both(far, a, 81, true)
	s.both(far, a, 80, false)
	if here.wrapped() == 0 || there.wrapped() == 0 {
		t.Error("nothing came by VXLAN")
	}
	// Nodes reach Pods, their own and others.
	for i, source := range here.at {
		if !s.reaches(here.host, source, a.family(source.Is6()), 80, patient) { // a probe
			t.Errorf("the Node does not reach its Pod from %s", here.at[i])
		}
	}
	// What is outside sees the Node.
	for _, six := range []bool{false, true} {
		outside := netip.MustParseAddr("192.168.2.254")
		if six {
			outside = netip.MustParseAddr("2001:db8:2::fe")
		}
		if got := s.seenBy(a, outside, 7000); got != here.at[0] && got != here.at[1] {
			t.Errorf("%s sees %s, want the address of the Node", outside, got)
		}
		if got := s.seenByPod(a, far, six, 7001); got != a.family(six) {
			t.Errorf("a Pod elsewhere sees %s, want %s", got, a.family(six))
		}
	}
	// A Pod that takes somebody else's address is not heard.
	for _, x := range b.at {
		link, err := a.Handle.LinkByName("eth0")
		s.must(err)
		s.give(a.Host, link, netip.PrefixFrom(x, x.BitLen()).String())
		if s.reaches(a.Host, x, far.family(x.Is6()), 80, impatient) {
			t.Errorf("a Pod sends from %s, which is not its address", x)
		}
	}
	if c := here.plugin(call{command: "CHECK", config: map[string]any{"prevResult": b.result}}, b); !c.ok() {
		t.Errorf("CHECK: %+v", c)
	}
	// Nothing differs: nothing is written.
	before := here.agent.Status().Network.Written
	here.agent.Network.Sync()
	if st := here.agent.Status().Network; st.Written != before || st.Error != "" || len(st.Problems) > 0 || st.MTU != 1450 || st.Tunnels != 1 {
		t.Errorf("after %d changes: %+v", before, st)
	}
	here.remove(b)
	if got, there, err := here.kernel.End(network.EndName(b.container, "eth0")); err != nil || there {
		t.Errorf("the link is there still: %+v %v", got, err)
	}
	if c := here.pod("free"); slices.Contains(c.at, b.at[0]) {
		t.Errorf("the address %s was given again at once", b.at[0])
	}
}

// TestLinksOfPods: rules know links to Pods by the same name as whoever makes them.
func TestLinksOfPods(t *testing.T) {
	if network.EndPrefix != nft.LinkPrefix {
		t.Errorf("links to Pods are called %s, and rules look for %s", network.EndPrefix, nft.LinkPrefix)
	}
}

// seenBy is the address that an outside server sees of a Pod.
func (s *site) seenBy(from *netPod, server netip.Addr, port uint16) netip.Addr {
	s.t.Helper()
	return s.seen(from, s.router, server, port)
}

func (s *site) seenByPod(from, server *netPod, six bool, port uint16) netip.Addr {
	s.t.Helper()
	return s.seen(from, server.Host, server.family(six), port)
}

func (s *site) seen(from *netPod, host *nfttest.Host, server netip.Addr, port uint16) (seen netip.Addr) {
	s.t.Helper()
	var l net.Listener
	s.inside(host, func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(server, port).String())
		return err
	})
	defer func() { _ = l.Close() }()
	got := make(chan netip.Addr, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			got <- netip.Addr{}
			return
		}
		got <- c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		_ = c.Close()
	}()
	if !s.reaches(from.Host, from.family(server.Is6()), server, port, patient) {
		s.t.Errorf("%s does not reach %s", from.name, server)
		return netip.Addr{}
	}
	return <-got
}
