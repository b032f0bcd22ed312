package inventory

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/selection"
)

// namespaceLabels reads the labels of namespaces, each at most once.
func (i *Inventory) namespaceLabels(ctx context.Context) selection.LabelsOf {
	known := map[string]*corev1.Namespace{}
	return func(name string) (map[string]string, bool, error) {
		ns, asked := known[name]
		if !asked {
			ns = &corev1.Namespace{}
			err := i.opts.Client.Get(ctx, types.NamespacedName{Name: name}, ns)
			if apierrors.IsNotFound(err) {
				ns, err = nil, nil
			}
			if err != nil {
				return nil, false, fmt.Errorf("read namespace %s: %w", name, err)
			}
			known[name] = ns
		}
		if ns == nil {
			return nil, false, nil
		}
		return selection.LabelsWithName(ns), true, nil
	}
}

// accountsOfNamespace returns the accounts that the labels of a namespace matter to, sorted.
func (i *Inventory) accountsOfNamespace(ctx context.Context, ns client.Object) []types.NamespacedName {
	var selectors v1alpha1.CloudEntitySelectorList
	var accounts v1alpha1.CloudProviderAccountList
	if i.opts.Client.List(ctx, &selectors, client.InNamespace(ns.GetName())) != nil || len(selectors.Items) == 0 || i.opts.Client.List(ctx, &accounts) != nil {
		return nil // no one asks; or the cache is gone because we are stopping
	}
	asking := map[types.NamespacedName]bool{}
	for n := range accounts.Items {
		if grant := accounts.Items[n].Spec.AllowedNamespaces; grant != nil && grant.Selector != nil {
			asking[client.ObjectKeyFromObject(&accounts.Items[n])] = true
		}
	}
	out := map[types.NamespacedName]bool{}
	for n := range selectors.Items {
		spec := &selectors.Items[n].Spec
		if key := (types.NamespacedName{Namespace: spec.AccountNamespace, Name: spec.AccountName}); asking[key] {
			out[key] = true
		}
	}
	return selection.SortedKeys(out)
}
