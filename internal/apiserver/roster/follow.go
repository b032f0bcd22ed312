package roster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/convert"
)

// Informers are what a Index follows Pods by.
type Informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// Follow has the Index follow the Pods of informers. It must be called before anybody asks.
func (b *Index) Follow(ctx context.Context, in Informers) error {
	informer, err := in.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("follow the Pods of Nodes: %w", err)
	}
	registered, err := informer.AddEventHandler(b.Handler())
	if err != nil {
		return fmt.Errorf("follow the Pods of Nodes: %w", err)
	}
	versioned, _ := informer.(interface{ LastSyncResourceVersion() string })
	b.source = func() (string, bool) {
		if !registered.HasSynced() {
			return "", false
		}
		if versioned == nil {
			return "", true
		}
		return versioned.LastSyncResourceVersion(), true
	}
	return nil
}

// Handler takes in the Pods of an informer, whole ones or trimmed.
func (b *Index) Handler() toolscache.ResourceEventHandler {
	put := func(before, now any) {
		if p := trimmed(now); p != nil {
			b.Put(trimmed(before), p)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { put(nil, o) },
		UpdateFunc: put,
		DeleteFunc: func(o any) {
			if gone, is := o.(toolscache.DeletedFinalStateUnknown); is {
				o = gone.Obj
			}
			if p := trimmed(o); p != nil {
				b.Remove(p)
			}
		},
	}
}

func trimmed(o any) *convert.TrimmedPod {
	switch p := o.(type) {
	case *convert.TrimmedPod:
		return p
	case *corev1.Pod:
		return convert.TrimPod(p)
	}
	return nil
}
