// Package services follows the Services of a cluster for a Node: where connections to them go, and
// where they are reached, for policies that have some as peers.
//
// It owns what is held of Services, EndpointSlices and the Node itself, and the ports by which load
// balancers ask for the health of the Node. Where connections go is decided by package proxy. It
// promises that nothing is forgotten because it is not known: connections go where they went, and
// Services are reached where they were, until all objects have come.
//
// Balancing and Frontends are safe for concurrent use.
package services

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/nephele-io/nephele/internal/agent/cluster"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/proxy"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// Balancing follows where connections to Services go. It is safe for concurrent use.
type Balancing struct {
	// Listen opens the ports by which load balancers ask; by default in this process.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)

	node                                string
	services, endpoints, nodes          cache.Store
	runServices, runEndpoints, runNodes cache.Controller
	news                                chan struct{}
	// hostPorts are ports of the Node that lead to Pods of it; false while that is not known.
	hostPorts func() ([]proxy.HostPort, bool)
	// changed is called when something else leads on.
	changed func()
	health  healthPorts

	// balancer is of the goroutine of Run.
	balancer proxy.Balancer

	mu  sync.Mutex
	now *nft.Balanced
	// beside is what is wrong because somebody else leads to Services, too.
	beside string
}

// unknown is what is known of Services before anything is.
var unknownServices = &nft.Balanced{Unknown: true}

// NewHostPorts returns what only follows the ports of a Node that lead to Pods of it: kube-proxy
// leads to Services.
func NewHostPorts(node string) *Balancing {
	return &Balancing{
		Listen: (&net.ListenConfig{}).Listen, node: node, news: make(chan struct{}, 1), now: unknownServices,
		hostPorts: func() ([]proxy.HostPort, bool) { return nil, true }, changed: func() {},
	}
}

// NewBalancing returns what follows the Services of a cluster for a Node once it runs, and the
// ports of the Node.
func NewBalancing(node string, of cluster.API) *Balancing {
	b := NewHostPorts(node)
	handler := func(same func(a, b any) bool) cache.ResourceEventHandler {
		return cache.ResourceEventHandlerFuncs{AddFunc: func(any) { b.Wake() }, DeleteFunc: func(any) { b.Wake() }, UpdateFunc: func(old, now any) {
			if !same(old, now) {
				b.Wake()
			}
		}}
	}
	follow := func(kind runtime.Object, of cache.ListerWatcher, trim cache.TransformFunc, same func(a, b any) bool) (cache.Store, cache.Controller) {
		return cache.NewInformerWithOptions(cache.InformerOptions{ObjectType: kind, Handler: handler(same), Transform: trim, ListerWatcher: of})
	}
	all, never := func(*metav1.ListOptions) {}, func(_, _ any) bool { return false }
	services := of.Follow(corev1.SchemeGroupVersion.WithResource("services"), metav1.NamespaceAll, all)
	slices := of.Follow(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), metav1.NamespaceAll, all)
	b.services, b.runServices = follow(&corev1.Service{}, services, trimBalanced, never)
	b.endpoints, b.runEndpoints = follow(&discoveryv1.EndpointSlice{}, slices, trimSlice, never)
	own := func(l *metav1.ListOptions) {
		l.FieldSelector = fields.OneTermEqualSelector("metadata.name", node).String()
	}
	b.nodes, b.runNodes = follow(&corev1.Node{}, of.Follow(corev1.SchemeGroupVersion.WithResource("nodes"), metav1.NamespaceAll, own), trimZone, func(x, y any) bool {
		m, ok1 := x.(*corev1.Node)
		n, ok2 := y.(*corev1.Node)
		return ok1 && ok2 && maps.Equal(m.Labels, n.Labels) && leaves(m) == leaves(n)
	})
	return b
}

// trimBalanced drops of a Service what does not say where connections go.
func trimBalanced(o any) (any, error) {
	s, ok := o.(*corev1.Service)
	if !ok {
		return o, nil
	}
	about := metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion, CreationTimestamp: s.CreationTimestamp, Labels: s.Labels}
	out := &corev1.Service{ObjectMeta: about, Spec: s.Spec, Status: corev1.ServiceStatus{LoadBalancer: s.Status.LoadBalancer}}
	out.Spec.Selector = nil
	return out, nil
}

// trimSlice drops of an EndpointSlice what does not.
func trimSlice(o any) (any, error) {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return o, nil
	}
	about := metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion}
	out := &discoveryv1.EndpointSlice{ObjectMeta: about, AddressType: s.AddressType, Ports: s.Ports}
	for _, label := range []string{discoveryv1.LabelServiceName, corev1.IsHeadlessService} {
		if value, there := s.Labels[label]; there {
			metav1.SetMetaDataLabel(&out.ObjectMeta, label, value)
		}
	}
	for _, e := range s.Endpoints {
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: e.Conditions, NodeName: e.NodeName, Hints: e.Hints})
	}
	return out, nil
}

// goes is the taint by which the autoscaler of clusters says that it is about to remove a Node.
const goes = "ToBeDeletedByClusterAutoscaler"

// leaves reports whether a Node is about to go, so that nobody should send it connections any more.
func leaves(n *corev1.Node) bool {
	return n.DeletionTimestamp != nil || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == goes })
}

// trimZone keeps of a Node in which zone it is, and whether it is about to go.
func trimZone(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, DeletionTimestamp: n.DeletionTimestamp,
		Labels: map[string]string{corev1.LabelTopologyZone: n.Labels[corev1.LabelTopologyZone]}}}
	for _, t := range n.Spec.Taints {
		if t.Key == goes {
			out.Spec.Taints = append(out.Spec.Taints, t)
		}
	}
	return out, nil
}

// JoinPods connects it with the Pods of the Node: hostPorts returns the ports of the Node that lead
// to Pods, false while they are unknown. It calls changed when connections go elsewhere. Call it
// before Run.
func (b *Balancing) JoinPods(hostPorts func() ([]proxy.HostPort, bool), changed func()) {
	b.hostPorts, b.changed = hostPorts, changed
}

// Wake has it find out soon where connections go.
func (b *Balancing) Wake() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// Leads reports whether it leads to Services.
func (b *Balancing) Leads() bool { return b.services != nil }

// Run follows the Services until ctx ends.
func (b *Balancing) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	if b.Leads() {
		for _, run := range []cache.Controller{b.runServices, b.runEndpoints, b.runNodes} {
			running.Go(func() { run.RunWithContext(ctx) })
		}
		running.Go(func() { // objects may come before all are there
			if cache.WaitForCacheSync(ctx.Done(), b.runServices.HasSynced, b.runEndpoints.HasSynced, b.runNodes.HasSynced) {
				b.Wake()
			}
		})
		defer b.health.close()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.news:
			if fault := recovered.Do(func() { b.refresh(ctx) }); fault != nil {
				logr.FromContextOrDiscard(ctx).Error(fault, "A panic was recovered; connections go where they went", "stack", recovered.StackOf(fault))
			}
		}
	}
}

// refresh finds out where connections go now.
func (b *Balancing) refresh(ctx context.Context) {
	if b.Leads() && (!b.runServices.HasSynced() || !b.runEndpoints.HasSynced() || !b.runNodes.HasSynced()) {
		return
	}
	ports, known := b.hostPorts()
	if !known {
		return
	}
	in := proxy.Input{Node: proxy.Node{Name: b.node}, HostPorts: ports}
	if b.Leads() {
		b.read(&in)
		b.health.serve(ctx, b.Listen, healthAnswers(in))
	}
	now := b.balancer.Balance(in)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now.Unknown || !now.Equal(b.now) {
		b.now = now
		b.changed()
	}
}

// read takes in what the API says.
func (b *Balancing) read(in *proxy.Input) {
	for _, o := range b.nodes.List() {
		if n, ok := o.(*corev1.Node); ok && n.Name == b.node {
			in.Node.Zone, in.Node.Leaving = n.Labels[corev1.LabelTopologyZone], leaves(n)
		}
	}
	services, endpoints := b.services.List(), b.endpoints.List()
	in.Services = make([]*corev1.Service, 0, len(services))
	for _, o := range services {
		if s, ok := o.(*corev1.Service); ok {
			in.Services = append(in.Services, s)
		}
	}
	in.Slices = make([]*discoveryv1.EndpointSlice, 0, len(endpoints))
	for _, o := range endpoints {
		if s, ok := o.(*discoveryv1.EndpointSlice); ok {
			in.Slices = append(in.Slices, s)
		}
	}
}

// Trouble is what is wrong; empty for nothing.
func (b *Balancing) Trouble() string {
	b.mu.Lock()
	beside := b.beside
	b.mu.Unlock()
	switch {
	case beside != "":
		return beside
	case b.Current().Unknown:
		return "the Services of the cluster are not known yet"
	}
	return b.health.trouble()
}

// SetBeside takes in by what kube-proxy leads to Services; empty if it does not.
func (b *Balancing) SetBeside(what string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil:
		b.beside = "it is not known whether kube-proxy leads to Services as well: " + err.Error()
	case what != "":
		b.beside = fmt.Sprintf("kube-proxy leads to Services as well, or has left what does (%s): end it, and take that away with kube-proxy --cleanup", what)
	default:
		b.beside = ""
	}
}

// Current is where connections go.
func (b *Balancing) Current() *nft.Balanced {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}
