package noderoutes

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// Follow has the loop look whenever a Node or an account changes in what concerns routes.
func (l *Loop) Follow(ctx context.Context, informers cache.Informers) error {
	for _, f := range []struct {
		of      client.Object
		concern func(before, after any) bool
	}{
		{&corev1.Node{}, movedNode}, {&cloudv1.CloudProviderAccount{}, changedAccount},
	} {
		i, err := informers.GetInformer(ctx, f.of)
		if err == nil {
			_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: func(any) { l.Kick() },
				UpdateFunc: func(before, after any) {
					if f.concern(before, after) {
						l.Kick()
					}
				},
				DeleteFunc: func(any) { l.Kick() },
			})
		}
		if err != nil {
			return fmt.Errorf("route to Nodes: follow %T: %w", f.of, err)
		}
	}
	return nil
}

func movedNode(before, after any) bool {
	a, ok1 := before.(*corev1.Node)
	b, ok2 := after.(*corev1.Node)
	return !ok1 || !ok2 || a.Spec.ProviderID != b.Spec.ProviderID || !slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs) || !slices.Equal(a.Status.Addresses, b.Status.Addresses)
}

func changedAccount(before, after any) bool {
	a, ok1 := before.(*cloudv1.CloudProviderAccount)
	b, ok2 := after.(*cloudv1.CloudProviderAccount)
	return !ok1 || !ok2 || a.Generation != b.Generation || a.Status.OtherInstance != b.Status.OtherInstance
}
