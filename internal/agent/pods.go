package agent

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

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/localpods"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft"
)

// PodsOptions are what Pods need.
type PodsOptions struct {
	// Node is the name of the Node.
	Node    string
	Cluster Cluster
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
func OfNode(c Cluster, node string) cache.ListerWatcher {
	return selected(c, "pods", "spec.nodeName", node)
}

// selected returns what lists and watches the objects with a value of a field.
func selected(c Cluster, resource, field, value string) cache.ListerWatcher {
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
	PodsOptions
	pods, nodes informer
	news        chan struct{}
	// network is what the rules do for the network of the Node; nil for nothing.
	network func() *nft.Network
	// makes tells that the agent makes the network of the Node.
	makes bool
	// others is called when other Pods are here, and shaped besides when their bandwidth may be
	// another. Nil does nothing.
	others, shaped func()
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

// NewPods returns what follows the Pods of a Node once it runs.
func NewPods(o PodsOptions) *Pods {
	p := &Pods{PodsOptions: o, news: make(chan struct{}, 1), attachments: noAttachments()}
	changed := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { p.poke() }, UpdateFunc: func(_, _ any) { p.poke() }, DeleteFunc: func(any) { p.poke() },
	}
	follow := func(kind runtime.Object, from cache.ListerWatcher, trim cache.TransformFunc) (i informer) {
		i.Store, i.run = cache.NewInformerWithOptions(cache.InformerOptions{ObjectType: kind, Handler: changed, Transform: trim, ListerWatcher: from})
		return i
	}
	pods := OfNode(o.Cluster, o.Node)
	if o.Local != nil {
		pods = o.Local.ListerWatcher(p.poke)
	}
	p.pods = follow(&corev1.Pod{}, pods, localpods.Trim)
	p.nodes = follow(&corev1.Node{}, selected(o.Cluster, "nodes", "metadata.name", o.Node), trimNode)
	return p
}

// KeptPods returns Pods of which nothing is known but what was kept.
func KeptPods() *Pods { return &Pods{news: make(chan struct{}, 1), attachments: noAttachments()} }

func trimNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	out := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, CreationTimestamp: n.CreationTimestamp},
		Spec:       corev1.NodeSpec{PodCIDR: n.Spec.PodCIDR, PodCIDRs: n.Spec.PodCIDRs},
		Status:     corev1.NodeStatus{Addresses: n.Status.Addresses},
	}
	if key := n.Annotations[cloudv1alpha1.AnnotationWireGuardKey]; key != "" {
		out.Annotations = map[string]string{cloudv1alpha1.AnnotationWireGuardKey: key}
	}
	return out, nil
}

func (p *Pods) poke() {
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

// restore takes what was known of the Node when it was kept. It counts until more is known.
func (p *Pods) restore(kept *Kept) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attachments.restore(kept)
	if kept.Node != nil && p.node == nil {
		p.node = kept.Node
		p.version++
	}
}

// settle takes in what there is at first, if it was not yet.
func (p *Pods) settle() {
	p.mu.Lock()
	complete := p.complete
	p.mu.Unlock()
	if !complete {
		p.refresh()
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

// blind reports whether nothing is known of Pods that the Node may have.
func (p *Pods) blind() bool {
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

// refresh takes in what is known now, and looks how packets of each Pod go.
func (p *Pods) refresh() {
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
		if p.others != nil {
			p.others()
		}
	}
	if shapes, _ := p.shapes(); p.shaped != nil && (!maps.Equal(shapes, p.wanted) || p.version != p.seen) {
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

// current returns what is known, nil if nothing is, and its version.
func (p *Pods) current() (*nft.Node, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node, p.version
}

// addresses are those of the Node, as far as they are known, sorted.
func (p *Pods) addresses() []netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Keys(p.own), netip.Addr.Compare)
}

// way is where a packet between two addresses goes. An address that is not said is the Node's.
func (p *Pods) way(from, to netip.Addr) nft.Way {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case from.IsUnspecified() || p.own[from]:
		return nft.Leaving
	case to.IsUnspecified() || p.own[to]:
		return nft.Arriving
	}
	return nft.Passing
}

// state returns what goes wrong.
func (p *Pods) state() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.trouble, p.Local.Problem())
}
