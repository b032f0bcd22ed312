// Package pods follows the Pods of a Node, and what the runtime of the Node tells of their
// addresses.
//
// It owns the view of the Node that rules are made of: its ranges, its Pods with their addresses,
// which of them wait until it is known what applies to them, and why packets of some do not come
// by. It promises:
//
//   - What the runtime says of an address counts before what the API says, which is later. An
//     address belongs to one Pod at a time.
//   - A Pod of which the runtime has told is closed until it is released.
//   - While it is not known which Pods there are, those count that there were.
//
// Each view has a version, which grows. Pods are safe for concurrent use.
package pods

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/nephele-io/nephele/internal/agent/cluster"
	"github.com/nephele-io/nephele/internal/agent/disk"
	"github.com/nephele-io/nephele/internal/agent/localpods"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/agent/nodes"
	"github.com/nephele-io/nephele/internal/agent/proxy"
)

// Options are what Pods need.
type Options struct {
	// Node is the name of the Node.
	Node    string
	Cluster cluster.API
	// Local lists and watches the Pods of the Node, with Cluster as its Cluster; nil reads them in
	// the cluster.
	Local *localpods.Source
	// Ranges are where Pods of the Node have their addresses, besides what the Node itself says.
	Ranges []netip.Prefix
	// Bypass returns why packets of an address do not come by; empty if they do. Nil knows of none.
	Bypass func(a netip.Addr) (string, error)
	// Bridge returns the bridge by which an address is reached; empty if it is reached otherwise.
	// Nil knows of none.
	Bridge func(a netip.Addr) (string, error)
	// Own returns the addresses that the Node has, besides those that the API tells of. Nil: none
	// are known.
	Own func() ([]netip.Addr, error)
	// Settings is a text that changes with the settings of the kernel on which it depends whether
	// packets come by. Nil: there are none.
	Settings func() string
	// IPVS reports whether packets to Services are led there by IPVS. Nil: they are not.
	IPVS func() (bool, error)
	Log  logr.Logger
}

// OfNode returns what lists and watches the Pods of a Node in its cluster.
func OfNode(c cluster.API, node string) cache.ListerWatcher {
	return selected(c, "pods", "spec.nodeName", node)
}

// selected returns what lists and watches the objects with a value of a field.
func selected(c cluster.API, resource, field, value string) cache.ListerWatcher {
	return c.Follow(corev1.SchemeGroupVersion.WithResource(resource), metav1.NamespaceAll, func(l *metav1.ListOptions) {
		l.FieldSelector = fields.OneTermEqualSelector(field, value).String()
	})
}

// informer keeps the objects of a kind as they are.
type informer struct {
	cache.Store
	run cache.Controller
}

// Pods follows the Pods of a Node. It is safe for concurrent use.
type Pods struct {
	Options
	pods, nodes informer
	news        chan struct{}
	// network is what the rules do for the network of the Node; nil for nothing.
	network func() *nft.Network
	// makes tells that the agent makes the network of the Node.
	makes bool
	// onChange is called when the Pods of the Node have changed, and shaped when their bandwidth
	// may be another. Nil does nothing.
	onChange, shaped func()
	// wanted are the bounds of Pods when shaped was called last, seen the version then.
	wanted map[string]network.Shape
	seen   uint64

	mu   sync.Mutex
	node *nft.Node
	// own are the addresses of the Node.
	own     map[netip.Addr]bool
	version uint64
	trouble string
	// complete tells that all was taken in once.
	complete bool
	attachments
}

// New returns what follows the Pods of a Node once it runs.
func New(o Options) *Pods {
	p := &Pods{Options: o, news: make(chan struct{}, 1), attachments: noAttachments()}
	changed := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { p.Wake() }, UpdateFunc: func(_, _ any) { p.Wake() }, DeleteFunc: func(any) { p.Wake() },
	}
	follow := func(kind runtime.Object, from cache.ListerWatcher, trim cache.TransformFunc) (i informer) {
		i.Store, i.run = cache.NewInformerWithOptions(cache.InformerOptions{ObjectType: kind, Handler: changed, Transform: trim, ListerWatcher: from})
		return i
	}
	pods := OfNode(o.Cluster, o.Node)
	if o.Local != nil {
		pods = o.Local.ListerWatcher(p.Wake)
	}
	p.pods = follow(&corev1.Pod{}, pods, localpods.Trim)
	p.nodes = follow(&corev1.Node{}, selected(o.Cluster, "nodes", "metadata.name", o.Node), nodes.Trim)
	return p
}

// JoinNetwork connects the Pods with a network that the agent makes, or only encrypts. Function
// current returns what the rules do for it. Pods calls shaped, unless it is nil, when the bandwidth
// of Pods may have changed. Call it before Run.
func (p *Pods) JoinNetwork(current func() *nft.Network, makes bool, shaped func()) {
	p.network, p.makes, p.shaped = current, makes, shaped
}

// OnChange registers a function that is called when the Pods of the Node have changed. Call it
// before Run.
func (p *Pods) OnChange(f func()) { p.onChange = f }

// Kept returns Pods of which nothing is known but what was kept.
func Kept() *Pods { return &Pods{news: make(chan struct{}, 1), attachments: noAttachments()} }

// News holds a token after something has changed.
func (p *Pods) News() <-chan struct{} { return p.news }

// Wake has the next Refresh come soon.
func (p *Pods) Wake() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// Run follows the Pods until ctx ends.
func (p *Pods) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { p.pods.run.RunWithContext(ctx) })
	running.Go(func() { p.nodes.run.RunWithContext(ctx) })
	running.Wait()
}

// Restore takes what was known of the Node when it was kept. It counts until more is known.
func (p *Pods) Restore(kept *disk.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attachments.restore(kept)
	if kept.Node != nil && p.node == nil {
		p.node = kept.Node
		p.version++
	}
}

// Settle takes in what there is at first, if it was not yet.
func (p *Pods) Settle() {
	p.mu.Lock()
	complete := p.complete
	p.mu.Unlock()
	if !complete {
		p.Refresh()
	}
}

// told is what the CNI plugin has told of Pods, and what there was before.
func (p *Pods) told() (told *tale, former *nft.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.attachments.told(), p.node
}

// list are the Pods that there are, as the informer has them. While that has nothing, because the
// controller does not answer, they are as they were when the agent was here before. If it was not,
// and makes the network, there are no Pods but new ones: the controller may be one of them.
// Otherwise nothing is known.
func (p *Pods) list() (pods []*corev1.Pod, complete, known bool) {
	switch {
	case p.pods.run == nil || !p.nodes.run.HasSynced():
		return nil, false, false
	case p.pods.run.HasSynced():
		for _, o := range p.pods.List() {
			if pod, ok := o.(*corev1.Pod); ok {
				pods = append(pods, pod)
			}
		}
		return pods, true, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.before), false, p.Local.Problem() != "" && (p.before != nil || p.makes)
}

// Blind reports whether nothing is known of Pods that the Node may have.
func (p *Pods) Blind() bool {
	_, complete, _ := p.list()
	p.mu.Lock()
	defer p.mu.Unlock()
	return !complete && p.before == nil
}

// podsByName are the Pods of list by NAMESPACE/NAME.
func (p *Pods) podsByName() map[string]*corev1.Pod {
	out := map[string]*corev1.Pod{}
	list, _, _ := p.list()
	for _, pod := range list {
		out[pod.Namespace+"/"+pod.Name] = pod
	}
	return out
}

// Refresh takes in what is known now, and looks how packets of each Pod go.
func (p *Pods) Refresh() {
	all, complete, known := p.list()
	if !known {
		return
	}
	node := &nft.Node{Ranges: slices.Clone(p.Ranges)}
	if p.network != nil {
		node.Network = p.network()
	}
	own := map[netip.Addr]bool{}
	for _, o := range p.nodes.List() {
		n, ok := o.(*corev1.Node)
		if !ok {
			continue
		}
		for _, text := range n.Spec.PodCIDRs {
			if c, err := netip.ParsePrefix(text); err == nil {
				node.Ranges = append(node.Ranges, c.Masked())
			}
		}
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil {
				own[ip.Unmap()] = true
			}
		}
	}
	here, trouble := p.ownNow()
	maps.Copy(own, here)
	if all == nil && !complete { // Pods of another plugin would be closed
		node.Ranges = nil
	}
	slices.SortFunc(node.Ranges, netip.Prefix.Compare)
	node.Ranges = slices.Compact(node.Ranges)
	var list []*corev1.Pod
	for _, pod := range all {
		if !pod.Spec.HostNetwork && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			list = append(list, pod)
		}
	}
	// Of two Pods that claim an address the younger has it: the other is about to go.
	slices.SortFunc(list, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	told, former := p.told()
	told.partial = !complete
	if p.network != nil && node.Network == nil && former != nil { // it is not known yet
		node.Network = former.Network
	}
	if p.IPVS != nil {
		var err error
		if node.IPVS, err = p.IPVS(); err != nil { // as it was
			node.IPVS = former != nil && former.IPVS
			trouble = fmt.Sprintf("how packets go to Services is not known: %v", err)
		}
	}
	for _, x := range told.pods(list) {
		// The Node's own addresses are the Node's, whatever is claimed.
		x.Addresses = slices.DeleteFunc(x.Addresses, func(a netip.Addr) bool { return own[a] })
		for _, a := range x.Addresses {
			why, err := p.bypass(a)
			if err != nil {
				trouble = fmt.Sprintf("how packets of Pod %s/%s go is not known: %v", x.Namespace, x.Name, err)
			}
			x.Bypass = cmp.Or(x.Bypass, why)
			if p.Bridge == nil || p.makes {
				continue
			}
			if bridge, err := p.Bridge(a); err != nil {
				trouble = fmt.Sprintf("how packets of Pod %s/%s go is not known: %v", x.Namespace, x.Name, err)
			} else if bridge != "" && !slices.Contains(node.Bridges, bridge) {
				node.Bridges = append(node.Bridges, bridge)
			}
		}
		if len(x.Addresses) > 0 {
			node.Pods = append(node.Pods, x)
		}
	}
	slices.Sort(node.Bridges)
	p.mu.Lock()
	defer p.mu.Unlock()
	learned := complete && !p.complete && p.before == nil // for which Pods policies are enforced can be reported now
	p.trouble, p.own, p.complete = trouble, own, complete
	if p.node == nil || learned || !sameNode(p.node, node) {
		p.node = node
		p.version++
		if p.onChange != nil {
			p.onChange()
		}
	}
	if shapes, _ := p.Shapes(); p.shaped != nil && (!maps.Equal(shapes, p.wanted) || p.version != p.seen) {
		p.wanted, p.seen = shapes, p.version
		p.shaped()
	}
	p.attachments.took(told, p.version)
}

// ownNow are the addresses that the Node has, and why they are not known.
func (p *Pods) ownNow() (own map[netip.Addr]bool, trouble string) {
	own = map[netip.Addr]bool{}
	if p.Own == nil {
		return own, ""
	}
	list, err := p.Own()
	if err != nil {
		return own, fmt.Sprintf("the addresses of the Node are not known: %v", err)
	}
	for _, a := range list {
		own[a.Unmap()] = true
	}
	return own, ""
}

func (p *Pods) bypass(a netip.Addr) (string, error) {
	if p.Bypass == nil {
		return "", nil
	}
	return p.Bypass(a)
}

func sameNode(a, b *nft.Node) bool {
	network := a.IPVS == b.IPVS && a.Network.Equal(b.Network) && slices.Equal(a.Ranges, b.Ranges) && slices.Equal(a.Bridges, b.Bridges)
	return network && slices.EqualFunc(a.Pods, b.Pods, func(x, y nft.Pod) bool {
		return x.Namespace == y.Namespace && x.Name == y.Name && x.Bypass == y.Bypass && x.Waiting == y.Waiting && slices.Equal(x.Addresses, y.Addresses)
	})
}

// Current returns what is known, nil if nothing is, and its version.
func (p *Pods) Current() (*nft.Node, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node, p.version
}

// Addresses returns the addresses of the Node, as far as they are known, sorted.
func (p *Pods) Addresses() []netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Keys(p.own), netip.Addr.Compare)
}

// Way is where a packet between two addresses goes. An address that is not said is the Node's.
func (p *Pods) Way(from, to netip.Addr) ruleset.Way {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case from.IsUnspecified() || p.own[from]:
		return ruleset.Leaving
	case to.IsUnspecified() || p.own[to]:
		return ruleset.Arriving
	}
	return ruleset.Passing
}

// Trouble returns what goes wrong.
func (p *Pods) Trouble() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.trouble, p.Local.Problem())
}

// HostPorts are the ports of the Node that lead to Pods of it; false while that is not known.
func (p *Pods) HostPorts() ([]proxy.HostPort, bool) {
	p.mu.Lock()
	node := p.node
	p.mu.Unlock()
	if node == nil || p.pods.run == nil {
		return nil, false
	}
	named := p.podsByName()
	var out []proxy.HostPort
	for i := range node.Pods {
		pod := named[node.Pods[i].Namespace+"/"+node.Pods[i].Name]
		if pod == nil {
			continue
		}
		for _, c := range pod.Spec.Containers {
			for _, port := range c.Ports {
				for _, a := range node.Pods[i].Addresses {
					h := proxy.HostPort{Protocol: port.Protocol, Port: uint16(port.HostPort), To: netip.AddrPortFrom(a, uint16(port.ContainerPort))}
					if ip, err := netip.ParseAddr(port.HostIP); err == nil {
						h.Address = ip.Unmap()
					}
					out = append(out, h)
				}
			}
		}
	}
	return out, true
}

// AddressesInAPI maps the addresses of the Node's Pods in the API to these Pods.
func (p *Pods) AddressesInAPI() map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, pod := range p.podsByName() {
		if pod.Spec.HostNetwork || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, ip := range pod.Status.PodIPs {
			if a, err := netip.ParseAddr(ip.IP); err == nil {
				out[a.Unmap()] = pod.Namespace + "/" + pod.Name
			}
		}
	}
	return out
}
