package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// labelsOf returns the labels of a namespace; false if there is no such namespace.
type labelsOf func(namespace string) (labels map[string]string, found bool, err error)

// refusal returns why selectors of a namespace may not select VMs of the account and how to change
// that, for people; "" if they may. The labels of the namespace are only asked for if they matter.
func refusal(cpa *v1alpha1.CloudProviderAccount, namespace string, of labelsOf) (string, error) {
	grant := cpa.Spec.AllowedNamespaces
	if grant == nil || namespace == cpa.Namespace || slices.Contains(grant.Names, namespace) {
		return "", nil
	}
	account := "CloudProviderAccount " + cloud.AccountKey(cpa.Namespace, cpa.Name)
	missing := fmt.Sprintf("namespace %s may not select VMs of %s: add %q to its spec.allowedNamespaces.names", namespace, account, namespace)
	if grant.Selector == nil {
		return missing, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(grant.Selector)
	if err != nil {
		return fmt.Sprintf("%s, or correct its spec.allowedNamespaces.selector, which is invalid: %v", missing, err), nil
	}
	have, found, err := of(namespace)
	if err != nil {
		return "", err
	}
	if found && selector.Matches(labels.Set(have)) {
		return "", nil
	}
	return missing + ", or give the namespace the labels that its spec.allowedNamespaces.selector asks for", nil
}

// hasSay reports whether a namespace has a say in what may be done to the account's VMs.
func hasSay(account types.NamespacedName, release []string, namespace string) bool {
	return namespace == account.Namespace || slices.Contains(release, namespace)
}

// HasSay reports whether a namespace has a say in what may be done to the account's VMs: only there
// break-glass is heeded.
func HasSay(cpa *v1alpha1.CloudProviderAccount, namespace string) bool {
	return hasSay(client.ObjectKeyFromObject(cpa), cpa.Spec.ReleaseNamespaces, namespace)
}

// needsSay says how a namespace gets a say.
func needsSay(account types.NamespacedName, namespace string) string {
	return fmt.Sprintf("add %q to spec.releaseNamespaces of CloudProviderAccount %s", namespace, cloud.AccountKey(account.Namespace, account.Name))
}

// glassUnheeded says that break-glass has no effect in a namespace.
func glassUnheeded(account types.NamespacedName, namespace string) string {
	return fmt.Sprintf("break-glass is not heeded, because namespace %s has no say in it: %s", namespace, needsSay(account, namespace))
}

// unheeded is the verdict on what a selector asks for without a say in it; its status is empty if
// all is heeded. n is on how many of those that it selects its mode is not
// heeded.
func unheeded(account types.NamespacedName, release []string, s *v1alpha1.CloudEntitySelector, n int32, now time.Time) verdict {
	if hasSay(account, release, s.Namespace) {
		return verdict{}
	}
	v, text := verdict{}, ""
	if n > 0 {
		text = fmt.Sprintf("mode %s is not heeded, because namespace %s has no say in it, of what it selects: %d; %s",
			s.Spec.Mode, s.Namespace, n, needsSay(account, s.Namespace))
		v = no(reasonModeNotGranted, text)
	}
	if _, broken := glassOn(s.Annotations, now); broken {
		glass := glassUnheeded(account, s.Namespace)
		if text != "" {
			glass += "; " + text
		}
		v = no(reasonBreakGlassNotGranted, glass)
	}
	return v
}

// refused is a selector that is not granted what it asks for.
type refused struct {
	selector v1alpha1.CloudEntitySelector
	why      string
}

// granted divides the selectors of an account into those that the account lets select, and the
// others. The order stays.
func granted(cpa *v1alpha1.CloudProviderAccount, all []v1alpha1.CloudEntitySelector, of labelsOf) (may []v1alpha1.CloudEntitySelector, not []refused, err error) {
	for i := range all {
		why, err := refusal(cpa, all[i].Namespace, of)
		switch {
		case err != nil:
			return nil, nil, err
		case why == "":
			may = append(may, all[i])
		default:
			not = append(not, refused{all[i], why})
		}
	}
	return may, not, nil
}

// namespaceLabels reads the labels of namespaces, each at most once.
func (i *Inventory) namespaceLabels(ctx context.Context) labelsOf {
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
		return labelsWithName(ns), true, nil
	}
}

// labelsWithName are the labels of a namespace, with the one that every API server adds.
func labelsWithName(ns *corev1.Namespace) map[string]string {
	out := maps.Clone(ns.Labels)
	if out == nil {
		out = map[string]string{}
	}
	out[corev1.LabelMetadataName] = ns.Name
	return out
}

// among takes the labels of namespaces from these objects.
func among(namespaces []*corev1.Namespace) labelsOf {
	return func(name string) (map[string]string, bool, error) {
		i := slices.IndexFunc(namespaces, func(ns *corev1.Namespace) bool { return ns.Name == name })
		if i < 0 {
			return nil, false, nil
		}
		return labelsWithName(namespaces[i]), true, nil
	}
}

// accountsOfNamespace returns the accounts that the labels of a namespace matter to, sorted.
func (i *Inventory) accountsOfNamespace(ctx context.Context, ns client.Object) []types.NamespacedName {
	var selectors v1alpha1.CloudEntitySelectorList
	var accounts v1alpha1.CloudProviderAccountList
	if i.opts.Client.List(ctx, &selectors, client.InNamespace(ns.GetName())) != nil || len(selectors.Items) == 0 || i.opts.Client.List(ctx, &accounts) != nil {
		return nil // nobody asks; or the cache is gone because we are stopping
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
	return sortedKeys(out)
}
