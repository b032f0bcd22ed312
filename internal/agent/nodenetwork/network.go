// Package nodenetwork makes the network of a Node, or only encrypts what is between Nodes.
//
// It owns the addresses that Pods of the Node have, the links, routes and neighbours of the kernel,
// the key by which other Nodes encrypt to this one, and what is known of the way to them. What is
// to be is decided by package network, without I/O; this package observes, asks it, and applies. It
// promises:
//
//   - It adopts what is there after a restart, and writes only what differs.
//   - An address is free again only when its interface is gone; an address that is in use is never
//     given.
//   - While something is not known, what is in the kernel stays.
//
// A Network is safe for concurrent use.
package nodenetwork

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/agent/cluster"
	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/disk"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft"
	nodesof "github.com/nephele-io/nephele/internal/agent/nodes"
	"github.com/nephele-io/nephele/internal/platform/errtext"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// networkInterval is how often links and routes are read, and how soon what failed is tried
	// again.
	networkInterval = 10 * time.Second
	// firstInterval is how often it is looked whether the Nodes are known.
	firstInterval = 500 * time.Millisecond
	// youngLease is for how long an interface may have addresses and no link: its plugin is at
	// work.
	youngLease = 2 * time.Minute
	// oldReserved is for how long an address that another plugin has given counts though the API
	// knows no Pod that has it.
	oldReserved = 10 * time.Minute
	// lastTunnel is for how long the device of VXLAN stays after a change of the mode: until all
	// agents have the new one, the others send by it.
	lastTunnel = time.Hour
	// mostProblems bounds what is told of what is wrong.
	mostProblems = 20
)

// Links are the links of the kernel of the Node; links.Kernel has some.
type Links interface {
	Observe(look network.Look) (*network.State, network.Underlay, error)
	// End is a link to a Pod, with its routes; false if it is not there.
	End(name string) (*network.State, bool, error)
	Apply(steps []network.Step) error
	// Shape bounds what passes by links to Pods, by their names, and by no others.
	Shape(want map[string]network.Shape) (changed int, err error)
}

// Options are what the network of a Node needs.
type Options struct {
	Node    string
	Cluster cluster.API
	Config  network.Config
	Links   Links
	// Reserved are the addresses that another plugin has given to containers. Nil: none.
	Reserved func() ([]cni.Reserved, error)
	// Listen opens the port by which Nodes find out whether packets come to others. Nil: they do
	// not.
	Listen func(ctx context.Context, network, address string) (net.PacketConn, error)
	// Keys holds the keys of WireGuard; nil where nothing is encrypted.
	Keys Keys
	// IPsec is what encrypts by IPsec; nil where nothing does.
	IPsec IPsec
	// Publish tells others what the Node has to encrypt by, in its Node. Nil: they are not told.
	Publish func(ctx context.Context, t Published) error
	Clock   clock.WithTicker
	Log     logr.Logger
}

// bandwidth is what Pods may receive and send.
type bandwidth struct {
	// of are the bounds of Pods by NAMESPACE/NAME, and what is wrong with those that they want; nil
	// while they are not known.
	of func() (map[string]network.Shape, []string)
	// problems are why bounds are not kept.
	problems []string
}

// faults say why the kernel is not as wanted, and why the other holders of addresses are unknown.
type faults struct{ failed, held string }

// leaving is how Pods leave the cluster.
type leaving struct {
	// of says it, with the numbers of other Nodes by which they do, unless that is not known.
	of func() (exits []nft.Exit, by map[string]uint8, known bool)
	// exits are what was last known.
	exits []nft.Exit
}

// Network makes the network of a Node: it gives Pods their addresses, and keeps the links, routes
// and neighbours of the kernel as they are to be. It is safe for concurrent use.
type Network struct {
	Options
	nodes cache.Store
	run   cache.Controller
	news  chan struct{}
	// keyNews holds a token when it is to be looked whether others know the key of the Node.
	keyNews chan struct{}
	// changed is called when what the rules do for the network has changed.
	changed func()
	// pods are the addresses that Pods of the Node have, as the API says.
	pods    func() map[netip.Addr]string
	meeting *meeting

	mu   sync.Mutex
	pool *network.Pool
	plan *network.Plan
	// strangers are links to Pods of which nothing is known, found the last time.
	strangers map[string]bool
	// own are the addresses of the Node.
	own       map[netip.Addr]bool
	rules     *nft.Network
	faults    faults
	bandwidth bandwidth
	leaving   leaving
	// sealing is why others were not told the key of the Node, and whether a process encrypts.
	sealing struct {
		untold  string
		inAgent bool
	}
	// written counts what was done in the kernel.
	written int
	// since is when the network was looked at first, in this mode.
	since time.Time
}

// New returns the network of a Node, which does nothing before it runs.
func New(o Options) *Network {
	n := &Network{Options: o, news: make(chan struct{}, 1), keyNews: make(chan struct{}, 1), pool: network.NewPool(), own: map[netip.Addr]bool{},
		changed: func() {}, pods: func() map[netip.Addr]string { return nil }}
	n.bandwidth.of = func() (map[string]network.Shape, []string) { return nil, nil }
	n.meeting = &meeting{listen: o.Listen, wrong: map[string]string{}, suspected: map[string]bool{}, waiting: map[uint64]chan int{}}
	changed := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { n.poke() }, UpdateFunc: n.updated, DeleteFunc: func(any) { n.poke() }}
	n.nodes, n.run = cache.NewInformerWithOptions(cache.InformerOptions{
		ObjectType: &corev1.Node{}, Handler: changed, Transform: nodesof.Trim,
		ListerWatcher: o.Cluster.Follow(corev1.SchemeGroupVersion.WithResource("nodes"), metav1.NamespaceAll, func(*metav1.ListOptions) {}),
	})
	return n
}

// Nodes returns the Nodes of the cluster, trimmed; false before they are known.
func (n *Network) Nodes() ([]any, bool) { return n.nodes.List(), n.run.HasSynced() }

// JoinPods connects it with the Pods of the Node. It calls changed when the rules for the network
// have changed. Function addresses returns the addresses of Pods in the API, and bounds the
// bandwidth limits of Pods, nil while they are unknown. Call it before Run.
func (n *Network) JoinPods(changed func(), addresses func() map[netip.Addr]string, bounds func() (map[string]network.Shape, []string)) {
	n.changed, n.pods, n.bandwidth.of = changed, addresses, bounds
}

// Leave lets it ask how Pods leave the cluster. It is called before it runs.
func (n *Network) Leave(of func() (exits []nft.Exit, by map[string]uint8, known bool)) {
	n.leaving.of = of
}

// Wake lets it look soon whether all is as it is to be.
func (n *Network) Wake() { n.poke() }

func (n *Network) poke() {
	for _, c := range []chan struct{}{n.news, n.keyNews} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// updated looks whether a Node has changed where that matters: Nodes tell often that they live.
func (n *Network) updated(old, now any) {
	a, ok1 := old.(*corev1.Node)
	b, ok2 := now.(*corev1.Node)
	if ok1 && ok2 && slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs) && slices.Equal(a.Status.Addresses, b.Status.Addresses) &&
		publishedBy(a) == publishedBy(b) {
		return
	}
	n.poke()
}

// Run keeps the network as it is to be until ctx ends. It stays then.
func (n *Network) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { n.run.RunWithContext(ctx) })
	if n.Listen != nil {
		running.Go(func() { n.meet(ctx) })
	}
	if n.Publish != nil {
		running.Go(func() { n.keepKey(ctx) })
	}
	if n.IPsec != nil {
		running.Go(func() { n.IPsec.Run(ctx, n.wantedIdentity, n.poke) })
	}
	turn := n.Clock.NewTicker(networkInterval)
	defer turn.Stop()
	first := n.Clock.NewTicker(firstInterval) // until the Nodes are known
	defer first.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.news:
		case <-turn.C():
		case <-first.C():
			n.mu.Lock()
			known := n.plan != nil
			n.mu.Unlock()
			if known {
				first.Stop()
				continue
			}
		}
		if fault := recovered.Do(n.Sync); fault != nil {
			n.mu.Lock()
			n.fail(fault)
			n.mu.Unlock()
		}
	}
}

// Restore takes in what was kept.
func (n *Network) Restore(k *disk.State) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k.Network != nil {
		n.pool.Restore(*k.Network)
	}
	if k.Node != nil && k.Node.Network != nil {
		n.leaving.exits = k.Node.Network.Exits
	}
}

// Kept is what is to be kept.
func (n *Network) Kept() *network.Kept {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.pool.Kept()
	return &k
}

// Sync makes the kernel have what is wanted now.
func (n *Network) Sync() {
	if !n.run.HasSynced() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	nodes := nodesof.Of(n.nodes.List())
	state, under, err := n.Links.Observe(network.LookOf(n.Node, nodes))
	if err != nil {
		n.fail(err)
		return
	}
	n.own = map[netip.Addr]bool{}
	for _, p := range under.Addresses {
		n.own[p.Addr()] = true
	}
	now := n.Clock.Now()
	n.reconcile(state, now)
	ends := map[string][]netip.Addr{}
	for _, l := range n.pool.Leases() {
		if name := network.EndName(l.Container, l.Interface); isOf(state, name, l.Key) {
			ends[name] = l.Addresses
		}
	}
	exits, by, known := n.exits()
	in := network.Input{Config: n.Config, Name: n.Node, Nodes: nodes, Underlay: under, Ends: ends, Stays: n.stays(state, now), Exits: by, Entries: entries(n.Node, nodes, exits)}
	if n.Keys != nil {
		in.OwnKey = n.Keys.Public()
	}
	if n.IPsec != nil {
		in.OwnIdentity = n.IPsec.Identity()
	}
	plan := network.Make(in)
	if !known {
		plan.KeepExits(state)
	}
	n.tellTroubles(plan)
	n.plan, n.sealing.inAgent = plan, state.Sealing() != nil && state.Sealing().InAgent
	n.pool.SetRanges(plan.Ranges)
	steps := plan.Steps(state)
	n.written += len(steps)
	for _, s := range steps {
		n.Log.V(1).Info("The network of the Node is changed", "step", s.String())
	}
	if err = n.Links.Apply(steps); err != nil {
		n.fail(err)
	} else {
		n.faults.failed = ""
	}
	if n.Makes() {
		n.shape()
	}
	rules := &nft.Network{Sealed: plan.Sealed, Elsewhere: !n.Makes()}
	if plan.State.IPsec != nil {
		rules.SealedLink = plan.State.IPsec.Link
	}
	if n.Makes() {
		rules.Returns, rules.Port, rules.Ends = plan.Returns, n.Config.VXLANPort(), network.EndsOf(nodes)
		rules.Wraps = plan.State.Device != nil
		rules.Own, rules.Keep, rules.NoSNAT = slices.Clone(plan.Ranges), slices.Concat(plan.Pods, n.Config.Except), n.Config.NoSNAT
		if rules.Exits = exits; len(exits) > 0 {
			rules.Near = network.AddressesOf(nodes)
		}
	}
	slices.SortFunc(rules.Own, netip.Prefix.Compare)
	slices.SortFunc(rules.Keep, netip.Prefix.Compare)
	if !rules.Equal(n.rules) && !plan.Partial {
		n.rules = rules
		n.changed()
	}
}

// entries are the other Nodes Pods of which leave by a Node, sorted.
func entries(name string, nodes []network.Node, exits []nft.Exit) (out []string) {
	for i := range nodes {
		n := &nodes[i]
		if n.Name != name && slices.ContainsFunc(exits, func(e nft.Exit) bool {
			return e.From.IsValid() && slices.ContainsFunc(n.PodCIDRs, func(p netip.Prefix) bool { return p.Contains(e.Pod) })
		}) {
			out = append(out, n.Name)
		}
	}
	slices.Sort(out)
	return out
}

// exits are with which addresses Pods leave, or did while that is not known.
func (n *Network) exits() (exits []nft.Exit, by map[string]uint8, known bool) {
	if n.leaving.of == nil {
		return nil, nil, true
	}
	if exits, by, known = n.leaving.of(); known {
		n.leaving.exits = exits
	}
	return n.leaving.exits, by, known
}

// shape bounds what Pods receive and send.
func (n *Network) shape() {
	shapes, problems := n.bandwidth.of()
	if shapes == nil { // what is there stays until it is known
		return
	}
	want := map[string]network.Shape{}
	for _, l := range n.pool.Leases() {
		if s := shapes[l.Namespace+"/"+l.Name]; s != (network.Shape{}) {
			want[network.EndName(l.Container, l.Interface)] = s
		}
	}
	changed, err := n.Links.Shape(want)
	if n.written += changed; err != nil {
		problems = append(problems, err.Error())
	}
	for _, p := range problems {
		if !slices.Contains(n.bandwidth.problems, p) {
			n.Log.Info("The bandwidth of a Pod is not as it is to be", "reason", p)
		}
	}
	n.bandwidth.problems = problems
}

// stays is the device of VXLAN, if it is there and has not been unwanted for long.
func (n *Network) stays(state *network.State, now time.Time) *network.VXLAN {
	if n.since.IsZero() {
		n.since = now
	}
	if now.Sub(n.since) >= lastTunnel {
		return nil
	}
	return state.Device
}

// isOf reports whether a link to a Pod is there, and is that of an interface.
func isOf(state *network.State, name string, key network.Key) bool {
	end, there := state.Ends[name]
	container, iface, ok := network.ParseAlias(end.Alias)
	return there && ok && container == key.Container && iface == key.Interface
}

func (n *Network) fail(err error) {
	if text := err.Error(); text != n.faults.failed {
		n.faults.failed = text
		n.Log.Error(err, "The network of the Node is not as it is to be, trying again")
	}
}

// tellTroubles writes what has come into the log.
func (n *Network) tellTroubles(plan *network.Plan) {
	for _, t := range plan.Troubles {
		if n.plan == nil || !slices.Contains(n.plan.Troubles, t) {
			n.Log.Info("The network of the Node has trouble", "trouble", t.String())
		}
	}
}

// reconcile matches the leases of addresses with the links in the kernel.
func (n *Network) reconcile(state *network.State, now time.Time) {
	n.pool.Rested(now)
	known := map[string]bool{}
	for _, l := range n.pool.Leases() {
		name := network.EndName(l.Container, l.Interface)
		known[name] = true
		young := now.Sub(l.Made)
		if !isOf(state, name, l.Key) && (young > youngLease || young < 0) {
			n.Log.Info("A Pod is gone without saying so, and its addresses are free", "pod", l.Namespace+"/"+l.Name, "addresses", l.Addresses)
			n.pool.Free(l.Key, now)
		}
	}
	// A link of which nothing is known is one that was made before what is kept was lost. Seen once
	// it may be about to go.
	strangers := map[string]bool{}
	for name, end := range state.Ends {
		if known[name] {
			continue
		}
		strangers[name] = true
		container, iface, ok := network.ParseAlias(end.Alias)
		if !ok || name != network.EndName(container, iface) || n.strangers != nil && !n.strangers[name] {
			continue
		}
		l := network.Lease{Key: network.Key{Container: container, Interface: iface}, Made: now}
		for to, r := range state.Routes {
			if r.Link == name && to.IsSingleIP() {
				l.Addresses = append(l.Addresses, to.Addr())
			}
		}
		if len(l.Addresses) > 0 {
			slices.SortFunc(l.Addresses, netip.Addr.Compare)
			n.pool.Restore(network.Kept{Leases: []network.Lease{l}})
		}
	}
	n.strangers = strangers
}

// Rules is what the rules do for the network; nil before that is known.
func (n *Network) Rules() *nft.Network {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rules
}

// Assign gives an interface of a Pod its addresses.
func (n *Network) Assign(about cni.Attachment) (*cni.Assigned, error) {
	said := n.pods()
	theirs, heldErr := n.reserved(said)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults.held = errtext.Of(heldErr)
	if heldErr != nil {
		return nil, fmt.Errorf("it is not known which addresses Pods of another plugin have: %w", heldErr)
	}
	if n.plan == nil {
		return nil, errors.New("the Nodes of the cluster are not known yet")
	}
	if reason, ok := n.plan.Known(); !ok {
		return nil, errors.New(reason)
	}
	held := func(a netip.Addr) string {
		switch {
		case n.own[a]:
			return "the Node itself"
		case theirs[a] != "":
			return theirs[a]
		}
		return said[a]
	}
	wanted := network.Lease{Key: network.Key{Container: about.Container, Interface: about.Interface}, Namespace: about.Namespace, Name: about.Name}
	l, err := n.pool.Assign(wanted, held, n.Clock.Now())
	if err != nil {
		return nil, err
	}
	l.Namespace, l.Name = about.Namespace, about.Name // also of one that was found without them
	out := &cni.Assigned{Addresses: slices.Clone(l.Addresses), MTU: n.plan.MTU}
	for _, a := range l.Addresses {
		out.Gateways = append(out.Gateways, network.GatewayOf(a.Is6()))
	}
	return out, nil
}

// reserved are the addresses that another plugin has given. One that is old, and that no Pod has,
// is left over from a container that went without saying so.
func (n *Network) reserved(said map[netip.Addr]string) (map[netip.Addr]string, error) {
	if n.Reserved == nil {
		return nil, nil
	}
	list, err := n.Reserved()
	out, now := map[netip.Addr]string{}, n.Clock.Now()
	for _, r := range list {
		if now.Sub(r.Since) < oldReserved || said[r.Address] != "" {
			out[r.Address] = cmp.Or(said[r.Address], fmt.Sprintf("container %.12s of network %s", r.Container, r.Network))
		}
	}
	return out, err
}

// Connect does what there is to do at the Node for an interface of a Pod, when its link is there.
func (n *Network) Connect(about cni.Attachment) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := network.Key{Container: about.Container, Interface: about.Interface}
	l := n.pool.Get(key)
	if l == nil || !sameAddresses(l.Addresses, about.Addresses) {
		return cni.Refusal{Err: fmt.Errorf("addresses %v were not given to the Pod by this agent: it has started anew meanwhile, or another CNI plugin makes its network, whose list must go", about.Addresses)}
	}
	name := network.EndName(about.Container, about.Interface)
	state, there, err := n.Links.End(name)
	if err != nil {
		return err
	}
	if !there || !isOf(state, name, key) {
		return fmt.Errorf("the link %s to the Pod is not there", name)
	}
	if n.plan == nil {
		return errors.New("the Nodes of the cluster are not known yet")
	}
	want := network.NewState()
	n.plan.End(want, name, l.Addresses)
	return n.Links.Apply(network.Difference(state, want))
}

func sameAddresses(a, b []netip.Addr) bool {
	x, y := slices.Clone(a), slices.Clone(b)
	slices.SortFunc(x, netip.Addr.Compare)
	slices.SortFunc(y, netip.Addr.Compare)
	return slices.Equal(x, y)
}

// Release takes the addresses of an interface back.
func (n *Network) Release(container, iface string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pool.Free(network.Key{Container: container, Interface: iface}, n.Clock.Now())
}

// Retain takes back what all interfaces have but the interfaces of a list, and removes their links.
// One that is being made may be too new for the list.
func (n *Network) Retain(list []cni.Attachment) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	valid, now := map[network.Key]bool{}, n.Clock.Now()
	for i := range list {
		valid[network.Key{Container: list[i].Container, Interface: list[i].Interface}] = true
	}
	var errs []error
	for _, l := range n.pool.Leases() {
		if valid[l.Key] || now.Sub(l.Made) < youngLease {
			continue
		}
		err := n.Links.Apply([]network.Step{{Verb: network.Remove, End: &network.EndStep{Name: network.EndName(l.Container, l.Interface)}}})
		if err == nil {
			n.pool.Free(l.Key, now)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Ready returns why Pods get no network; nil if they do.
func (n *Network) Ready() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.plan == nil {
		return errors.New("the Nodes of the cluster are not known yet")
	}
	if reason, ok := n.plan.Known(); !ok {
		return errors.New(reason)
	}
	return nil
}

// Status returns how the network stands.
func (n *Network) Status() network.Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := network.Status{Mode: n.Config.Mode, SNATExcept: n.Config.Except, Written: n.written, Error: n.faults.failed}
	if n.Makes() {
		s.Ranges = n.pool.Usage()
	}
	if n.plan == nil {
		s.Problems = []string{"the Nodes of the cluster are not known yet"}
		return s
	}
	s.MTU, s.Tunnels, s.Direct, s.Links, s.Local = n.plan.MTU, n.plan.Tunnels, n.plan.Direct, n.plan.Links, n.plan.Local
	if d := n.plan.State.Device; d != nil {
		s.Port = d.Port
	}
	if w := n.plan.State.Sealing(); w != nil {
		s.Encrypted = &network.Encrypted{Encryption: n.Config.Encryption, Key: w.Key.String(), Port: w.Port, Nodes: n.plan.Encrypted, InAgent: n.sealing.inAgent}
	}
	if n.sealing.untold != "" {
		s.Problems = append(s.Problems, "other Nodes are not told by what this one encrypts: "+n.sealing.untold)
	}
	if n.IPsec != nil {
		if s.Encrypted != nil {
			s.Encrypted.Key = n.IPsec.Identity()
		}
		s.Problems = append(s.Problems, n.IPsec.Problems()...)
	}
	for _, t := range n.plan.Troubles {
		s.Problems = append(s.Problems, t.String())
	}
	s.Problems = append(s.Problems, n.meeting.troubles(n.plan.Peers)...)
	if n.faults.held != "" {
		s.Problems = append(s.Problems, n.faults.held)
	}
	s.Problems = append(s.Problems, n.bandwidth.problems...)
	if more := len(s.Problems) - mostProblems; more > 0 {
		s.Problems = append(s.Problems[:mostProblems], fmt.Sprintf("and %d more", more))
	}
	return s
}
