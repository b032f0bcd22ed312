package controller

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// followSubjects calls changed with everything that policies apply to and that has changed: each
// VirtualMachine, CloudNativeService and NetworkInterface.
func followSubjects(ctx context.Context, in informers, changed func(client.Object)) error {
	for _, kind := range []client.Object{&cloudv1.VirtualMachine{}, &cloudv1.CloudNativeService{}, &cloudv1.NetworkInterface{}} {
		informer, err := in.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				UpdateFunc: func(_, after any) { changed(after.(client.Object)) },
			})
		}
		if err != nil {
			return fmt.Errorf("watch each %T: %w", kind, err)
		}
	}
	return nil
}
