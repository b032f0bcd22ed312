package services

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/cluster"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// Frontends follows where the Services of a cluster are reached: by their own addresses, by those
// of load balancers, and by the ports of the Node. It is safe for concurrent use.
type Frontends struct {
	services cache.Store
	run      cache.Controller
	news     chan struct{}

	mu sync.Mutex
	// kept is what was known before anything was read.
	kept map[string][]nft.Frontend
}

// FollowFrontends returns what follows the Services of a cluster once it runs.
func FollowFrontends(of cluster.API) *Frontends {
	s := &Frontends{news: make(chan struct{}, 1)}
	changed := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { s.poke() }, UpdateFunc: func(_, _ any) { s.poke() }, DeleteFunc: func(any) { s.poke() },
	}
	s.services, s.run = cache.NewInformerWithOptions(cache.InformerOptions{
		ObjectType: &corev1.Service{}, Handler: changed, Transform: trimService,
		ListerWatcher: of.Follow(corev1.SchemeGroupVersion.WithResource("services"), metav1.NamespaceAll, func(*metav1.ListOptions) {}),
	})
	return s
}

// KeptFrontends returns Services of which nothing is known but what was kept.
func KeptFrontends() *Frontends { return &Frontends{news: make(chan struct{}, 1)} }

// trimService drops of a Service what the agent does not need.
func trimService(o any) (any, error) {
	s, ok := o.(*corev1.Service)
	if !ok {
		return o, nil
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion},
		Spec:       corev1.ServiceSpec{Type: s.Spec.Type, ClusterIP: s.Spec.ClusterIP, ClusterIPs: s.Spec.ClusterIPs, ExternalIPs: s.Spec.ExternalIPs, Ports: s.Spec.Ports},
		Status:     corev1.ServiceStatus{LoadBalancer: s.Status.LoadBalancer},
	}, nil
}

// News holds a token after something has changed.
func (s *Frontends) News() <-chan struct{} { return s.news }

func (s *Frontends) poke() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// Run follows the Services until ctx ends.
func (s *Frontends) Run(ctx context.Context) { s.run.RunWithContext(ctx) }

// Restore takes what was known when it was kept. It counts until more is known.
func (s *Frontends) Restore(kept map[string][]nft.Frontend) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = kept
}

// Of returns where those that policies have as peers are reached, nil if no Services are
// known. A Service that is not there is reached nowhere.
func (s *Frontends) Of(node []netip.Addr, policies ...*v1beta2.NetworkPolicy) map[string][]nft.Frontend {
	synced := s.run != nil && s.run.HasSynced()
	s.mu.Lock()
	kept := s.kept
	s.mu.Unlock()
	if !synced {
		return kept
	}
	out := map[string][]nft.Frontend{}
	for _, p := range policies {
		for i := range p.Rules {
			for _, peer := range p.Rules[i].To.ToServices {
				name := peer.Namespace + "/" + peer.Name
				if _, known := out[name]; known {
					continue
				}
				out[name] = nil
				if o, found, err := s.services.GetByKey(name); err == nil && found {
					if service, ok := o.(*corev1.Service); ok {
						out[name] = frontendsOf(service, node)
					}
				}
			}
		}
	}
	return out
}

// frontendsOf returns where a Service is reached from a Node with these addresses, sorted. A
// headless one, or one that is a name, is reached nowhere.
func frontendsOf(s *corev1.Service, node []netip.Addr) []nft.Frontend {
	if s.Spec.Type == corev1.ServiceTypeExternalName || s.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	texts := append(slices.Clone(s.Spec.ClusterIPs), s.Spec.ExternalIPs...)
	if len(s.Spec.ClusterIPs) == 0 {
		texts = append(texts, s.Spec.ClusterIP)
	}
	for _, i := range s.Status.LoadBalancer.Ingress {
		// With the mode Proxy the balancer sends to where it likes, and is no place of the cluster.
		if i.IPMode == nil || *i.IPMode == corev1.LoadBalancerIPModeVIP {
			texts = append(texts, i.IP)
		}
	}
	var at []netip.Addr
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			at = append(at, a.Unmap())
		}
	}
	var out []nft.Frontend
	for _, p := range s.Spec.Ports {
		protocol, known := map[corev1.Protocol]uint8{"": ruleset.TCP, corev1.ProtocolTCP: ruleset.TCP, corev1.ProtocolUDP: ruleset.UDP, corev1.ProtocolSCTP: ruleset.SCTP}[p.Protocol]
		if !known {
			continue
		}
		for _, a := range at {
			out = append(out, nft.Frontend{Address: a, Protocol: protocol, Port: uint16(p.Port)})
		}
		if p.NodePort == 0 {
			continue
		}
		for _, a := range node {
			out = append(out, nft.Frontend{Address: a, Protocol: protocol, Port: uint16(p.NodePort)})
		}
	}
	slices.SortFunc(out, func(a, b nft.Frontend) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	return slices.Compact(out)
}
