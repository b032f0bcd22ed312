package member

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/clusterset/feed"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/remote"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// Services that this cluster exports by a ServiceExport of the MCS-API are reported to the hub, and
// are a part of the remote groups of Services here, too.

const (
	// exportsPause is how often it is looked whether there are ServiceExports now, exportsWait how
	// long a stream waits for those that there are.
	exportsPause, exportsWait = time.Minute, 10 * time.Second
	// writtenPause is how often the EndpointSlices of exported Services without selector are read,
	// and maxWritten of how many Services. Others change theirs too often to watch all.
	writtenPause, maxWritten = 5 * time.Second, 100
)

// services is what is known of Services. The lock of the Member guards it.
type services struct {
	feed *feed.Feed
	book *remote.Book
	// all are the Services of this cluster; exported are the names that have a ServiceExport.
	all      map[policy.NamespacedName]*corev1.Service
	exported map[policy.NamespacedName]bool
	// followed reports whether all ServiceExports are known; nil if they are not followed.
	// looked is when that was tried last.
	followed func() bool
	looked   time.Time
	// groups are the remote groups of Services that policies name. complete says that all objects
	// of this cluster are known: before, no member leaves these groups.
	groups   map[string]policy.NamespacedName
	complete bool
	// written are the endpoints of exported Services without selector, which somebody has written
	// down, as of writtenAt.
	written   map[policy.NamespacedName][]feed.Endpoint
	writtenAt time.Time
	// unjudged are ServiceExports that may not say whether they are valid, version that of the kind
	// that is followed.
	unjudged map[policy.NamespacedName]struct{}
	version  string
}

func newServices(f *feed.Feed, b *remote.Book) *services {
	return &services{feed: f, book: b, all: map[policy.NamespacedName]*corev1.Service{}, exported: map[policy.NamespacedName]bool{}, groups: map[string]policy.NamespacedName{},
		written: map[policy.NamespacedName][]feed.Endpoint{}, unjudged: map[policy.NamespacedName]struct{}{}}
}

// followExports begins to follow ServiceExports, where the kind is installed. It fails where that
// cannot be found out: then it is not known what is exported. With late, it looks for a kind that
// was not installed when the other kinds began to be followed, and does nothing before that.
func (m *Member) followExports(ctx context.Context, late bool) error {
	m.mu.Lock()
	now := m.Clock.Now()
	due := m.services.followed == nil && (!late || m.services.complete) && (m.services.looked.IsZero() || now.Sub(m.services.looked) >= exportsPause)
	if due {
		m.services.looked = now
	}
	m.mu.Unlock()
	if !due {
		return nil
	}
	failed := func(err error) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.services.looked = time.Time{}
		return fmt.Errorf("watch ServiceExports: %w", err)
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: version, Kind: "ServiceExport"})
		informer, err := m.Informers.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if meta.IsNoMatchError(err) {
			continue // it is not installed, or not in this version
		}
		if err != nil {
			return failed(err)
		}
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { m.exportChanged(o, true) },
			DeleteFunc: func(o any) {
				if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
					o = last.Obj
				}
				m.exportChanged(o, false)
			},
		})
		if err != nil {
			return failed(err)
		}
		m.mu.Lock()
		m.services.followed, m.services.version = registration.HasSynced, version
		m.mu.Unlock()
		break
	}
	return nil
}

// awaitExports waits until all ServiceExports are known, but not for ever: perhaps this process may
// not read them.
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

// exportChanged takes over that a Service is exported, or is not any more.
func (m *Member) exportChanged(o any, exported bool) {
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
	m.services.judge(name)
	m.services.export(name)
	m.services.serve()
	m.give()
	wake(m.told)
}

// update takes over what has become of a Service.
func (s *services) update(o *corev1.Service, gone bool) {
	name := policy.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	if s.all[name] = o; gone {
		delete(s.all, name)
	}
	s.judge(name)
	s.export(name)
}

// export makes the feed report a Service if it is exported.
func (s *services) export(name policy.NamespacedName) {
	if o := s.all[name]; o != nil && s.exported[name] {
		x := exportOf(o)
		x.Endpoints = s.written[name]
		s.feed.PutExport(x)
	} else {
		s.feed.DropExport(name)
	}
}

// unselected are the exported Services without selector, sorted, up to the bound of reading them.
// The caller holds the lock.
func (s *services) unselected() []policy.NamespacedName {
	var out []policy.NamespacedName
	for name := range s.exported {
		if o := s.all[name]; o != nil && len(o.Spec.Selector) == 0 && o.Spec.Type != corev1.ServiceTypeExternalName {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b policy.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out[:min(len(out), maxWritten)]
}

// readWritten reads the endpoints of exported Services without selector, if that was not done for
// some time. What cannot be read stays as it was.
func readWritten(ctx context.Context, m *Member) {
	m.mu.Lock()
	now, s := m.Clock.Now(), m.services
	names := s.unselected()
	due := s.complete && now.Sub(s.writtenAt) >= writtenPause
	if due {
		s.writtenAt = now
		maps.DeleteFunc(s.written, func(name policy.NamespacedName, _ []feed.Endpoint) bool { return !slices.Contains(names, name) })
	}
	m.mu.Unlock()
	for _, name := range names {
		if !due {
			return
		}
		var list discoveryv1.EndpointSliceList
		err := m.Live.List(ctx, &list, client.InNamespace(name.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: name.Name})
		if err != nil {
			if ctx.Err() == nil {
				m.Log.V(1).Info("The endpoints of a Service without selector cannot be read, trying again", "namespace", name.Namespace, "name", name.Name, "reason", err.Error())
			}
			continue
		}
		m.mu.Lock()
		if next := endpointsOf(list.Items); !slices.EqualFunc(next, s.written[name], sameEndpoint) {
			s.written[name] = next
			s.export(name)
			s.serve()
			m.give()
			wake(m.told)
		}
		m.mu.Unlock()
	}
}

func sameEndpoint(a, b feed.Endpoint) bool {
	return a.Address == b.Address && slices.Equal(a.Ports, b.Ports)
}

// endpointsOf are the endpoints in EndpointSlices that are ready, sorted by address.
func endpointsOf(all []discoveryv1.EndpointSlice) []feed.Endpoint {
	ports := map[netip.Addr][]feed.ServedPort{}
	for i := range all {
		for _, e := range all[i].Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, text := range e.Addresses {
				a, err := netip.ParseAddr(text) // a name is not resolved
				if err != nil {
					continue
				}
				for _, p := range all[i].Ports {
					if p.Port == nil {
						continue
					}
					served := feed.ServedPort{Protocol: policy.TCP, Port: *p.Port}
					if p.Protocol != nil {
						served.Protocol = policy.Protocol(*p.Protocol)
					}
					if !slices.Contains(ports[a.Unmap()], served) {
						ports[a.Unmap()] = append(ports[a.Unmap()], served)
					}
				}
			}
		}
	}
	var out []feed.Endpoint
	for _, a := range slices.SortedFunc(maps.Keys(ports), netip.Addr.Compare) {
		slices.SortFunc(ports[a], func(x, y feed.ServedPort) int {
			return cmp.Or(strings.Compare(string(x.Protocol), string(y.Protocol)), cmp.Compare(x.Port, y.Port))
		})
		out = append(out, feed.Endpoint{Address: a, Ports: ports[a]})
	}
	return out
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
		if a, err := netip.ParseAddr(b.IP); err == nil { // a name is not resolved
			out.Balancers = append(out.Balancers, a.Unmap())
		}
	}
	return out
}

// policyOf is what a policy says.
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

// note notes which remote groups of Services a policy names.
func (s *services) note(p *policy.Policy) {
	for _, g := range peers.Services(p) {
		if _, known := s.groups[g.ID]; !known {
			s.groups[g.ID] = g.Service
			if s.complete {
				s.book.Own(g.ID, s.feed.Serving(g.Service))
			}
		}
	}
}

// serve brings the remote groups of Services in line with what serves them in this cluster.
func (s *services) serve() {
	if !s.complete {
		return
	}
	for _, name := range s.feed.TakeServed() {
		for id, service := range s.groups {
			if service == name {
				s.book.Own(id, s.feed.Serving(name))
			}
		}
	}
}

// begin does so for all of them, when all objects of this cluster are known.
func (s *services) begin() {
	s.complete = true
	s.feed.TakeServed()
	for id, service := range s.groups {
		s.book.Own(id, s.feed.Serving(service))
	}
}
