package member

import (
	"context"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/clusterset/feed"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// Services: those that this cluster exports by a ServiceExport of the MCS-API are told to the hub,
// and are a part of the remote groups of Services here, too.

const (
	// exportsPause is how often it is looked whether there are ServiceExports now, exportsWait how
	// long a stream waits for those that there are.
	exportsPause, exportsWait = time.Minute, 10 * time.Second
)

// services is what is known of Services.
type services struct {
	// all are those of this cluster, exported those that have a ServiceExport.
	all      map[policy.NamespacedName]*corev1.Service
	exported map[policy.NamespacedName]bool
	// followed tells whether all ServiceExports have been heard; nil if they are not followed.
	// looked is when that was tried last.
	followed func() bool
	looked   time.Time
	// groups are the remote groups of Services that policies name. heard says that all that there
	// is of this cluster has been heard: before, nobody goes from the groups who is there.
	groups map[string]policy.NamespacedName
	heard  bool
}

func newServices() services {
	return services{all: map[policy.NamespacedName]*corev1.Service{}, exported: map[policy.NamespacedName]bool{}, groups: map[string]policy.NamespacedName{}}
}

// followExports begins to follow ServiceExports, where the kind is installed.
func (m *Member) followExports(ctx context.Context) {
	m.mu.Lock()
	now := m.Clock.Now()
	due := m.services.followed == nil && (m.services.looked.IsZero() || now.Sub(m.services.looked) >= exportsPause)
	if due {
		m.services.looked = now
	}
	m.mu.Unlock()
	if !due {
		return
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: version, Kind: "ServiceExport"})
		informer, err := m.Informers.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			continue // it is not installed, or not in this version
		}
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { m.hearExport(o, true) },
			DeleteFunc: func(o any) {
				if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
					o = last.Obj
				}
				m.hearExport(o, false)
			},
		})
		if err != nil {
			m.Log.Error(err, "ServiceExports cannot be followed, trying again")
			return
		}
		m.mu.Lock()
		m.services.followed = registration.HasSynced
		m.mu.Unlock()
		return
	}
}

// awaitExports waits until all ServiceExports have been heard, but not for ever: perhaps this
// process may not read them.
func (m *Member) awaitExports(ctx context.Context) {
	m.mu.Lock()
	followed := m.services.followed
	m.mu.Unlock()
	for end := m.Clock.Now().Add(exportsWait); followed != nil && !followed() && ctx.Err() == nil; {
		if m.Clock.Now().After(end) {
			m.Log.Info("ServiceExports cannot be read: no Service is exported to other clusters before they can; apply config/overlays/cluster-set again")
			return
		}
		m.wait(ctx, nil, 100*time.Millisecond, true)
	}
}

// hearExport takes over that a Service is exported, or is not any more.
func (m *Member) hearExport(o any, exported bool) {
	export, is := o.(client.Object)
	if !is {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name := policy.NamespacedName{Namespace: export.GetNamespace(), Name: export.GetName()}
	if m.services.exported[name] = exported; !exported {
		delete(m.services.exported, name)
	}
	m.export(name)
	m.serve()
	wake(m.told)
}

// hearService takes over what has become of a Service. The caller holds the lock.
func (m *Member) hearService(o *corev1.Service, gone bool) {
	name := policy.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	if m.services.all[name] = o; gone {
		delete(m.services.all, name)
	}
	m.export(name)
}

// export tells of a Service what there is to be told. The caller holds the lock.
func (m *Member) export(name policy.NamespacedName) {
	if s := m.services.all[name]; s != nil && m.services.exported[name] {
		m.feed.PutExport(exportOf(s))
	} else {
		m.feed.DropExport(name)
	}
}

func exportOf(s *corev1.Service) *feed.Export {
	out := &feed.Export{NamespacedName: policy.NamespacedName{Namespace: s.Namespace, Name: s.Name}, Selector: s.Spec.Selector, OnNodes: s.Spec.Type == corev1.ServiceTypeNodePort}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		to := feed.ExportedPort{Protocol: policy.Protocol(p.Protocol), Port: p.Port, Target: p.TargetPort.IntVal, Node: p.NodePort}
		switch {
		case p.TargetPort.Type == intstr.String:
			to.TargetName = p.TargetPort.StrVal
		case to.Target == 0:
			to.Target = p.Port
		}
		if to.Protocol == "" {
			to.Protocol = policy.TCP
		}
		out.Ports = append(out.Ports, to)
	}
	for _, b := range s.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(b.IP); err == nil { // one that has a name only is looked up by nobody
			out.Balancers = append(out.Balancers, a.Unmap())
		}
	}
	return out
}

// policyOf is a copy of a policy of the hub, or one of this cluster's own, as it says what it means.
func policyOf(o client.Object) (policy.Policy, bool) {
	switch o := o.(type) {
	case *v1beta1.ClusterNetworkPolicy:
		return convert.ClusterNetworkPolicy(o), true
	case *v1beta1.NetworkPolicy:
		return convert.NetworkPolicy(o), true
	case *networkingv1.NetworkPolicy:
		return convert.KubernetesNetworkPolicy(o), true
	}
	return policy.Policy{}, false
}

// noteServices notes which remote groups of Services a policy names. The caller holds the lock.
func (m *Member) noteServices(p *policy.Policy) {
	fresh := false
	for _, g := range peers.Services(p) {
		if _, known := m.services.groups[g.ID]; !known {
			m.services.groups[g.ID], fresh = g.Service, true
		}
	}
	if fresh {
		m.serveAll()
	}
}

// serve brings the remote groups of Services in line with who serves them in this cluster. The
// caller holds the lock.
func (m *Member) serve() {
	if !m.services.heard {
		return
	}
	for _, name := range m.feed.TakeServed() {
		for id, service := range m.services.groups {
			if service == name {
				m.book.Own(id, m.feed.Serving(name))
			}
		}
	}
	m.give()
}

// serveAll is serve for all of them. The caller holds the lock.
func (m *Member) serveAll() {
	if !m.services.heard {
		return
	}
	m.feed.TakeServed()
	for id, service := range m.services.groups {
		m.book.Own(id, m.feed.Serving(service))
	}
	m.give()
}
