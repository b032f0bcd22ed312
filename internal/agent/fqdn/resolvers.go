package fqdn

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/nephele-io/nephele/internal/agent/cluster"
)

// ClusterResolvers follows the endpoints of the DNS Service of the cluster: rules see their
// addresses, not that of the Service. It is safe for concurrent use.
type ClusterResolvers struct {
	slices cache.Store
	run    cache.Controller
}

// FollowResolvers returns what follows the resolvers behind a Service once it runs.
func FollowResolvers(of cluster.API, namespace, service string) *ClusterResolvers {
	only := labels.Set{discoveryv1.LabelServiceName: service}.String()
	r := &ClusterResolvers{}
	r.slices, r.run = cache.NewInformerWithOptions(cache.InformerOptions{
		ObjectType: &discoveryv1.EndpointSlice{}, Handler: cache.ResourceEventHandlerFuncs{},
		ListerWatcher: of.Follow(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), namespace, func(l *metav1.ListOptions) { l.LabelSelector = only }),
	})
	return r
}

// Run follows them until ctx ends.
func (r *ClusterResolvers) Run(ctx context.Context) { r.run.RunWithContext(ctx) }

// errResolversUnread is the error while the endpoints are unknown.
var errResolversUnread = errors.New("the endpoints of the cluster's DNS Service are not known yet")

// Addresses returns the addresses of all that there are, ready or not.
func (r *ClusterResolvers) Addresses() ([]netip.Addr, error) {
	if !r.run.HasSynced() {
		return nil, errResolversUnread
	}
	var out []netip.Addr
	for _, o := range r.slices.List() {
		slice, ok := o.(*discoveryv1.EndpointSlice)
		if !ok || slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for _, e := range slice.Endpoints {
			for _, text := range e.Addresses {
				if a, err := netip.ParseAddr(text); err == nil {
					out = append(out, a.Unmap())
				}
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}
