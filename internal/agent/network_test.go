package agent_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
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

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/cluster/clustertest"
	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/localpods"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/network/links"
	"github.com/nephele-io/nephele/internal/agent/network/wireguard"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/agent/nodenetwork"
	"github.com/nephele-io/nephele/internal/agent/pods"
	"github.com/nephele-io/nephele/internal/agent/services"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/tier"
)

// podTimes is how many Pods come and go in TestNetworkComesAndGoes.
var podTimes = flag.Int("pod-times", 0, "how many Pods come and go in TestNetworkComesAndGoes; 0 means 20, and 1000 in make test-long")

// noController serves no Pods.
type noController struct{}

func (noController) LocalPods(context.Context, string) (*analysis.LocalPodList, error) {
	return nil, errors.New("no controller")
}

func (noController) WatchLocalPods(context.Context, string, string, *int64) (watch.Interface, error) {
	return nil, errors.New("no controller")
}

// choosing is a cluster that leaves out what field selectors leave out, as the fake one does not.
type choosing struct{ clustertest.Cluster }

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
	inner := cache.ToListerWatcherWithContext(c.Cluster.Follow(of, namespace, only))
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, l metav1.ListOptions) (runtime.Object, error) {
			got, err := inner.ListWithContext(ctx, l)
			switch list := got.(type) {
			case *corev1.NodeList:
				list.Items = slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return !matches(&n) })
			case *corev1.PodList:
				list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !matches(&p) })
			}
			return got, err
		},
		WatchFuncWithContext: func(ctx context.Context, l metav1.ListOptions) (watch.Interface, error) {
			w, err := inner.WatchWithContext(ctx, l)
			if err != nil {
				return nil, err
			}
			return watch.Filter(w, func(e watch.Event) (watch.Event, bool) { return e, matches(e.Object) }), nil
		},
	}, c.Clientset)
}

// site is Nodes without any other network, each on a subnet, with a router between these.
type site struct {
	t      testing.TB
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
	// keys is the directory of the keys, and sealer the device of WireGuard; nil for none.
	keys   string
	sealer *wireguard.Device
	// charon encrypts by IPsec; nil for none.
	charon *charon
	// leaving is its part in Egresses; nil for none.
	leaving *leaving
}

// plan is what a site is made of.
type siteOf struct {
	config network.Config
	// subnets has one for each Node; cidrs are the podCIDRs of Node N, with N in the place of %d.
	subnets []int
	cidrs   []string
	// six and four tell that Nodes have addresses of that family.
	four, six bool
	// away tells that the controller has never answered, not about Pods either, and Pods are
	// essential.
	away bool
	// meets tells that agents ask one another whether packets come.
	meets bool
	// services tells that the agents lead connections to Services.
	services bool
	// sixOff tells that IPv6 is switched off on them.
	sixOff bool
	mtu    int
	// egress is where Egresses are; nil for none.
	egress *board
	// keys tells that Nodes have keys, by which the process encrypts, or with kernel the kernel.
	keys, kernel bool
	// charon gives Nodes certificates for IPsec, with a charon on each; nil for none.
	charon *signer
}

func newSite(t testing.TB, of siteOf) *site {
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

// object is a Node as the API has it.
func (s *site) object(n *netNode) *corev1.Node {
	s.t.Helper()
	out, err := s.client.CoreV1().Nodes().Get(s.t.Context(), n.name, metav1.GetOptions{})
	s.must(err)
	return out
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

// listens calls listen on the host until the port is free: a process that another test has just
// forked has the former socket until it executes its program.
func (s *site) listens(h *nfttest.Host, listen func() error) {
	s.t.Helper()
	s.nodes[0].eventually("the port is free", func() bool {
		err := h.Do(listen)
		if !errors.Is(err, unix.EADDRINUSE) {
			s.must(err)
		}
		return err == nil
	})
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
	s.inside(n.host, func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0o644) }) // as on a Node that is up for some seconds
	name := fmt.Sprintf("subnet%d", subnet)
	bridge, err := s.router.Handle.LinkByName(name)
	if err != nil {
		s.must(s.router.Handle.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}))
		bridge, err = s.router.Handle.LinkByName(name)
		s.must(err)
		s.give(s.router, bridge, fmt.Sprintf("192.168.%d.254/24", subnet), fmt.Sprintf("2001:db8:%d::fe/64", subnet))
	}
	var file *os.File
	if of.sixOff {
		s.inside(n.host, func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0o644) })
	}
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
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, UID: types.UID(n.name), CreationTimestamp: metav1.Unix(int64(1000+i), 0), Labels: map[string]string{"subnet": fmt.Sprint(subnet)}}}
	object.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
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
	n.keys, n.local = s.t.TempDir(), slices.Clone(n.at)
	for _, text := range object.Spec.PodCIDRs {
		n.local = append(n.local, network.OwnAddress(netip.MustParsePrefix(text)))
	}
	if of.away {
		n.source.away.Store(true)
		n.essential = []string{"n1"}
	}
	cluster := choosing{clustertest.Cluster{Clientset: s.client}}
	n.pods = func() *pods.Pods {
		o := pods.Options{Node: n.name, Cluster: cluster, Log: logr.Discard(), Own: func() (out []netip.Addr, err error) { return n.local, nil }}
		if of.away {
			o.Local = localpods.New(localpods.Options{Server: noController{}, Cluster: pods.OfNode(cluster, n.name), Node: n.name, Clock: clock.RealClock{}, Log: logr.Discard()})
		}
		return pods.New(o)
	}
	s.inside(n.host, func() (err error) { n.kernel, err = links.Open(); return err })
	if of.charon != nil {
		n.charon = newCharon(n, of.charon)
		n.charon.start()
	}
	s.t.Cleanup(n.kernel.Close)
	n.network = func() *nodenetwork.Network {
		listen := func(ctx context.Context, network, address string) (c net.PacketConn, err error) {
			outer := n.host.Do(func() error { c, err = (&net.ListenConfig{}).ListenPacket(ctx, network, address); return nil })
			return c, errors.Join(outer, err)
		}
		if !of.meets {
			listen = nil
		}
		o := nodenetwork.Options{Node: n.name, Cluster: cluster, Config: n.config, Links: n.kernel, Listen: listen, Clock: clock.RealClock{}, Log: n.log}
		if of.keys || of.charon != nil {
			n.seal(&o, of.kernel)
		}
		made := nodenetwork.New(o)
		if of.egress != nil {
			n.leave(of.egress, made)
		}
		return made
	}
	n.balancing = func() *services.Balancing { return services.NewHostPorts(n.name) }
	if of.services {
		n.balancing = func() *services.Balancing {
			b := services.NewBalancing(n.name, cluster)
			b.Listen = func(ctx context.Context, network, address string) (l net.Listener, err error) {
				outer := n.host.Do(func() error { l, err = (&net.ListenConfig{}).Listen(ctx, network, address); return nil })
				return l, errors.Join(outer, err)
			}
			return b
		}
	}
	n.engine.PutNamespace(policy.Namespace{Name: "n1"})
	n.source.store.Publish(convert.Delta(n.engine.Commit()))
}

// serve runs the agent of a Node until ended is called.
func (n *netNode) serve() {
	n.t.Helper()
	a, stop := n.start()
	n.agent = a
	n.ended = serveOn(n.t, a, stop, n.socket)
	n.eventually("the network is there", func() bool {
		st := a.Status()
		return st.State != agent.StateStarting && st.Network.MTU > 0
	})
	if said := n.plugin(call{command: "STATUS"}, nil); !said.ok() {
		n.t.Fatalf("STATUS: %+v", said)
	}
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
	cmd := exec.Command(cmp.Or(*pluginProgram, os.Args[0]))
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
	pods := n.site.client.CoreV1().Pods("n1") // as kubelet does then
	object, err := pods.Get(n.t.Context(), p.name, metav1.GetOptions{})
	n.site.must(err)
	object.Status.Phase = corev1.PodRunning
	for _, a := range p.at {
		object.Status.PodIPs = append(object.Status.PodIPs, corev1.PodIP{IP: a.String()})
	}
	_, err = pods.UpdateStatus(n.t.Context(), object, metav1.UpdateOptions{})
	n.site.must(err)
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

// tracked is what conntrack follows on a Node.
func (n *netNode) tracked() []*netlink.ConntrackFlow {
	n.site.t.Helper()
	out, err := n.host.Handle.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
	n.site.must(err)
	if len(out) == 0 {
		n.site.t.Errorf("conntrack of %s follows nothing", n.name)
	}
	return out
}

// TestNetwork makes the network of two Nodes on different subnets, which know of each other's Pods
// nothing but what the API says.
func TestNetwork(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1, 2}, cidrs: []string{"10.244.N.0/24", "fd00:N::/64"}, four: true, six: true})
	here, there := s.nodes[0], s.nodes[1]
	here.denies("no80", 1, policy.AppliedTo{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "guarded"}}})
	a, b, far := here.pod("guarded"), here.pod("free"), there.pod("free")
	if got, want := fmt.Sprint(a.at, b.at, far.at), "[10.244.0.2 fd00::2] [10.244.0.3 fd00::3] [10.244.1.2 fd00:1::2]"; got != want {
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
	for _, n := range s.nodes {
		for _, f := range n.tracked() {
			if f.Forward.Protocol == unix.IPPROTO_UDP && f.Forward.DstPort == network.DefaultPort {
				t.Errorf("conntrack of %s follows what is wrapped: %v", n.name, f)
			}
		}
	}
	// Nodes reach Pods, their own and others.
	for i, source := range here.at {
		if !s.reaches(here.host, source, a.family(source.Is6()), 80, patient) { // a probe
			t.Errorf("the Node does not reach its Pod from %s", here.at[i])
		}
	}
	// A Pod elsewhere sees a Node by the address that policies know it by.
	entity, _ := convert.Node(s.object(here))
	for _, six := range []bool{false, true} {
		var seen netip.Addr
		to := far.family(six)
		s.inside(far.Host, func() error {
			l, err := net.Listen("tcp", netip.AddrPortFrom(to, 7002).String())
			if err != nil {
				return err
			}
			defer func() { _ = l.Close() }()
			s.inside(here.host, func() error {
				c, err := net.DialTimeout("tcp", netip.AddrPortFrom(to, 7002).String(), patient)
				if err != nil {
					return err
				}
				return c.Close()
			})
			c, err := l.Accept()
			if err != nil {
				return err
			}
			seen = c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
			return c.Close()
		})
		if !slices.Contains(entity.Addresses, seen) {
			t.Errorf("a Pod elsewhere sees the Node as %s, and policies know it as %s", seen, entity.Addresses)
		}
	}
	for _, x := range append(slices.Clone(a.at), far.at...) {
		if slices.Contains(entity.Addresses, x) {
			t.Errorf("a Pod has %s, which policies take for the Node", x)
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
	here.made.Sync()
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

// TestLinksOfPods: rules know links to Pods by the name that their maker gives them.
func TestLinksOfPods(t *testing.T) {
	t.Parallel()
	if network.EndPrefix != ruleset.LinkPrefix {
		t.Errorf("links to Pods are called %s, and rules look for %s", network.EndPrefix, ruleset.LinkPrefix)
	}
	if network.Device != ruleset.WrappedLink || network.ReturnExit != ruleset.LeavesHere {
		t.Errorf("the link of VXLAN is %s with exit %d, and rules look for %s with %d", network.Device, network.ReturnExit, ruleset.WrappedLink, ruleset.LeavesHere)
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
	s.listens(host, func() (err error) {
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

// TestNetworkModes plays what there is between Nodes: on one subnet and on two, wrapped or not, of
// one family and of both.
func TestNetworkModes(t *testing.T) {
	t.Parallel()
	dual, four, six := []string{"10.244.N.0/24", "fd00:N::/64"}, []string{"10.244.N.0/24"}, []string{"fd00:N::/64"}
	for name, c := range map[string]struct {
		of siteOf
		// wraps tells that packets between the first Node and each other one are wrapped.
		wraps []bool
		mtu   int
	}{
		"hybrid":                {siteOf{config: network.Config{Mode: network.Hybrid}, subnets: []int{1, 1, 2}, cidrs: dual, four: true, six: true}, []bool{false, true}, 1450},
		"noEncap":               {siteOf{config: network.Config{Mode: network.NoEncap}, subnets: []int{1, 1}, cidrs: dual, four: true, six: true}, []bool{false}, 1500},
		"IPv6 only":             {siteOf{config: network.Config{Mode: network.Encap, Port: 8472}, subnets: []int{1, 2}, cidrs: six, six: true}, []bool{true}, 1430},
		"IPv6 below both":       {siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1, 2}, cidrs: dual, six: true}, []bool{true}, 1430},
		"IPv4 only, large":      {siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1, 2}, cidrs: four, four: true, mtu: 9000}, []bool{true}, 8950},
		"IPv6 switched off":     {siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1, 2}, cidrs: dual, four: true, sixOff: true}, []bool{true}, 1450},
		"noEncap, one of both":  {siteOf{config: network.Config{Mode: network.NoEncap, NoSNAT: true}, subnets: []int{1, 1}, cidrs: six, four: true, six: true}, []bool{false}, 1500},
		"hybrid, no next hop 6": {siteOf{config: network.Config{Mode: network.Hybrid}, subnets: []int{1, 1}, cidrs: dual, four: true}, []bool{true}, 1450},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c.of)
			first := s.nodes[0]
			first.denies("no80", 1, policy.AppliedTo{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "guarded"}}})
			a := first.pod("guarded")
			want := len(c.of.cidrs)
			if c.of.sixOff {
				want--
			}
			if len(a.at) != want {
				t.Fatalf("the Pod has %v, want %d addresses", a.at, want)
			}
			for i, n := range s.nodes[1:] {
				before := n.wrapped()
				b := n.pod("free")
				s.both(a, b, 80, true)
				s.both(b, a, 81, true)
				s.both(b, a, 80, false)
				if got := n.wrapped() > before; got != c.wraps[i] {
					t.Errorf("to %s: wrapped %t, want %t", n.name, got, c.wraps[i])
				}
			}
			if st := first.agent.Status().Network; st.MTU != c.mtu || st.Error != "" || (len(st.Problems) > 0) != c.of.sixOff {
				t.Errorf("%+v, want MTU %d", st, c.mtu)
			}
		})
	}
}

// TestNetworkBeforeTheController: a Node that has never heard of a controller gives the Pod of the
// controller its network.
func TestNetworkBeforeTheController(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1, 2}, cidrs: []string{"10.244.N.0/24"}, four: true, away: true})
	here := s.nodes[0]
	a := here.pod("controller")
	if got := s.seenBy(a, netip.MustParseAddr("192.168.2.254"), 7000); got != here.at[0] {
		t.Errorf("what is outside sees %s, want the Node", got)
	}
	b := s.nodes[1].pod("controller")
	s.both(a, b, 80, true)
	// Nor does it take what it knew for all that there is when it starts again.
	here.ended()
	here.serve()
	s.both(a, b, 80, true)
}

// TestNetworkOfAnother: what cannot be is refused with its reason.
func TestNetworkOfAnother(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1}, cidrs: []string{"10.244.N.0/29"}, four: true})
	n := s.nodes[0]
	first := n.pod("free")
	for range 4 {
		n.pod("free")
	}
	before := map[string]any{"cniVersion": "1.1.0", "ips": []map[string]any{{"address": "10.244.0.9/32"}}}
	for what, c := range map[string]struct {
		config map[string]any
		want   string
	}{
		"an exhausted range":    {nil, "no address is free in 10.244.0.0/29: 5 have them: n1/pod1, n1/pod2, n1/pod3, n1/pod4, n1/pod5"},
		"chained behind others": {map[string]any{"network": false, "prevResult": before}, "another CNI plugin makes its network"},
		"not the first":         {map[string]any{"prevResult": before}, "must be the first one"},
		"no agent":              {map[string]any{"socket": "/nowhere", "whenAgentIsAway": "open"}, "does not answer"},
	} {
		if got := n.plugin(call{command: "ADD", config: c.config}, n.newPod("free")); got.ok() || !strings.Contains(got.msg, c.want) {
			t.Errorf("%s: %+v, want %q", what, got, c.want)
		}
	}
	// Two lists: GC names the attachments that there are.
	if got := n.plugin(call{command: "GC", config: map[string]any{"cni.dev/valid-attachments": []map[string]string{{"containerID": first.container, "ifname": "eth0"}}}}, nil); !got.ok() {
		t.Errorf("GC: %+v", got)
	}
	n.both(first)
}

// TestNetworkBlocked: Nodes notice that packets do not come to others, and that they do again.
func TestNetworkBlocked(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1, 2, 3}, cidrs: []string{"10.244.N.0/24", "fd00:N::/64"}, four: true, six: true, meets: true})
	here, there := s.nodes[0], s.nodes[1]
	there.ended()
	there.config.Port = 8472 // as if nothing came by the other one
	there.serve()
	here.ended()
	here.serve()
	here.eventually("it is told that a Node does not answer", func() bool {
		problems := here.agent.Status().Network.Problems
		return len(problems) == 1 && strings.Contains(problems[0], "Node node1 does not answer by VXLAN: UDP port 4789 may be blocked between 192.168.1.1 and 192.168.2.2")
	})
	there.ended()
	there.config.Port = 0
	there.serve()
	here.eventually("all is well again", func() bool { return here.agent.Status().Network.Trouble() == "" })
}

// TestNetworkAdopts: on a Node that another plugin has given addresses, the addresses of its Pods
// are not given, whether the API tells of them or only its files, and what is left over of it is.
func TestNetworkAdopts(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1}, cidrs: []string{"10.244.N.0/24"}, four: true})
	n := s.nodes[0]
	n.ended()
	made, at, unreadable := n.network, netip.MustParseAddr, atomic.Bool{}
	n.network = func() *nodenetwork.Network {
		out := made()
		out.Reserved = func() ([]cni.Reserved, error) {
			if unreadable.Load() {
				return nil, os.ErrPermission
			}
			old := time.Now().Add(-time.Hour)
			return []cni.Reserved{{Address: at("10.244.0.2"), Container: "new", Network: "cbr0", Since: time.Now()}, {Address: at("10.244.0.3"), Container: "left over", Since: old},
				{Address: at("10.244.0.4"), Container: "old", Since: old}}, nil
		}
		return out
	}
	for name, ip := range map[string]string{"old": "10.244.0.4", "unlisted": "10.244.0.5"} {
		_, err := s.client.CoreV1().Pods("n1").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n1", Name: name}, Spec: corev1.PodSpec{NodeName: n.name},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: ip}}}}, metav1.CreateOptions{})
		s.must(err)
	}
	n.serve()
	n.eventually("the other Pods are known", func() bool { p := n.agent.Status().Pods; return p != nil && p.Known == 2 })
	if a, b := n.pod("free"), n.pod("free"); a.at[0] != at("10.244.0.3") || b.at[0] != at("10.244.0.6") {
		t.Errorf("given: %v, %v", a.at, b.at)
	}
	unreadable.Store(true)
	if got := n.add(n.newPod("free")); got.ok() || !strings.Contains(got.msg, "another plugin") {
		t.Errorf("a Pod gets an address though it is not known which are free: %+v", got)
	}
}

// lame is a kernel in which some steps fail.
type lame struct {
	*links.Kernel
	fail func(network.Step) error
}

func (l lame) Apply(steps []network.Step) error {
	var errs []error
	for _, s := range steps {
		if err := l.fail(s); err != nil {
			errs = append(errs, err)
		} else {
			errs = append(errs, l.Kernel.Apply([]network.Step{s}))
		}
	}
	return errors.Join(errs...)
}

// TestNetworkWithoutVXLAN: a kernel without VXLAN is told of in a sentence, Pods of the Node reach
// one another nevertheless, and when the module is there all is well.
func TestNetworkWithoutVXLAN(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1, 2}, cidrs: []string{"10.244.N.0/24"}, four: true})
	here := s.nodes[0]
	here.ended()
	s.must(here.kernel.Apply([]network.Step{{Verb: network.Remove, Device: &network.VXLAN{}}}))
	var lacks atomic.Bool
	lacks.Store(true)
	made := here.network
	here.network = func() *nodenetwork.Network {
		n := made()
		n.Links = lame{here.kernel, func(s network.Step) error {
			if s.Device != nil && lacks.Load() {
				return links.ErrNoVXLAN
			}
			return nil
		}}
		return n
	}
	here.serve()
	if st := here.agent.Status().Network; !strings.Contains(st.Error, "the kernel has no VXLAN") || !strings.Contains(st.Trouble(), "the kernel has no VXLAN") {
		t.Errorf("%+v", st)
	}
	a, b := here.pod("free"), here.pod("free")
	s.both(a, b, 80, true)
	lacks.Store(false)
	here.made.Sync()
	s.both(a, s.nodes[1].pod("free"), 80, true)
	if st := here.agent.Status().Network; st.Trouble() != "" {
		t.Errorf("%+v", st)
	}
}

// stream asks a server on a Pod again and again, each question a packet that is told from others,
// and counts what is not answered.
type stream struct {
	stop       chan struct{}
	done       sync.WaitGroup
	mu         sync.Mutex
	sent, lost int
	first      string
}

// ask begins to ask: over one connection of UDP all the time, and over new ones of TCP.
func (s *site) ask(from, to *netPod) *stream {
	s.t.Helper()
	p := &stream{stop: make(chan struct{})}
	lose := func(what string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.lost++; p.first == "" {
			p.first = what
		}
	}
	count := func() { p.mu.Lock(); p.sent++; p.mu.Unlock() }
	for _, a := range to.at {
		var c net.Conn
		s.inside(from.Host, func() (err error) {
			c, err = net.Dial("udp", netip.AddrPortFrom(a, 80).String())
			return err
		})
		p.done.Go(func() {
			defer func() { _ = c.Close() }()
			answer := make([]byte, 16)
			for n := 0; ; n++ {
				select {
				case <-p.stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				count()
				text := fmt.Sprintf("%08d", n)
				_ = c.SetDeadline(time.Now().Add(2 * patient))
				if _, err := c.Write([]byte(text)); err != nil {
					lose("question " + text + " over UDP: " + err.Error())
				} else if got, err := c.Read(answer); err != nil || string(answer[:got]) != text {
					lose(fmt.Sprintf("question %s over UDP to %s: %q, %v", text, a, answer[:got], err))
				}
			}
		})
		p.done.Go(func() {
			for {
				select {
				case <-p.stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
				count()
				if err := from.Do(func() error { return dialAtOnce(netip.AddrPortFrom(a, 80).String()) }); err != nil {
					lose("a new connection: " + err.Error())
				}
			}
		})
	}
	return p
}

// dialAtOnce connects by TCP and disconnects. The kernel tells whether a packet was lost and sent
// again a second later, so it does not matter how long a busy machine takes.
func dialAtOnce(to string) error {
	c, err := net.DialTimeout("tcp", to, 2*patient)
	if err != nil {
		return err
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	defer func() { _ = c.Close() }()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	var info *unix.TCPInfo
	if outer := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); outer != nil || err != nil {
		return errors.Join(outer, err)
	}
	if again, took := info.Total_retrans, time.Duration(info.Rtt)*time.Microsecond; again > 0 || took > 900*time.Millisecond {
		return fmt.Errorf("a packet to %s was lost: %d were sent again, and the answer came after %s", to, again, took)
	}
	return nil
}

// TestLossIsSeen: dialAtOnce, by which other tests prove that nothing is lost, notices a loss.
func TestLossIsSeen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.start()
	link := f.link(f.host)
	lost := &netlink.Neigh{LinkIndex: link.Attrs().Index, IP: peerAddr.AsSlice(), State: netlink.NUD_PERMANENT, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 99}}
	if err := f.host.Handle.NeighSet(lost); err != nil {
		t.Fatal(err)
	}
	dial := func() error {
		return f.peer.Do(func() error { return dialAtOnce(netip.AddrPortFrom(hostAddr, 81).String()) })
	}
	said := make(chan error, 1)
	go func() { said <- dial() }()
	f.eventually("the first packet is there", func() bool {
		peers, err := f.connections.Peers()
		return err == nil && peers[peerAddr]
	})
	lost.HardwareAddr = f.link(f.peer).Attrs().HardwareAddr
	if err := f.host.Handle.NeighSet(lost); err != nil {
		t.Fatal(err)
	}
	if err := <-said; err == nil || !strings.Contains(err.Error(), "was lost") {
		t.Errorf("a loss is not noticed: %v", err)
	}
	if err := dial(); err != nil {
		t.Errorf("nothing is lost any more: %v", err)
	}
}

// none ends asking. Nothing may have been lost.
func (p *stream) none(t *testing.T, while string) {
	t.Helper()
	close(p.stop)
	p.done.Wait()
	if p.lost > 0 || p.sent < 10 {
		t.Errorf("%s: %d of %d questions were lost, first: %s", while, p.lost, p.sent, p.first)
	}
}

// TestNetworkRestarts ends agents and starts them again, with what they kept and without it, and in
// other modes, while Pods talk: nothing is lost, nothing is written that is there, and no address
// is given twice.
func TestNetworkRestarts(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1, 1}, cidrs: []string{"10.244.N.0/24", "fd00:N::/64"}, four: true, six: true})
	here, there := s.nodes[0], s.nodes[1]
	a, b := here.pod("free"), there.pod("free")
	s.both(a, b, 80, true)
	asking := s.ask(a, b)
	for _, n := range []*netNode{here, there} {
		n.ended()
		n.serve()
		if st := n.agent.Status().Network; st.Written != 0 || st.Ranges[0].Used != 1 {
			t.Errorf("%s has written after a restart: %+v", n.name, st)
		}
	}
	for _, n := range s.nodes { // all that was kept is lost
		n.ended()
		s.must(os.RemoveAll(n.dir))
		n.serve()
		if st := n.agent.Status().Network; st.Written != 0 || st.Ranges[0].Used != 1 {
			t.Errorf("%s does not know its Pods by their links: %+v", n.name, st)
		}
	}
	asking.none(t, "restarts")
	if c := here.pod("free"); slices.Contains(c.at, a.at[0]) {
		t.Errorf("%s was given twice", a.at[0])
	}
	asking = s.ask(a, b)
	for _, mode := range []network.Mode{network.Hybrid, network.NoEncap, network.Encap} {
		for _, n := range s.nodes {
			n.ended()
			n.config.Mode = mode
			n.serve()
			st := n.agent.Status().Network
			if want := map[network.Mode][2]int{network.Encap: {1, 0}, network.Hybrid: {0, 1}, network.NoEncap: {0, 1}}[mode]; want != [2]int{st.Tunnels, st.Direct} {
				t.Errorf("%s: %+v", mode, st)
			}
			if st.Error != "" {
				t.Errorf("%s: %s", mode, st.Error)
			}
		}
		s.both(a, b, 80, true)
	}
	asking.none(t, "changes of the mode")
	// The API loses the Node for a while.
	asking = s.ask(a, b)
	object, written := s.object(here), here.agent.Status().Network.Written
	s.must(s.client.CoreV1().Nodes().Delete(t.Context(), here.name, metav1.DeleteOptions{}))
	here.eventually("it is noticed", func() bool {
		here.made.Sync()
		return strings.Contains(here.agent.Status().Network.Trouble(), "knows no Node node0")
	})
	there.eventually("the other Node has no way to it", func() bool {
		st := there.agent.Status().Network
		return st.Tunnels+st.Direct == 0
	})
	object.ResourceVersion = ""
	_, err := s.client.CoreV1().Nodes().Create(t.Context(), object, metav1.CreateOptions{})
	s.must(err)
	here.eventually("it is there again", func() bool {
		here.made.Sync()
		return here.agent.Status().Network.Trouble() == ""
	})
	close(asking.stop)
	asking.done.Wait()
	if st := here.agent.Status().Network; st.Written != written {
		t.Errorf("the Node has changed its network meanwhile: %+v", st)
	}
	s.both(a, b, 80, true)
	// Somebody removes what is ours: it comes back.
	steps := []network.Step{{Verb: network.Remove, Device: &network.VXLAN{}}}
	s.must(here.kernel.Apply(steps))
	here.made.Sync()
	s.both(a, b, 80, true)
}

// TestNetworkComesAndGoes lets Pods come and go, some of which nobody says good-bye to, and looks
// that nothing is left of them.
func TestNetworkComesAndGoes(t *testing.T) {
	t.Parallel()
	times := cmp.Or(*podTimes, tier.Pick(10, 20, 1000))
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1, 2}, cidrs: []string{"10.244.N.0/27", "fd00:N::/64"}, four: true, six: true})
	n := s.nodes[0]
	stays := n.pod("free")
	count := func() string {
		list, err := n.host.Handle.LinkList()
		s.must(err)
		state, _, err := n.kernel.Observe(network.Look{})
		s.must(err)
		st := n.agent.Status()
		return fmt.Sprintf("%d links, %d to Pods, %d routes, %d addresses of %s, %d Pods, %d rules", len(list), len(state.Ends), len(state.Routes), st.Network.Ranges[0].Used, st.Network.Ranges[0].Range, st.Pods.Known, st.Kernel.Rules)
	}
	before := count()
	var gone []*netPod
	for i := range times {
		p := n.newPod("free")
		if s := n.add(p); !s.ok() {
			t.Fatalf("the Pod %d: %+v", i, s)
		}
		if slices.Contains(p.at, stays.at[0]) {
			t.Fatalf("%s is given twice", stays.at[0])
		}
		if i%10 == 9 { // it is gone without a word
			gone = append(gone, p)
			link, err := n.host.Handle.LinkByName(network.EndName(p.container, "eth0"))
			s.must(err)
			s.must(n.host.Handle.LinkDel(link))
			s.must(s.client.CoreV1().Pods("n1").Delete(t.Context(), p.name, metav1.DeleteOptions{}))
		} else {
			n.remove(p)
		}
		if again := n.plugin(call{command: "DEL"}, p); i%10 == 0 && !again.ok() {
			t.Fatalf("a second DEL: %+v", again)
		}
	}
	for _, p := range gone { // the runtime finds out
		if d := n.plugin(call{command: "DEL"}, p); !d.ok() {
			t.Fatalf("DEL of a Pod without a link: %+v", d)
		}
	}
	n.eventually("as before", func() bool { return count() == before })
	if n.both(stays); t.Failed() {
		t.Log(count())
	}
}

// both looks whether a Node reaches its Pod.
func (n *netNode) both(p *netPod) {
	n.t.Helper()
	for _, a := range n.at {
		if to := p.family(a.Is6()); to.IsValid() && !n.site.reaches(n.host, a, to, 80, patient) {
			n.t.Errorf("%s does not reach its Pod at %s", n.name, to)
		}
	}
}
