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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft"
)

// PodsOptions are what Pods need.
type PodsOptions struct {
	// Node is the name of the Node.
	Node    string
	Cluster Cluster
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

// Pods follows the Pods of a Node. It is safe for concurrent use.
type Pods struct {
	PodsOptions
	pods, nodes       cache.Store
	runPods, runNodes cache.Controller
	news              chan struct{}
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
	follow := func(kind runtime.Object, resource, field string, trim cache.TransformFunc) (cache.Store, cache.Controller) {
		from := o.Cluster.Follow(corev1.SchemeGroupVersion.WithResource(resource), metav1.NamespaceAll, func(l *metav1.ListOptions) {
			l.FieldSelector = fields.OneTermEqualSelector(field, o.Node).String()
		})
		return cache.NewInformerWithOptions(cache.InformerOptions{ObjectType: kind, Handler: changed, Transform: trim, ListerWatcher: from})
	}
	p.pods, p.runPods = follow(&corev1.Pod{}, "pods", "spec.nodeName", trimPod)
	p.nodes, p.runNodes = follow(&corev1.Node{}, "nodes", "metadata.name", trimNode)
	return p
}

// KeptPods returns Pods of which nothing is known but what was kept.
func KeptPods() *Pods { return &Pods{news: make(chan struct{}, 1), attachments: noAttachments()} }

// trimPod drops of a Pod what the agent does not need.
func trimPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: trueUID(p), ResourceVersion: p.ResourceVersion, CreationTimestamp: p.CreationTimestamp},
		Spec:       corev1.PodSpec{HostNetwork: p.Spec.HostNetwork, Containers: portsOfNode(p.Spec.Containers)},
		Status:     corev1.PodStatus{Phase: p.Status.Phase, PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs},
	}
	for _, name := range []string{ingressBandwidth, egressBandwidth} {
		if value, has := p.Annotations[name]; has {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, name, value)
		}
	}
	return out, nil
}

// trueUID is the UID by which the runtime of the Node knows a Pod: that of a static Pod is not that
// of the object that shows it in the API.
func trueUID(p *corev1.Pod) types.UID {
	if static := p.Annotations["kubernetes.io/config.mirror"]; static != "" {
		return types.UID(static)
	}
	return p.UID
}

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
	running.Go(func() { p.runPods.RunWithContext(ctx) })
	running.Go(func() { p.runNodes.RunWithContext(ctx) })
	running.Wait()
}

// restore takes what was known of the Node when it was kept. It counts until more is known.
func (p *Pods) restore(n *nft.Node, attached []cni.Attachment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attachments.restore(attached)
	if n != nil && p.node == nil {
		p.node = n
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

// refresh takes in what is known now, and looks how packets of each Pod go.
func (p *Pods) refresh() {
	if p.runPods == nil || !p.runPods.HasSynced() || !p.runNodes.HasSynced() {
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
	slices.SortFunc(node.Ranges, netip.Prefix.Compare)
	node.Ranges = slices.Compact(node.Ranges)
	var list []*corev1.Pod
	for _, o := range p.pods.List() {
		if pod, ok := o.(*corev1.Pod); ok && !pod.Spec.HostNetwork && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			list = append(list, pod)
		}
	}
	// Of two Pods that claim an address the younger has it: the other is about to go.
	slices.SortFunc(list, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	told, former := p.told()
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
	p.trouble, p.own, p.complete = trouble, own, true
	if p.node == nil || !sameNode(p.node, node) {
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
	return p.trouble
}
