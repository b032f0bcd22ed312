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
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	leaves "github.com/nephele-io/nephele/internal/agent/egress"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/network/links"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/nodenetwork"
	"github.com/nephele-io/nephele/internal/egress"
	"github.com/nephele-io/nephele/internal/tier"
)

// board is an API server for Egresses, pools and Leases, which refuses changes of what has changed.
type board struct {
	mu      sync.Mutex
	version int
	objects map[string]runtime.Object // by kind/name
	watches map[*watch.RaceFreeFakeWatcher]string
	groups  *egress.Groups
}

func newBoard() *board {
	return &board{objects: map[string]runtime.Object{}, watches: map[*watch.RaceFreeFakeWatcher]string{}, groups: egress.NewGroups(1)}
}

func kindOf(o runtime.Object) string { return fmt.Sprintf("%T", o) }

func nameOf(o runtime.Object) string {
	m, _ := meta.Accessor(o)
	return m.GetName()
}

// put writes an object; unless it says of which version, whatever there is.
func (b *board) put(o runtime.Object) (runtime.Object, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o = o.DeepCopyObject()
	m, _ := meta.Accessor(o)
	at := kindOf(o) + "/" + m.GetName()
	was, there := b.objects[at]
	if there && m.GetResourceVersion() != "" {
		if old, _ := meta.Accessor(was); old.GetResourceVersion() != m.GetResourceVersion() {
			return nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, m.GetName(), errors.New("it has changed"))
		}
	}
	b.version++
	m.SetResourceVersion(strconv.Itoa(b.version))
	b.objects[at] = o
	for w, kind := range b.watches {
		switch {
		case kind != kindOf(o):
		case there:
			w.Modify(o.DeepCopyObject())
		default:
			w.Add(o.DeepCopyObject())
		}
	}
	return o.DeepCopyObject(), nil
}

func (b *board) remove(o runtime.Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := kindOf(o) + "/" + nameOf(o)
	was := b.objects[at]
	delete(b.objects, at)
	b.version++
	for w, kind := range b.watches {
		if kind == kindOf(o) && was != nil {
			w.Delete(was.DeepCopyObject())
		}
	}
}

// follow lists and watches a kind.
func (b *board) follow(kind runtime.Object, list func() runtime.Object) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			var items []runtime.Object
			for _, o := range b.objects {
				if kindOf(o) == kindOf(kind) {
					items = append(items, o.DeepCopyObject())
				}
			}
			out := list()
			if err := meta.SetList(out, items); err != nil {
				return nil, err
			}
			m, _ := meta.ListAccessor(out)
			m.SetResourceVersion(strconv.Itoa(b.version))
			return out, nil
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if o.ResourceVersion != strconv.Itoa(b.version) {
				return nil, apierrors.NewResourceExpired("too old")
			}
			w := watch.NewRaceFreeFake()
			b.watches[w] = kindOf(kind)
			return w, nil
		},
	}, b)
}

// IsWatchListSemanticsUnSupported tells informers to list first.
func (*board) IsWatchListSemanticsUnSupported() bool { return true }

// events is a watch as the manager reads it.
type events struct{ watch.Interface }

func (e events) Next(ctx context.Context) (watch.Event, error) {
	select {
	case got, ok := <-e.ResultChan():
		if !ok {
			return watch.Event{}, io.EOF
		}
		return got, nil
	case <-ctx.Done():
		return watch.Event{}, ctx.Err()
	}
}

// leaving is the part of a Node in Egresses. A dead one reaches nothing: neither the API server nor
// the kernel.
type leaving struct {
	*leaves.Manager
	dead  atomic.Bool
	ended func()
}

var errDead = errors.New("the process is dead")

type mortalLeases struct {
	*leaving
	b *board
}

func (l mortalLeases) Get(_ context.Context, name string) (*coordinationv1.Lease, error) {
	if l.dead.Load() {
		return nil, errDead
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	o, ok := l.b.objects[kindOf(&coordinationv1.Lease{})+"/"+name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, name)
	}
	return o.DeepCopyObject().(*coordinationv1.Lease), nil
}

func (l mortalLeases) Create(ctx context.Context, o *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	if _, err := l.Get(ctx, o.Name); err == nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "leases"}, o.Name)
	}
	return l.Update(ctx, o)
}

func (l mortalLeases) Update(_ context.Context, o *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	if l.dead.Load() {
		return nil, errDead
	}
	got, err := l.b.put(o)
	if err != nil {
		return nil, err
	}
	return got.(*coordinationv1.Lease), nil
}

type mortalKernel struct {
	*leaving
	*links.Kernel
}

func (k mortalKernel) Hold(a, own netip.Addr, seconds int) (string, error) {
	if k.dead.Load() {
		return "", errDead
	}
	return k.Kernel.Hold(a, own, seconds)
}

func (k mortalKernel) Drop(a netip.Addr) error {
	if k.dead.Load() {
		return errDead
	}
	return k.Kernel.Drop(a)
}

// leave makes the part of a Node in Egresses, beside its network.
func (n *netNode) leave(b *board, made *nodenetwork.Network) {
	l := &leaving{}
	announce := func(ctx context.Context, link string, a netip.Addr, asked []netip.Addr) error {
		return n.host.Do(func() error { return links.Announce(ctx, link, a, asked) })
	}
	l.Manager = leaves.New(leaves.Options{
		Node:      n.name,
		Egresses:  b.follow(&v1beta1.Egress{}, func() runtime.Object { return &v1beta1.EgressList{} }),
		Pools:     b.follow(&v1beta1.ExternalIPPool{}, func() runtime.Object { return &v1beta1.ExternalIPPoolList{} }),
		Addresses: b.follow(&coordinationv1.Lease{}, func() runtime.Object { return &coordinationv1.LeaseList{} }),
		Groups: func(ctx context.Context) (leaves.Stream, error) {
			return events{b.groups.Watch(ctx, n.name, func(*v1beta2.EgressGroup) {}, func() {})}, nil
		},
		Leases: mortalLeases{l, b}, Nodes: made.Nodes, Kernel: mortalKernel{l, n.kernel}, Announce: announce, Changed: made.Wake, Clock: clock.RealClock{}, Log: n.log,
	})
	made.Leave(l.Exits)
	ctx, cancel := context.WithCancel(n.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	l.ended = sync.OnceFunc(func() { cancel(); <-done })
	n.t.Cleanup(l.ended)
	n.leaving = l
}

// kill ends the agent as if by kill -9: what it would do when it ends it does not do.
func (n *netNode) kill() {
	n.leaving.dead.Store(true)
	n.leaving.ended()
	n.ended()
}

// selects says which Pods Egresses apply to, as the controller does: Pods with a name in "app".
func (s *site) selects(b *board, pods ...*netPod) {
	w := &egress.World{Namespaces: map[string]map[string]string{"n1": nil}, Nodes: map[string]map[string]string{}}
	for _, n := range s.nodes {
		w.Nodes[n.name] = s.object(n).Labels
	}
	for _, p := range pods {
		w.Pods = append(w.Pods, egress.Pod{Namespace: "n1", Name: p.name, Node: p.node.name, Labels: map[string]string{"app": "leaves"}, Addresses: p.at})
	}
	b.mu.Lock()
	for _, o := range b.objects {
		switch o := o.(type) {
		case *v1beta1.Egress:
			w.Egresses = append(w.Egresses, *o.DeepCopy())
		case *v1beta1.ExternalIPPool:
			w.Pools = append(w.Pools, *o.DeepCopy())
		}
	}
	b.mu.Unlock()
	b.groups.Set(w)
}

// poolOf is a pool of a range, whose Nodes are those on a subnet.
func poolOf(name, cidr, subnet string) *v1beta1.ExternalIPPool {
	return &v1beta1.ExternalIPPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.ExternalIPPoolSpec{
		IPRanges: []v1beta1.IPRange{{CIDR: cidr}}, NodeSelector: metav1.LabelSelector{MatchLabels: map[string]string{"subnet": subnet}},
	}}
}

// egressOf is an Egress with an address of a pool, or none yet.
func egressOf(name, address, pool string) *v1beta1.Egress {
	e := &v1beta1.Egress{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(1000, 0)}, Spec: v1beta1.EgressSpec{
		AppliedTo: v1beta1.EgressAppliedTo{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "leaves"}}}, EgressIP: address, ExternalIPPool: pool,
	}}
	status := metav1.ConditionFalse
	if address != "" {
		status = metav1.ConditionTrue
	}
	e.Status.Conditions = []v1beta1.EgressCondition{{Type: v1beta1.IPAllocated, Status: status}}
	return e
}

// holder is the Node whose kernel has an address; it fails if two have it.
func (s *site) holder(a netip.Addr) *netNode {
	s.t.Helper()
	var out *netNode
	for _, n := range s.nodes {
		there, err := n.kernel.Assigned()
		s.must(err)
		if _, has := there[a]; has {
			if out != nil {
				s.t.Fatalf("%s and %s both have %s", out.name, n.name, a)
			}
			out = n
		}
	}
	return out
}

// outsider serves outside of the cluster and notes with which addresses it was reached.
type outsider struct {
	mu   sync.Mutex
	seen map[netip.Addr]int
}

func (s *site) outside(at netip.Addr, port uint16) *outsider {
	s.t.Helper()
	o := &outsider{seen: map[netip.Addr]int{}}
	var l net.Listener
	s.listens(s.router, func() (err error) { l, err = net.Listen("tcp", netip.AddrPortFrom(at, port).String()); return err })
	s.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			o.mu.Lock()
			o.seen[c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()]++
			o.mu.Unlock()
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return o
}

// took returns with which addresses it was reached since the last time.
func (o *outsider) took() (out []netip.Addr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for a := range o.seen {
		out = append(out, a)
	}
	o.seen = map[netip.Addr]int{}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// TestEgress: what Pods send out of the cluster leaves with the address of the Egress that applies
// to them, by the Node that has it, wherever the Pods are; if no Node has it, it does not leave.
func TestEgress(t *testing.T) {
	for name, c := range map[string]struct {
		config network.Config
		strict bool
		// as is the case that proves most of this one at each commit.
		as string
	}{
		"encap": {network.Config{Mode: network.Encap}, false, "strict reverse paths"}, "hybrid": {network.Config{Mode: network.Hybrid}, false, "or clear"},
		"strict reverse paths": {network.Config{Mode: network.Encap}, true, ""}, "noEncap": {network.Config{Mode: network.NoEncap}, true, ""},
		"WireGuard": {network.Config{Mode: network.Encap, Encryption: network.ByWireGuard}, true, "or clear"},
		"or clear":  {network.Config{Mode: network.Hybrid, Encryption: network.ByWireGuardOrClear}, true, ""},
		"IPsec":     {network.Config{Mode: network.Encap, Encryption: network.ByIPsec}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if c.as != "" {
				tier.OnlyLong(t, "TestEgress/"+c.as+" takes the same ways")
			}
			t.Parallel()
			b := newBoard()
			of := siteOf{config: c.config, subnets: []int{1, 1, 2}, cidrs: []string{"10.244.N.0/24", "fd00:N::/64"}, four: true, six: true, egress: b, keys: c.config.Encrypts()}
			if c.config.Encryption.IPsec() {
				needsCharon(t)
				of.charon = newSigner(t)
			}
			s := newSite(t, of)
			if c.config.Mode == network.NoEncap {
				s.routes()
			}
			if c.strict {
				for _, n := range s.nodes {
					s.inside(n.host, func() error { return os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("1"), 0o644) })
				}
			}
			four, six := netip.MustParseAddr("192.168.1.100"), netip.MustParseAddr("2001:db8:1::100")
			for _, o := range []runtime.Object{poolOf("four", "192.168.1.96/28", "1"), poolOf("six", "2001:db8:1::100/120", "1"), egressOf("four", four.String(), "four"), egressOf("six", six.String(), "six")} {
				_, err := b.put(o)
				s.must(err)
			}
			b.groups.Set(&egress.World{})
			here, there, far := s.nodes[0].pod("a"), s.nodes[1].pod("a"), s.nodes[2].pod("a")
			other := s.nodes[0].pod("other")
			pods := []*netPod{here, there, far}
			s.selects(b, pods...)
			server := map[bool]netip.Addr{false: netip.MustParseAddr("192.168.2.254"), true: netip.MustParseAddr("2001:db8:2::fe")}
			outside := map[bool]*outsider{}
			for _, v6 := range []bool{false, true} {
				outside[v6] = s.outside(server[v6], 7000)
			}
			address := map[bool]netip.Addr{false: four, true: six}
			leavesWith := func(what string, p *netPod, v6 bool, want netip.Addr) {
				t.Helper()
				end := time.Now().Add(2 * time.Minute)
				for {
					outside[v6].took()
					passed := s.reaches(p.Host, p.family(v6), server[v6], 7000, 400*time.Millisecond)
					got := outside[v6].took()
					if want.IsValid() && passed && slices.Equal(got, []netip.Addr{want}) || !want.IsValid() && !passed && len(got) == 0 {
						return
					}
					if time.Now().After(end) {
						for _, n := range s.nodes {
							exits, by, known := n.leaving.Exits()
							there, _ := n.kernel.Assigned()
							state, _, err := n.kernel.Observe(network.Look{})
							t.Logf("%s: exits %+v, by %v, known %t; has %v; %v %v %v; %+v", n.name, exits, by, known, there, state.Ways, state.Rules, err, n.agent.Status().Network)
						}
						t.Fatalf("%s: %s on %s leaves with %v (answered %t), want %v", what, p.name, p.node.name, got, passed, want)
					}
				}
			}
			all := func(what string) {
				t.Helper()
				for _, v6 := range []bool{false, true} {
					for _, p := range pods {
						leavesWith(what, p, v6, address[v6])
					}
				}
			}
			all("at first")
			s.both(here, far, 80, true)
			s.both(far, here, 80, true)
			outside[false].took()
			if got := s.seenBy(other, server[false], 7001); !slices.Contains(s.nodes[0].at, got) {
				t.Errorf("a Pod that no Egress applies to leaves with %s, want the Node's", got)
			}
			first := s.holder(four)
			if first == nil || s.holder(six) == nil {
				t.Fatal("nobody has an address")
			}
			before := far.node.wrapped()
			s.bulk(far, server[false], 7000)
			if far.node.wrapped() == before {
				t.Error("answers did not come back wrapped")
			}
			// What no Node has wrapped gets nowhere if a Pod sends it, and where all is encrypted
			// whoever does.
			at := s.holder(four)
			sealed := c.config.Encryption == network.ByWireGuard || c.config.Encryption == network.ByIPsec
			for what, from := range map[string]*nfttest.Host{"a Pod on the Node": at.pod("evil").Host, "a Pod on another Node": far.Host, "outside": s.router} {
				if got, want := s.forged(from, at, far, server[false]), from == s.router && !sealed; got != want {
					t.Errorf("forged from %s: it gets through %t, want %t", what, got, want)
				}
			}
			if p := s.seenByPod(far, here, false, 7002); p != far.family(false) {
				t.Errorf("in the cluster a Pod is seen as %s", p)
			}
			// A restart is not noticed: a connection goes on, and new ones are made all the time.
			long, err := s.dial(far.Host, far.family(false), netip.AddrPortFrom(server[false], 7000))
			s.must(err)
			stop, lost := s.prober(far, server[false], 7000)
			first.kill()
			first.serve()
			all("after a restart")
			if n := stop(); n > 0 && !c.config.Encrypts() { // a process that encrypts loses packets while it begins anew
				t.Errorf("%d of %d connections were not made while the agent began anew", n, lost())
			}
			if err := echo(long); err != nil {
				t.Errorf("a connection ended with the agent: %v", err)
			}
			if s.holder(four) != first {
				t.Errorf("the address has moved")
			}
			// The Node is lost: the address moves, and nobody has it twice.
			first.kill()
			port, err := s.router.Handle.LinkByName(first.name)
			s.must(err)
			s.must(s.router.Handle.LinkSetDown(port))
			begun := time.Now()
			pods = slices.DeleteFunc(pods, func(p *netPod) bool { return p.node == first })
			all("after the Node is lost")
			t.Logf("moved after %s", time.Since(begun).Round(100*time.Millisecond))
			if second := s.holder(four); second == first || second == nil {
				t.Errorf("the address is not on another Node")
			}
			// It comes back, and takes nothing.
			s.must(s.router.Handle.LinkSetUp(port))
			first.serve()
			all("when the Node is back")
			if got := s.holder(four); got == first {
				t.Errorf("the address came back to %s", got.name)
			}
			// No Node may have it any more: nothing leaves, and in the cluster all is as before.
			_, err = b.put(poolOf("four", "192.168.1.96/28", "9"))
			s.must(err)
			for _, p := range pods {
				leavesWith("without a Node", p, false, netip.Addr{})
			}
			if s.holder(four) != nil {
				t.Error("a Node has an address that it may not have")
			}
			s.both(here, far, 80, true)
			// No Egress: Pods leave with the address of their Node.
			b.remove(egressOf("four", "", ""))
			b.remove(egressOf("six", "", ""))
			s.selects(b)
			for _, p := range pods {
				leavesWith("without an Egress", p, false, p.node.at[0])
			}
		})
	}
}

// routes has the router lead to the Pods of all Nodes, as a network around Nodes must in noEncap.
func (s *site) routes() {
	s.t.Helper()
	for _, n := range s.nodes {
		for _, text := range s.object(n).Spec.PodCIDRs {
			_, to, err := net.ParseCIDR(text)
			s.must(err)
			for _, a := range n.at {
				if a.Is4() == (to.IP.To4() != nil) {
					s.must(s.router.Handle.RouteAdd(&netlink.Route{Dst: to, Gw: a.AsSlice()}))
				}
			}
		}
	}
}

// forged reports whether a packet of VXLAN that no Node has sent reaches a server, by a Node, as if
// from a Pod.
func (s *site) forged(from *nfttest.Host, by *netNode, as *netPod, server netip.Addr) (arrives bool) {
	s.t.Helper()
	const port = 7005
	var l net.PacketConn
	s.listens(s.router, func() (err error) {
		l, err = net.ListenPacket("udp4", netip.AddrPortFrom(server, port).String())
		return err
	})
	defer func() { _ = l.Close() }()
	s.inside(from, func() error {
		from, to, mac := as.family(false).As4(), server.As4(), network.MACOf(by.name)
		inner := []byte{0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0}
		inner = append(append(inner, from[:]...), to[:]...)
		sum := uint32(0)
		for i := 0; i < len(inner); i += 2 {
			sum += uint32(inner[i])<<8 | uint32(inner[i+1])
		}
		sum = sum&0xffff + sum>>16
		binary.BigEndian.PutUint16(inner[10:], ^uint16(sum&0xffff+sum>>16))
		inner = append(inner, 0x13, 0x88, port>>8, port&0xff, 0, 12, 0, 0, 'x', 'x', 'x', 'x')
		packet := binary.BigEndian.AppendUint32([]byte{8, 0, 0, 0}, network.VNI<<8)
		packet = append(append(packet, mac[:]...), 2, 0, 0, 0, 0, 1, 8, 0)
		c, err := net.ListenPacket("udp4", ":0")
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		for range 5 {
			for _, to := range []netip.Addr{by.at[0], network.OwnAddress(netip.MustParsePrefix(s.object(by).Spec.PodCIDRs[0]))} {
				if _, err := c.WriteTo(append(slices.Clone(packet), inner...), net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, network.DefaultPort))); err != nil && !errors.Is(err, syscall.ENETUNREACH) {
					return err
				}
			}
			if err := l.SetReadDeadline(time.Now().Add(impatient)); err != nil {
				return err
			}
			if _, _, err := l.ReadFrom(make([]byte, 64)); err == nil {
				arrives = true
				break
			}
		}
		return nil
	})
	return arrives
}

// bulk sends a server more than fits in small packets, and gets it back.
func (s *site) bulk(from *netPod, to netip.Addr, port uint16) {
	s.t.Helper()
	c, err := s.dial(from.Host, from.family(to.Is6()), netip.AddrPortFrom(to, port))
	s.must(err)
	defer func() { _ = c.Close() }()
	s.must(c.SetDeadline(time.Now().Add(4 * patient)))
	sent := make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(i % 251)
	}
	failed := make(chan error, 1)
	go func() { _, err := c.Write(sent); failed <- err }()
	got := make([]byte, len(sent))
	_, err = io.ReadFull(c, got)
	s.must(errors.Join(err, <-failed))
	if !bytes.Equal(got, sent) {
		s.t.Error("other bytes came back")
	}
}

// dial connects from a host.
func (s *site) dial(from *nfttest.Host, source netip.Addr, to netip.AddrPort) (c net.Conn, err error) {
	s.inside(from, func() error {
		c, err = (&net.Dialer{Timeout: patient, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))}).Dial("tcp", to.String())
		return nil
	})
	return c, err
}

func echo(c net.Conn) error {
	if err := errors.Join(c.SetDeadline(time.Now().Add(patient))); err != nil {
		return err
	}
	if _, err := c.Write([]byte("still")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 5))
	return err
}

// prober connects again and again until stop is called, which returns how often that failed, of how
// many times.
func (s *site) prober(from *netPod, to netip.Addr, port uint16) (stop func() int, of func() int) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var failed, tried atomic.Int32
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			tried.Add(1)
			if err := from.Host.Do(func() error { return dialAtOnce(netip.AddrPortFrom(to, port).String()) }); err != nil {
				failed.Add(1)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return func() int { cancel(); <-done; return int(failed.Load()) }, func() int { return int(tried.Load()) }
}
