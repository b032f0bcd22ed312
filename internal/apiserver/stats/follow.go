package stats

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// Informers gives out informers; a cache.Cache does.
type Informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// Follow keeps the Book in line with the policies and Nodes that there are, as long as the
// informers run.
func (b *Book) Follow(ctx context.Context, informers Informers) error {
	for _, object := range []client.Object{
		&networkingv1.NetworkPolicy{}, &v1beta1.NetworkPolicy{}, &v1beta1.ClusterNetworkPolicy{}, &corev1.Node{},
	} {
		informer, err := informers.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("statistics: watch %T: %w", object, err)
		}
		if _, err := informer.AddEventHandler(b.Handler()); err != nil {
			return fmt.Errorf("statistics: watch %T: %w", object, err)
		}
	}
	return nil
}

// Handler begins and ends counting with the policies that an informer reports, and forgets Nodes
// that are gone.
func (b *Book) Handler() toolscache.ResourceEventHandler {
	begin := func(o any) {
		if p, ok := policyOf(o); ok {
			b.Begin(p)
		}
	}
	end := func(o any) {
		if d, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = d.Obj
		}
		if n, ok := o.(*corev1.Node); ok {
			b.ForgetNode(n.Name)
		}
		if p, ok := policyOf(o); ok {
			b.End(p.UID)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: begin,
		UpdateFunc: func(before, now any) {
			// A policy that was deleted and made again between two readings comes as an update.
			if old, ok := policyOf(before); ok && old.UID != now.(client.Object).GetUID() {
				end(before)
			}
			begin(now)
		},
		DeleteFunc: end,
	}
}

func policyOf(o any) (Policy, bool) {
	var kind v1beta2.NetworkPolicyType
	switch o.(type) {
	case *networkingv1.NetworkPolicy:
		kind = v1beta2.K8sNetworkPolicy
	case *v1beta1.NetworkPolicy:
		kind = v1beta2.AntreaNetworkPolicy
	case *v1beta1.ClusterNetworkPolicy:
		kind = v1beta2.AntreaClusterNetworkPolicy
	default:
		return Policy{}, false
	}
	p := o.(client.Object)
	return Policy{Kind: kind, Namespace: p.GetNamespace(), Name: p.GetName(), UID: p.GetUID()}, true
}
