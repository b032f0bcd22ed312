package pods_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/cluster/clustertest"
	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/disk"
	"github.com/nephele-io/nephele/internal/agent/localpods"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/pods"
	"github.com/nephele-io/nephele/internal/agent/proxy"
)

// setClock is ahead of time by a time.
type setClock struct {
	clock.RealClock
	ahead atomic.Int64
}

// After is quick.
func (c *setClock) After(d time.Duration) <-chan time.Time { return c.RealClock.After(d / 100) }

func (c *setClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.ahead.Load())) }

// podServer serves Pods as the controller does, or fails.
type podServer struct {
	mu      sync.Mutex
	list    analysis.LocalPodList
	fails   error
	watches []*watch.FakeWatcher
	lists   int
}

func (s *podServer) LocalPods(_ context.Context, node string) (*analysis.LocalPodList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	if s.fails == nil && node != "w" {
		return nil, fmt.Errorf("asked about %q", node)
	}
	return s.list.DeepCopy(), s.fails
}

func (s *podServer) WatchLocalPods(context.Context, string, string, *int64) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil {
		return nil, s.fails
	}
	w := watch.NewFake()
	s.watches = append(s.watches, w)
	return w, nil
}

// becomes is what the server serves from now on; watches end.
func (s *podServer) becomes(fails error, asOf string, pods ...analysis.LocalPod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = fails
	s.list = analysis.LocalPodList{ListMeta: metav1.ListMeta{ResourceVersion: "1000"}, AsOf: asOf, Items: pods}
	for _, w := range s.watches {
		w.Stop()
	}
	s.watches = nil
}

func localPod(name, address string) analysis.LocalPod {
	return analysis.LocalPod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: "u", ResourceVersion: "1001"}, PodVersion: "50", Addresses: []string{address}}
}

// servedPods follows the Pods of a Node, and returns what waits until so many are known by these
// names.
func servedPods(t *testing.T, s *podServer, client *fake.Clientset, clk clock.Clock) (knows func(when, names string)) {
	t.Helper()
	return follows(t, podsFrom(s, client, clk))
}

// refreshed takes in what there is now and returns it; nil while nothing is known.
func refreshed(p *pods.Pods) *nft.Node {
	p.Refresh()
	node, _ := p.Current()
	return node
}

func version(p *pods.Pods) uint64 { _, v := p.Current(); return v }

func hostPorts(p *pods.Pods) []proxy.HostPort {
	list, _ := p.HostPorts()
	return list
}

// attach takes in what the runtime says of an attachment, as settled or not.
func attach(p *pods.Pods, a cni.Attachment, settled bool) error {
	x, err := p.Attach(a)
	if err == nil && settled {
		p.Release(x)
	}
	return err
}

// podsFrom are the Pods of a Node that a controller serves.
func podsFrom(s *podServer, client *fake.Clientset, clk clock.Clock) *pods.Pods {
	c := clustertest.Cluster{Clientset: client}
	local := localpods.New(localpods.Options{Server: s, Cluster: pods.OfNode(c, "w"), Node: "w", Clock: clk, Log: logr.Discard()})
	return pods.New(pods.Options{Node: "w", Cluster: c, Local: local, Log: logr.Discard()})
}

func follows(t *testing.T, p *pods.Pods) (knows func(when, names string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func(when, names string) {
		t.Helper()
		var got []string
		for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			n := refreshed(p)
			if n == nil {
				continue
			}
			got = nil
			for _, x := range n.Pods {
				waiting := ""
				if x.Waiting {
					waiting = "?"
				}
				got = append(got, fmt.Sprint(x.Name, x.Addresses, waiting))
			}
			if strings.Join(got, " ") == names {
				return
			}
		}
		t.Fatalf("%s: known are %v, want %s", when, got, names)
	}
}

func nodeOf(objects ...runtime.Object) *fake.Clientset {
	return fake.NewClientset(append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w"}})...)
}

var notServed = apierrors.NewNotFound(schema.GroupResource{}, "")

// TestServedPods: an agent has the Pods that the controller serves, keeps them while that is away,
// and takes what there is then as a whole. It does not read Pods in the cluster.
func TestServedPods(t *testing.T) {
	t.Parallel()
	s, client := &podServer{}, nodeOf()
	client.PrependReactor("*", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		t.Error("Pods are read in the cluster")
		return true, nil, errors.New("no")
	})
	s.becomes(nil, "50", localPod("a", "10.0.0.1"))
	knows := servedPods(t, s, client, &setClock{})
	knows("at first", "a[10.0.0.1]")
	s.mu.Lock()
	w := s.watches[len(s.watches)-1]
	s.mu.Unlock()
	b := localPod("b", "10.0.0.2")
	w.Add(&b)
	knows("with another", "a[10.0.0.1] b[10.0.0.2]")
	b.Addresses = []string{"10.0.0.3"}
	w.Modify(&b)
	knows("changed", "a[10.0.0.1] b[10.0.0.3]")
	w.Delete(&b)
	knows("gone", "a[10.0.0.1]")

	for _, away := range []error{apierrors.NewServiceUnavailable("away"), apierrors.NewForbidden(schema.GroupResource{}, "", nil), errors.New("broken connection")} {
		s.becomes(away, "")
		knows("while it is away", "a[10.0.0.1]")
		s.asked(t, 1)
		knows("and when it was asked again", "a[10.0.0.1]")
	}
	s.becomes(nil, "60", localPod("c", "10.0.0.4"), localPod("d", "10.0.0.5"))
	knows("back", "c[10.0.0.4] d[10.0.0.5]")
}

// TestDamagedPods: a list with something that is no Pod counts for nothing.
func TestDamagedPods(t *testing.T) {
	t.Parallel()
	s, client := &podServer{}, nodeOf()
	s.becomes(nil, "50", localPod("a", "10.0.0.1"))
	knows := servedPods(t, s, client, &setClock{})
	knows("at first", "a[10.0.0.1]")
	damaged := localPod("", "10.0.0.2")
	s.becomes(nil, "60", localPod("b", "10.0.0.2"), damaged)
	s.asked(t, 2)
	knows("damaged", "a[10.0.0.1]")
	s.becomes(nil, "60", localPod("b", "10.0.0.2"))
	knows("whole", "b[10.0.0.2]")
}

// asked waits until the list was asked for so many times more.
func (s *podServer) asked(t *testing.T, times int) {
	t.Helper()
	lists := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.lists
	}
	want := lists() + times
	for deadline := time.Now().Add(2 * time.Minute); lists() < want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not ask again")
		}
	}
}

// TestOlderPods: what another controller serves that has not received everything yet is not taken;
// a cluster that was put back is, after a minute.
func TestOlderPods(t *testing.T) {
	t.Parallel()
	s, client := &podServer{}, nodeOf()
	clk := &setClock{}
	s.becomes(nil, "50", localPod("a", "10.0.0.1"))
	knows := servedPods(t, s, client, clk)
	knows("at first", "a[10.0.0.1]")
	s.becomes(nil, "49")
	s.asked(t, 2)
	knows("older", "a[10.0.0.1]")
	s.becomes(nil, "50", localPod("a", "10.0.0.2"))
	knows("as new", "a[10.0.0.2]")
	s.becomes(nil, "20", localPod("b", "10.0.0.3"))
	s.asked(t, 2)
	knows("put back", "a[10.0.0.2]")
	clk.ahead.Store(int64(2 * time.Minute))
	knows("put back for good", "b[10.0.0.3]")
}

// TestOlderController: where the controller serves no Pods, they are read in the cluster, if that
// is allowed, and as they are served once they are.
func TestOlderController(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "u"}, Spec: corev1.PodSpec{NodeName: "w"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}}
	s, client := &podServer{}, nodeOf()
	var mu sync.Mutex
	forbidden := false
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if forbidden {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
		}
		return true, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "60"}, Items: []corev1.Pod{*pod}}, nil
	})
	watches := make(chan *watch.FakeWatcher, 100)
	client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		w := watch.NewFake()
		watches <- w
		return true, w, nil
	})
	s.becomes(nil, "50", localPod("b", "10.0.0.2"))
	knows := servedPods(t, s, client, &setClock{})
	knows("served", "b[10.0.0.2]")
	mu.Lock()
	forbidden = true
	mu.Unlock()
	s.becomes(notServed, "")
	s.asked(t, 2)
	knows("neither served nor allowed", "b[10.0.0.2]")
	mu.Lock()
	forbidden = false
	mu.Unlock()
	knows("allowed", "a[10.0.0.1]")
	s.becomes(nil, "60", localPod("b", "10.0.0.2"))
	(<-watches).Stop() // as it does now and then
	knows("served again", "b[10.0.0.2]")
}

// TestKeptPodsWithoutController: an agent that begins while the controller is away guards the Pods
// that there were, with their ports, but for those that go, and takes in new ones.
func TestKeptPodsWithoutController(t *testing.T) {
	t.Parallel()
	s := &podServer{fails: apierrors.NewServiceUnavailable("away")}
	p := podsFrom(s, nodeOf(), &setClock{})
	attached := func(name, address string) cni.Attachment {
		return cni.Attachment{Container: "c-" + name, Interface: "eth0", Namespace: "n", Name: name, UID: "u-" + name, Addresses: []netip.Addr{netip.MustParseAddr(address)}}
	}
	at := func(text string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(text)} }
	port := proxy.HostPort{Protocol: corev1.ProtocolTCP, Port: 80, To: netip.MustParseAddrPort("10.0.0.1:8080")}
	p.Restore(&disk.State{
		Node: &nft.Node{Pods: []nft.Pod{{Namespace: "n", Name: "plain", Addresses: at("10.0.0.1")}, {Namespace: "n", Name: "attached", Addresses: at("10.0.0.2")}, {Namespace: "n", Name: "goes", Addresses: at("10.0.0.3")},
			{Namespace: "n", Name: "waits", Addresses: at("10.0.0.5"), Waiting: true}}},
		Attachments: []cni.Attachment{attached("attached", "10.0.0.2"), attached("goes", "10.0.0.3")},
		HostPorts:   []proxy.HostPort{port},
	})
	knows := follows(t, p)
	for range 2 {
		s.asked(t, 1)
		knows("again", "plain[10.0.0.1] attached[10.0.0.2] goes[10.0.0.3]")
	}
	if got := hostPorts(p); len(got) != 1 || got[0] != port || !strings.Contains(p.Trouble(), "away") {
		t.Errorf("ports %v, state %q", got, p.Trouble())
	}
	p.Detach(attached("goes", "10.0.0.3"), nil)
	for name, settled := range map[string]bool{"new": false, "essential": true} {
		if err := attach(p, attached(name, map[bool]string{false: "10.0.0.4", true: "10.0.0.3"}[settled]), settled); err != nil {
			t.Fatal(err)
		}
	}
	knows("one went, two came", "plain[10.0.0.1] attached[10.0.0.2] essential[10.0.0.3] new[10.0.0.4]?")
	plain := localPod("plain", "10.0.0.1")
	s.becomes(nil, "1", plain)
	knows("and then they are served", "plain[10.0.0.1] essential[10.0.0.3] new[10.0.0.4]?")
	if p.Trouble() != "" || len(hostPorts(p)) != 0 {
		t.Errorf("ports %v, state %q", hostPorts(p), p.Trouble())
	}
}

// TestFirstPodsOfANetwork: an agent that makes the network and has never learned which Pods there
// are gives new ones their place, closes no address, and knows it when it learns that there are no
// others, so that it reports then.
func TestFirstPodsOfANetwork(t *testing.T) {
	t.Parallel()
	for _, ranges := range [][]string{nil, {"10.0.0.0/24"}} {
		s := &podServer{fails: apierrors.NewServiceUnavailable("away")}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w"}, Spec: corev1.NodeSpec{PodCIDRs: ranges}}
		p := podsFrom(s, fake.NewClientset(node), &setClock{})
		p.JoinNetwork(nil, true, nil)
		knows := follows(t, p)
		a := cni.Attachment{Container: "c", Interface: "eth0", Namespace: "n", Name: "a", UID: "u", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
		if err := attach(p, a, true); err != nil {
			t.Fatal(err)
		}
		knows("a Pod of a Namespace that does not wait", "a[10.0.0.1]")
		if got := refreshed(p); len(got.Ranges) != 0 || !p.Blind() {
			t.Errorf("closed is %v, blind %t", got.Ranges, p.Blind())
		}
		before := version(p)
		s.becomes(nil, "1", localPod("a", "10.0.0.1"))
		for deadline := time.Now().Add(2 * time.Minute); p.Blind(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it does not learn that there is one Pod")
			}
		}
		knows("the same", "a[10.0.0.1]")
		if got := refreshed(p); len(got.Ranges) != len(ranges) || version(p) == before {
			t.Errorf("closed is %v, version %d", got.Ranges, version(p))
		}
	}
}

// TestNothingIsKnown: on a Node of another plugin an agent that has never learned which Pods there
// are closes none.
func TestNothingIsKnown(t *testing.T) {
	t.Parallel()
	s := &podServer{fails: apierrors.NewServiceUnavailable("away")}
	p := podsFrom(s, nodeOf(), &setClock{})
	knows := follows(t, p)
	s.asked(t, 3)
	if got := refreshed(p); got != nil {
		t.Errorf("it makes %+v of it", got)
	}
	s.becomes(nil, "1", localPod("a", "10.0.0.1"))
	knows("served", "a[10.0.0.1]")
}

// TestPodsWithOneAddress has an address that two Pods claim, addresses of Pods that have ended or
// are in the network of the Node, and one that is the Node's own.
func TestPodsWithOneAddress(t *testing.T) {
	now := time.Now()
	named := func(name, address string, age time.Duration, change func(p *corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: address}}}}
		if change != nil {
			change(p)
		}
		return p
	}
	client := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.0.0.0/24", "nonsense"}},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Address: "192.0.2.1"}, {Address: "w.example.com"}}}},
		named("young", "10.0.0.1", time.Minute, nil), named("old", "10.0.0.1", time.Hour, nil),
		named("ended", "10.0.0.2", time.Minute, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		named("host", "10.0.0.3", time.Minute, func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
		named("thief", "192.0.2.1", time.Minute, nil),
		named("mapped", "::ffff:10.0.0.4", time.Minute, nil),
	)
	p := pods.New(pods.Options{Node: "w", Cluster: clustertest.Cluster{Clientset: client}, IPVS: func() (bool, error) { return true, nil }, Log: logr.Discard()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx)
	}()
	defer func() { cancel(); <-done }()
	var got *nft.Node
	for deadline := time.Now().Add(2 * time.Minute); got == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is known")
		}
		p.Settle()
		got, _ = p.Current()
	}
	var list []string
	for _, x := range got.Pods {
		list = append(list, fmt.Sprint(x.Name, x.Addresses))
	}
	if text := strings.Join(list, " "); text != "old[10.0.0.1] mapped[10.0.0.4] young[10.0.0.1]" || len(got.Ranges) != 1 || !got.IPVS {
		t.Errorf("known are %s in %v", text, got.Ranges)
	}
}
