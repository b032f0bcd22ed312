package inventory

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/selection"
)

// SetupWithManager makes the manager call Reconcile: when an account, its Secret or a selector of
// it changes, when the labels of a namespace change that an account's grant depends on, when an
// object of ours is created, changed or deleted by somebody, on Trigger, when an event names
// something, and when an observation is due.
func (i *Inventory) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	toAccount := func(f func(context.Context, client.Object) []types.NamespacedName) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			var out []reconcile.Request
			for _, key := range f(ctx, o) {
				out = append(out, reconcile.Request{NamespacedName: key})
			}
			return out
		})
	}
	marked := toAccount(func(_ context.Context, o client.Object) []types.NamespacedName {
		keys := markedBy(o)
		for _, key := range keys {
			i.touch(key)
		}
		return keys
	})
	// An edit of a selector or an account does not wait for a reading that is on its way.
	selecting := toAccount(func(ctx context.Context, o client.Object) []types.NamespacedName {
		keys := accountOfSelector(ctx, o)
		for _, key := range keys {
			i.interrupt(key)
		}
		return keys
	})
	itself := toAccount(func(_ context.Context, o client.Object) []types.NamespacedName {
		i.interrupt(client.ObjectKeyFromObject(o))
		return nil
	})
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	changed := builder.WithPredicates(edited())
	b := builder.ControllerManagedBy(mgr).Named("inventory").
		For(&v1alpha1.CloudProviderAccount{}, changed).
		Watches(&v1alpha1.CloudProviderAccount{}, itself, changed).
		Watches(&v1alpha1.CloudEntitySelector{}, selecting, changed).
		Watches(&corev1.Namespace{}, toAccount(i.accountsOfNamespace), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&v1alpha1.VirtualMachine{}, marked, changed).
		Watches(&v1alpha1.Vpc{}, marked, changed).
		Watches(&v1alpha1.CloudNativeService{}, marked, changed).
		Watches(&v1alpha1.NetworkInterface{}, marked, changed).
		Watches(&antreav1alpha2.ExternalEntity{}, marked, changed).
		Watches(&antreav1alpha1.ExternalNode{}, marked, changed).
		WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.requeue = func(key types.NamespacedName) { q.Add(reconcile.Request{NamespacedName: key}) }
			return nil
		})).
		WatchesRawSource(source.Func(func(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			return i.watchSecrets(ctx, mgr.GetCache(), q)
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: accountsAtOnce, NeedLeaderElection: new(i.NeedLeaderElection())})
	if err := b.Complete(i); err != nil {
		return fmt.Errorf("set up the inventory: %w", err)
	}
	if err := mgr.Add(i); err != nil {
		return fmt.Errorf("set up the inventory: %w", err)
	}
	return nil
}

// edited lets pass what somebody did to an object, and not what was written into its status.
func edited() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
			!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) ||
			e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	}}
}

// markedBy returns the account that an object of ours belongs to.
func markedBy(o client.Object) []types.NamespacedName {
	namespace, name, ok := strings.Cut(o.GetAnnotations()[selection.AnnotationAccount], "/")
	if !ok {
		return nil
	}
	return []types.NamespacedName{{Namespace: namespace, Name: name}}
}

func accountOfSelector(_ context.Context, o client.Object) []types.NamespacedName {
	s, ok := o.(*v1alpha1.CloudEntitySelector)
	if !ok {
		return nil
	}
	return []types.NamespacedName{{Namespace: s.Spec.AccountNamespace, Name: s.Spec.AccountName}}
}
