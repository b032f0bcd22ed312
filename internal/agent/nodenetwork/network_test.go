package nodenetwork

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/disk"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft"
	nodesof "github.com/nephele-io/nephele/internal/agent/nodes"
	"github.com/nephele-io/nephele/internal/platform/errtext"
)

// kernel is one that does what it is told, unless it refuses.
type kernel struct {
	state *network.State
	under network.Underlay
	// unread is why it tells nothing, refuses why it does not do a step.
	unread  error
	refuses func(network.Step) error
	shapes  map[string]network.Shape
}

func (k *kernel) Observe(network.Look) (*network.State, network.Underlay, error) {
	if k.unread != nil {
		return nil, network.Underlay{}, k.unread
	}
	out := network.NewState()
	out.Device, out.WireGuard = k.state.Device, k.state.WireGuard
	maps.Copy(out.Ends, k.state.Ends)
	maps.Copy(out.Routes, k.state.Routes)
	maps.Copy(out.Neighbours, k.state.Neighbours)
	maps.Copy(out.Forwards, k.state.Forwards)
	maps.Copy(out.Ways, k.state.Ways)
	maps.Copy(out.Rules, k.state.Rules)
	return out, k.under, nil
}

func (k *kernel) End(name string) (*network.State, bool, error) {
	out := network.NewState()
	end, there := k.state.Ends[name]
	if there {
		out.Ends[name] = end
	}
	return out, there, k.unread
}

func put[K comparable, V any](m map[K]V, v network.Verb, key K, value V) {
	if m[key] = value; v == network.Remove {
		delete(m, key)
	}
}

func (k *kernel) Apply(steps []network.Step) error {
	var errs []error
	for _, s := range steps {
		if k.refuses != nil {
			if err := k.refuses(s); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		switch {
		case s.Device != nil && s.Verb == network.Remove:
			k.state.Device = nil
		case s.Device != nil:
			k.state.Device = s.Device
		case s.End != nil && s.Verb == network.Remove:
			delete(k.state.Ends, s.End.Name)
		case s.End != nil:
			end := k.state.Ends[s.End.Name]
			end.Up, end.Addresses = true, append(slices.Clone(end.Addresses), s.End.Add...)
			k.state.Ends[s.End.Name] = end
		case s.Route != nil:
			put(k.state.Routes, s.Verb, s.Route.To, s.Route.Route)
		case s.Neighbour != nil:
			put(k.state.Neighbours, s.Verb, s.Neighbour.Address, s.Neighbour.MAC)
		case s.Forward != nil:
			put(k.state.Forwards, s.Verb, s.Forward.MAC, s.Forward.To)
		case s.Way != nil:
			put(k.state.Ways, s.Verb, *s.Way, true)
		case s.Rule != nil:
			put(k.state.Rules, s.Verb, *s.Rule, true)
		}
	}
	return errors.Join(errs...)
}

func (k *kernel) Shape(want map[string]network.Shape) (int, error) {
	changed := 0
	if !maps.Equal(k.shapes, want) {
		k.shapes, changed = want, 1
	}
	return changed, nil
}

// plug is the link of a Pod, as the plugin makes it.
func (k *kernel) plug(container string) {
	k.state.Ends[network.EndName(container, "eth0")] = network.End{Alias: network.EndAlias(container, "eth0")}
}

// synced is a run of an informer whose store the test has filled.
type synced struct {
	cache.Controller
	not bool
}

func (s *synced) HasSynced() bool { return !s.not }

// noCluster has nothing to follow.
type noCluster struct{}

func (noCluster) Follow(schema.GroupVersionResource, string, func(*metav1.ListOptions)) cache.ListerWatcher {
	return &cache.ListWatch{}
}

func nodeOf(i int, cidrs ...string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node", i), CreationTimestamp: metav1.Unix(int64(1000+i), 0)}, Spec: corev1.NodeSpec{PodCIDRs: cidrs},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", i+1)}}},
	}
}

// world is the Node node0 among others.
type world struct {
	*Network
	kernel *kernel
	clock  *testingclock.FakeClock
	synced *synced
}

// begin makes a new process on the Node; what the kernel has stays.
func (w *world) begin(t *testing.T, o Options, nodes ...*corev1.Node) {
	t.Helper()
	o.Node, o.Cluster, o.Links, o.Clock, o.Log = "node0", noCluster{}, w.kernel, w.clock, logr.Discard()
	w.Network = New(o)
	w.synced = &synced{}
	w.run = w.synced
	w.have(t, nodes...)
}

func (w *world) have(t *testing.T, nodes ...*corev1.Node) {
	t.Helper()
	var list []any
	for _, n := range nodes {
		trimmed, err := nodesof.Trim(n)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, trimmed)
	}
	if err := w.nodes.Replace(list, ""); err != nil {
		t.Fatal(err)
	}
}

// trouble is all that is wrong, as one text.
func (w *world) trouble() string {
	s := w.Status()
	return s.Trouble()
}

func newWorld(t *testing.T, c network.Config, nodes ...*corev1.Node) *world {
	t.Helper()
	w := &world{kernel: &kernel{state: network.NewState()}, clock: testingclock.NewFakeClock(time.Unix(5000, 0))}
	w.kernel.under = network.Underlay{IPv6: true, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}, Toward: []network.Hop{{Link: "eth0", MTU: 1500}}}
	w.begin(t, Options{Config: c}, nodes...)
	return w
}

func pod(name string) cni.Attachment {
	return cni.Attachment{Container: "c-" + name, Interface: "eth0", Namespace: "n", Name: name}
}

// TestBadInput: what is wrong with Nodes, links or the kernel is told in a sentence, and costs no
// more than it must: a Pod starts where it can, and other Nodes are reached.
func TestBadInput(t *testing.T) {
	const four, six = "10.244.%d.0/24", "fd00:%d::/64"
	for name, c := range map[string]struct {
		change func(w *world, nodes []*corev1.Node)
		config network.Config
		// problem is a part of what Status tells, refused of why no Pod starts; empty for none.
		problem, refused string
		// routed are the podCIDRs of other Nodes that have a route.
		routed []string
	}{
		"nothing":                {routed: []string{"10.244.1.0/24", "10.244.2.0/24", "fd00:1::/64", "fd00:2::/64"}},
		"no podCIDR":             {change: func(_ *world, n []*corev1.Node) { n[0].Spec.PodCIDRs = nil }, problem: "Node node0 has no spec.podCIDRs", refused: "start kube-controller-manager with --allocate-node-cidrs", routed: []string{"10.244.1.0/24", "10.244.2.0/24", "fd00:1::/64", "fd00:2::/64"}},
		"one that is no range":   {change: func(_ *world, n []*corev1.Node) { n[0].Spec.PodCIDRs = []string{"10.244.0.0/99"} }, problem: "Node node0 has no spec.podCIDRs", refused: "has no spec.podCIDRs", routed: []string{"10.244.1.0/24", "10.244.2.0/24", "fd00:1::/64", "fd00:2::/64"}},
		"another has no podCIDR": {change: func(_ *world, n []*corev1.Node) { n[1].Spec.PodCIDRs = nil }, problem: "Node node1 has no spec.podCIDRs", routed: []string{"10.244.2.0/24", "fd00:2::/64"}},
		"others overlap": {change: func(_ *world, n []*corev1.Node) { n[2].Spec.PodCIDRs[0] = "10.244.1.128/25" }, problem: "podCIDR 10.244.1.128/25 of Node node2 overlaps 10.244.1.0/24 of Node node1, which is older",
			routed: []string{"10.244.1.0/24", "fd00:1::/64", "fd00:2::/64"}},
		"a younger one overlaps this one": {change: func(_ *world, n []*corev1.Node) { n[2].Spec.PodCIDRs[0] = "10.244.0.0/16" }, problem: "of Node node2 overlaps", routed: []string{"10.244.1.0/24", "fd00:1::/64", "fd00:2::/64"}},
		"this one overlaps an older one": {change: func(_ *world, n []*corev1.Node) {
			n[0].CreationTimestamp, n[0].Spec.PodCIDRs = metav1.Unix(9000, 0), []string{"10.244.1.0/25"}
		}, problem: "podCIDR 10.244.1.0/25 of Node node0 overlaps", refused: "which is older", routed: []string{"10.244.1.0/24", "10.244.2.0/24", "fd00:1::/64", "fd00:2::/64"}},
		"a range with a Node in it": {change: func(_ *world, n []*corev1.Node) { n[1].Spec.PodCIDRs[0] = "192.0.2.0/24" }, problem: "podCIDR 192.0.2.0/24 of Node node1 contains 192.0.2.1, the address of Node node0, and is not routed",
			routed: []string{"10.244.2.0/24", "fd00:1::/64", "fd00:2::/64"}},
		"too small for IPv6": {change: func(w *world, _ []*corev1.Node) { w.kernel.under.Toward[0].MTU = 1300 }, problem: "the MTU of Pods would be 1250, and IPv6 needs 1280", refused: "raise the MTU",
			routed: []string{"10.244.1.0/24", "10.244.2.0/24", "fd00:1::/64", "fd00:2::/64"}},
		"set too small for IPv6": {config: network.Config{MTU: 1200}, problem: "the MTU of Pods would be 1200, and IPv6 needs 1280", refused: "raise the MTU", routed: []string{"10.244.1.0/24", "10.244.2.0/24", "fd00:1::/64", "fd00:2::/64"}},
		"small, and no IPv6": {change: func(w *world, n []*corev1.Node) {
			w.kernel.under.Toward[0].MTU = 1300
			for _, x := range n {
				x.Spec.PodCIDRs = x.Spec.PodCIDRs[:1]
			}
		}, routed: []string{"10.244.1.0/24", "10.244.2.0/24"}},
		"set too large":     {config: network.Config{MTU: 1500}, problem: "the MTU of Pods is set to 1500, and the links between Nodes carry 1450", routed: []string{"10.244.1.0/24", "10.244.2.0/24", "fd00:1::/64", "fd00:2::/64"}},
		"no such Node":      {change: func(w *world, n []*corev1.Node) { n[0].Name = "other" }, problem: "the API server knows no Node node0", refused: "knows no Node node0"},
		"no link":           {change: func(w *world, _ []*corev1.Node) { w.kernel.under.Toward = nil }, refused: "the link by which other Nodes are reached is not known", routed: []string{"10.244.1.0/24", "10.244.2.0/24", "fd00:1::/64", "fd00:2::/64"}},
		"IPv6 switched off": {change: func(w *world, _ []*corev1.Node) { w.kernel.under.IPv6 = false }, problem: "IPv6 is switched off on this Node", routed: []string{"10.244.1.0/24", "10.244.2.0/24"}},
		"a foreign route": {change: func(w *world, _ []*corev1.Node) {
			w.kernel.under.Foreign = map[netip.Prefix]string{netip.MustParsePrefix("10.244.1.0/24"): "flannel.1"}
		}, problem: "over link flannel.1", routed: []string{"10.244.2.0/24", "fd00:1::/64", "fd00:2::/64"}},
		"another without an address": {change: func(_ *world, n []*corev1.Node) { n[1].Status.Addresses = nil }, problem: "Node node1 has no IPv4 address", routed: []string{"10.244.2.0/24", "fd00:2::/64"}},
		"no VXLAN": {change: func(w *world, _ []*corev1.Node) {
			w.kernel.refuses = func(s network.Step) error {
				if s.Device != nil || s.Neighbour != nil || s.Forward != nil || s.Route != nil && s.Route.Link == network.Device {
					return errors.New("the kernel has no VXLAN")
				}
				return nil
			}
		}, problem: "the kernel has no VXLAN"},
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []*corev1.Node
			for i := range 3 {
				nodes = append(nodes, nodeOf(i, fmt.Sprintf(four, i), fmt.Sprintf(six, i)))
			}
			c.config.Mode = network.Encap
			w := newWorld(t, c.config)
			if c.change != nil {
				c.change(w, nodes)
			}
			w.have(t, nodes...)
			w.Sync()
			s := w.Status()
			if told := s.Trouble(); (told == "") != (c.problem == "") || !strings.Contains(told, c.problem) {
				t.Errorf("told %q, want %q", told, c.problem)
			}
			got, err := w.Assign(pod("a"))
			if ready := w.Ready(); errtext.Of(ready) != errtext.Of(err) || (err == nil) != (c.refused == "") || !strings.Contains(errtext.Of(err), c.refused) {
				t.Errorf("ready: %v; a Pod gets %+v, %v, want %q", ready, got, err, c.refused)
			}
			var routed []string
			for to, r := range w.kernel.state.Routes {
				if r.Link == network.Device {
					routed = append(routed, to.String())
				}
			}
			if slices.Sort(routed); !slices.Equal(routed, c.routed) {
				t.Errorf("routed are %v, want %v", routed, c.routed)
			}
			// Nothing differs: nothing is written. What failed is tried again.
			written := w.Status().Written
			w.Sync()
			if again := w.Status().Written - written; again > 0 != (w.kernel.refuses != nil) {
				t.Errorf("%d more steps", again)
			}
			if w.kernel.refuses != nil {
				w.kernel.refuses = nil
				w.Sync()
				if s := w.Status(); s.Error != "" || w.kernel.state.Device == nil {
					t.Errorf("when the kernel can, %+v", s)
				}
			}
		})
	}
}

// TestManyProblems: what is told of what is wrong has an end.
func TestManyProblems(t *testing.T) {
	nodes := []*corev1.Node{nodeOf(0, "10.244.0.0/24")}
	for i := range 50 {
		nodes = append(nodes, nodeOf(i+1))
	}
	w := newWorld(t, network.Config{Mode: network.Encap}, nodes...)
	w.Sync()
	if s := w.Status(); len(s.Problems) != mostProblems+1 || s.Problems[mostProblems] != "and 30 more" {
		t.Errorf("%d problems, the last is %q", len(s.Problems), s.Problems[len(s.Problems)-1])
	}
}

// TestUnknownStays: while the Nodes, the kernel or Egresses are not known, what is there stays.
func TestUnknownStays(t *testing.T) {
	nodes := []*corev1.Node{nodeOf(0, "10.244.0.0/24"), nodeOf(1, "10.244.1.0/24")}
	w := newWorld(t, network.Config{Mode: network.Encap}, nodes...)
	exits, by, known := []nft.Exit{{Pod: netip.MustParseAddr("10.244.0.9"), By: 7}}, map[string]uint8{"node1": 7}, true
	leave := func() ([]nft.Exit, map[string]uint8, bool) { return exits, by, known }
	w.Leave(leave)
	changes := 0
	w.JoinPods(func() { changes++ }, func() map[netip.Addr]string { return nil }, func() (map[string]network.Shape, []string) { return nil, nil })
	w.Sync()
	rules := w.Rules()
	if len(w.kernel.state.Ways) == 0 || len(rules.Exits) != 1 || changes != 1 {
		t.Fatalf("%+v %+v, %d changes", w.kernel.state, rules, changes)
	}
	before := fmt.Sprintf("%+v", w.kernel.state)
	kept := &disk.State{Network: w.Kept(), Node: &nft.Node{Network: rules}}
	// Another process, which knows nothing yet.
	w.begin(t, Options{Config: network.Config{Mode: network.Encap}})
	w.Restore(kept)
	known, exits, by = false, nil, nil
	w.Leave(leave)
	w.synced.not = true
	w.Sync()
	if s := w.Status(); len(s.Problems) != 1 || w.Ready() == nil || w.Rules() != nil {
		t.Errorf("without Nodes: %+v", s)
	}
	if _, err := w.Assign(pod("a")); err == nil {
		t.Error("a Pod gets addresses that may be others'")
	}
	w.synced.not = false
	w.have(t, nodes...)
	w.kernel.unread = errors.New("the kernel does not answer")
	w.Sync()
	if s := w.Status(); s.Written != 0 || !strings.Contains(s.Error, "does not answer") {
		t.Errorf("without the kernel: %+v", s)
	}
	w.kernel.unread = nil
	w.Sync()
	if after := fmt.Sprintf("%+v", w.kernel.state); after != before || w.Status().Written != 0 || !w.Rules().Equal(rules) || w.Status().Error != "" {
		t.Errorf("without Egresses, after %d steps: %s\nbefore: %s", w.Status().Written, after, before)
	}
	known = true
	w.Sync()
	if len(w.kernel.state.Ways)+len(w.kernel.state.Rules)+len(w.Rules().Exits) > 0 {
		t.Errorf("without any Egress: %+v", w.kernel.state)
	}
}

// TestEntries: the Nodes whose Pods leave here are others, and each is told once.
func TestEntries(t *testing.T) {
	nodes := nodesof.Of([]any{nodeOf(0, "10.244.0.0/24"), nodeOf(2, "10.244.2.0/24"), nodeOf(1, "10.244.1.0/24"), nodeOf(3)})
	a, from := netip.MustParseAddr, netip.MustParseAddr("192.0.2.100")
	got := entries("node0", nodes, []nft.Exit{{Pod: a("10.244.0.2"), From: from}, {Pod: a("10.244.1.2"), From: from}, {Pod: a("10.244.1.3"), From: from}, {Pod: a("10.244.2.2"), By: 3}, {Pod: a("10.9.9.9"), From: from}})
	if !slices.Equal(got, []string{"node1"}) {
		t.Errorf("%v", got)
	}
}

// TestAddresses: an address has the holder that the lease, the API, the Node or another plugin
// names, and is free only when its interface is gone.
func TestAddresses(t *testing.T) {
	node := nodeOf(0, "10.244.0.0/29") // .2 to .6, as .0, .1 and .7 are nobody's
	w := newWorld(t, network.Config{Mode: network.NoEncap}, node)
	w.kernel.under.Addresses = append(w.kernel.under.Addresses, netip.MustParsePrefix("10.244.0.3/32"))
	reserved := []cni.Reserved{{Address: netip.MustParseAddr("10.244.0.4"), Container: "old", Network: "kindnet", Since: w.clock.Now()}}
	var unknown error
	w.Reserved = func() ([]cni.Reserved, error) { return reserved, unknown }
	w.JoinPods(func() {}, func() map[netip.Addr]string {
		return map[netip.Addr]string{netip.MustParseAddr("10.244.0.5"): "n/there"}
	}, func() (map[string]network.Shape, []string) {
		return map[string]network.Shape{"n/a": {Ingress: 1e6}, "n/away": {Egress: 1e6}}, []string{"n/b wants a rate that is none"}
	})
	w.Sync()
	a, err := w.Assign(pod("a"))
	if err != nil || a.Addresses[0] != netip.MustParseAddr("10.244.0.2") || a.MTU != 1500 || a.Gateways[0] != network.Gateway4 {
		t.Fatalf("%+v %v", a, err)
	}
	if again, err := w.Assign(pod("a")); err != nil || !slices.Equal(again.Addresses, a.Addresses) {
		t.Errorf("asked again, it gets %+v %v", again, err)
	}
	b, err := w.Assign(pod("b"))
	if err != nil || b.Addresses[0] != netip.MustParseAddr("10.244.0.6") {
		t.Errorf("%+v %v, want the one that nobody has", b, err)
	}
	_, err = w.Assign(pod("c"))
	for _, holder := range []string{"n/a", "n/b", "the Node itself", "n/there", "network kindnet"} {
		if err == nil || !strings.Contains(err.Error(), holder) {
			t.Errorf("exhausted: %v, want that %s has one", err, holder)
		}
	}
	unknown = errors.New("the files cannot be read")
	if _, err := w.Assign(pod("c")); err == nil || !strings.Contains(w.trouble(), "the files cannot be read") {
		t.Errorf("%v; %s", err, w.trouble())
	}
	unknown = nil
	// What nobody has is left over from a container that went without saying so.
	w.clock.Step(oldReserved)
	if c, err := w.Assign(pod("c")); err != nil || c.Addresses[0] != netip.MustParseAddr("10.244.0.4") {
		t.Errorf("%+v %v", c, err)
	}
	// The plugin has made the link of a: it is connected, and slowed down.
	about := pod("a")
	if about.Addresses = a.Addresses; w.Connect(about) == nil {
		t.Error("a Pod without a link is connected")
	}
	w.kernel.plug("c-a")
	if err := w.Connect(about); err != nil {
		t.Error(err)
	}
	if r := w.kernel.state.Routes[netip.MustParsePrefix("10.244.0.2/32")]; r.Link != network.EndName("c-a", "eth0") || r.Source != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("the route of the Pod is %+v", r)
	}
	other := about
	other.Addresses = b.Addresses
	var refusal cni.Refusal
	if err := w.Connect(other); !errors.As(err, &refusal) {
		t.Errorf("with addresses that are not its own: %v", err)
	}
	w.Sync()
	if want := map[string]network.Shape{network.EndName("c-a", "eth0"): {Ingress: 1e6}}; !maps.Equal(w.kernel.shapes, want) || !strings.Contains(w.trouble(), "n/b wants a rate") {
		t.Errorf("%+v; %s", w.kernel.shapes, w.trouble())
	}
	// Pods without a link lose their addresses, when their plugin must be done.
	w.clock.Step(youngLease + time.Second)
	w.Sync()
	if k := w.Kept(); len(k.Leases) != 1 || k.Leases[0].Container != "c-a" {
		t.Errorf("%+v", k)
	}
	// What the runtime does not list any more goes with its link.
	if err := w.Retain(nil); err != nil || len(w.Kept().Leases) > 0 || len(w.kernel.state.Ends) > 0 {
		t.Errorf("%v: %+v, %+v", err, w.Kept(), w.kernel.state.Ends)
	}
}

// TestStrangers: a link of which nothing is known keeps its address from others. Seen once it may
// be about to go.
func TestStrangers(t *testing.T) {
	w := newWorld(t, network.Config{Mode: network.Encap}, nodeOf(0, "10.244.0.0/24"))
	for _, c := range []struct{ container, alias string }{{"lost", ""}, {"forged", "nephele another eth0"}} {
		w.kernel.plug(c.container)
		name := network.EndName(c.container, "eth0")
		if c.alias != "" {
			w.kernel.state.Ends[name] = network.End{Alias: c.alias}
		}
	}
	w.kernel.state.Routes[netip.MustParsePrefix("10.244.0.2/32")] = network.Route{Link: network.EndName("lost", "eth0")}
	w.kernel.state.Routes[netip.MustParsePrefix("10.244.0.3/32")] = network.Route{Link: network.EndName("forged", "eth0")}
	keep := func(s network.Step) error { // so that its route can be seen the second time
		if s.Route != nil && s.Verb == network.Remove {
			return errors.New("no")
		}
		return nil
	}
	w.kernel.refuses = keep
	w.Sync()
	w.kernel.plug("begins")
	w.kernel.state.Routes[netip.MustParsePrefix("10.244.0.4/32")] = network.Route{Link: network.EndName("begins", "eth0")}
	w.Sync()
	if k := w.Kept(); len(k.Leases) != 1 || k.Leases[0].Container != "lost" || k.Leases[0].Addresses[0] != netip.MustParseAddr("10.244.0.2") {
		t.Errorf("%+v", k)
	}
	if a, err := w.Assign(pod("a")); err != nil || a.Addresses[0] == netip.MustParseAddr("10.244.0.2") {
		t.Errorf("%+v %v", a, err)
	}
	w.Release("lost", "eth0")
	if k := w.Kept(); len(k.Leases) != 1 || len(k.Resting) != 1 {
		t.Errorf("%+v", k)
	}
}

// keys are the WireGuard keys of a Node.
type keys struct{ now, next network.PublicKey }

func (k *keys) Public() network.PublicKey { return k.now }
func (k *keys) Next() network.PublicKey   { return k.next }
func (k *keys) Renew() (network.PublicKey, error) {
	k.next = network.PublicKey{2}
	return k.next, nil
}
func (k *keys) Change(to network.PublicKey) error {
	k.now, k.next = to, network.PublicKey{}
	return nil
}

// TestKeys: others are told a key before it counts, once, and of none where nothing is encrypted.
func TestKeys(t *testing.T) {
	node := nodeOf(0, "10.244.0.0/24")
	w := newWorld(t, network.Config{Mode: network.Encap, Encryption: network.ByWireGuard}, node)
	var told []string
	var away error
	k := &keys{now: network.PublicKey{1}}
	o := Options{Config: w.Config, Keys: k, Publish: func(_ context.Context, t Published) error {
		if away == nil {
			told = append(told, t.Key)
			node.Annotations = map[string]string{cloudv1alpha1.AnnotationWireGuardKey: t.Key}
		}
		return away
	}}
	tell := func(want error) {
		t.Helper()
		w.have(t, node)
		if err := w.tellKey(t.Context()); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	w.begin(t, o)
	if err := w.tellKey(t.Context()); err != nil || len(told) > 0 {
		t.Errorf("without its Node: %v %v", told, err)
	}
	tell(nil)
	tell(nil)
	if _, err := w.RenewKey(); err != nil || k.now != (network.PublicKey{1}) {
		t.Errorf("%v %v", k.now, err)
	}
	away = errors.New("no API server")
	if tell(away); k.now != (network.PublicKey{1}) {
		t.Error("a key counts that others do not know")
	}
	away = nil
	if tell(nil); k.now != (network.PublicKey{2}) {
		t.Error("the new key does not count")
	}
	o.Keys = nil
	w.begin(t, o)
	tell(nil)
	if want := []string{network.PublicKey{1}.String(), network.PublicKey{2}.String(), ""}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

// TestUpdated: a Node that tells that it lives changes nothing.
func TestUpdated(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		wakes  bool
	}{
		"nothing":      {func(*corev1.Node) {}, false},
		"a label":      {func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }, false},
		"its address":  {func(n *corev1.Node) { n.Status.Addresses[0].Address = "192.0.2.99" }, true},
		"its podCIDRs": {func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.1.0.0/24"} }, true},
		"its key":      {func(n *corev1.Node) { n.Annotations = map[string]string{cloudv1alpha1.AnnotationWireGuardKey: "x"} }, true},
	} {
		w := newWorld(t, network.Config{Mode: network.Encap})
		before := nodeOf(1, "10.244.1.0/24")
		after := before.DeepCopy()
		c.change(after)
		w.updated(before, after)
		if got := len(w.news) == 1; got != c.wakes {
			t.Errorf("%s: wakes %t, want %t", name, got, c.wakes)
		}
	}
}
