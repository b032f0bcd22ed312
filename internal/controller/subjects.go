package controller

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// followVMs calls changed with every VirtualMachine that has changed.
func followVMs(ctx context.Context, in informers, changed func(*cloudv1.VirtualMachine)) error {
	informer, err := in.GetInformer(ctx, &cloudv1.VirtualMachine{}, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			UpdateFunc: func(_, after any) { changed(after.(*cloudv1.VirtualMachine)) },
		})
	}
	if err != nil {
		return fmt.Errorf("watch the VirtualMachines: %w", err)
	}
	return nil
}
