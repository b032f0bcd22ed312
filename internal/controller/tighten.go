package controller

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/preview"
)

// tightens reads from a policy whether as much of it is to be enforced as fits. A policy that
// cannot be read is kept as it was.
func tightens(ctx context.Context, c client.Reader) func(v1beta2.NetworkPolicyReference) bool {
	return func(ref v1beta2.NetworkPolicyReference) bool {
		var o client.Object
		switch ref.Type {
		case v1beta2.AntreaClusterNetworkPolicy:
			o = &antreav1beta1.ClusterNetworkPolicy{}
		case v1beta2.AntreaNetworkPolicy:
			o = &antreav1beta1.NetworkPolicy{}
		default:
			return false
		}
		if err := c.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, o); err != nil {
			return false
		}
		return preview.AsksToTighten(o)
	}
}

// informers gives out informers; a cache.Cache does.
type informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// followTightening calls changed whenever tightens may answer differently. An annotation is no part
// of what is computed, so nobody else tells of it.
func followTightening(ctx context.Context, in informers, changed func()) error {
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if preview.AsksToTighten(o.(client.Object)) {
				changed()
			}
		},
		UpdateFunc: func(before, after any) {
			if preview.AsksToTighten(before.(client.Object)) != preview.AsksToTighten(after.(client.Object)) {
				changed()
			}
		},
	}
	for _, o := range []client.Object{&antreav1beta1.ClusterNetworkPolicy{}, &antreav1beta1.NetworkPolicy{}} {
		informer, err := in.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch the annotations of policies: %w", err)
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch the annotations of policies: %w", err)
		}
	}
	return nil
}
