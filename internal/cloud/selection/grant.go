package selection

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// LabelsOf returns the labels of a namespace; false if there is no such namespace.
type LabelsOf func(namespace string) (labels map[string]string, found bool, err error)

// refusal returns why selectors of a namespace may not select VMs of the account and how to change
// that, for people; "" if they may. The labels of the namespace are only asked for if they matter.
func refusal(cpa *v1alpha1.CloudProviderAccount, namespace string, of LabelsOf) (string, error) {
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
	return hasSay(types.NamespacedName{Namespace: cpa.Namespace, Name: cpa.Name}, cpa.Spec.ReleaseNamespaces, namespace)
}

// needsSay says how a namespace gets a say.
func needsSay(account types.NamespacedName, namespace string) string {
	return fmt.Sprintf("add %q to spec.releaseNamespaces of CloudProviderAccount %s", namespace, cloud.AccountKey(account.Namespace, account.Name))
}

// glassUnheeded says that break-glass has no effect in a namespace.
func glassUnheeded(account types.NamespacedName, namespace string) string {
	return fmt.Sprintf("break-glass is not heeded, because namespace %s has no say in it: %s", namespace, needsSay(account, namespace))
}

// Why a condition Heeded is False.
const (
	ReasonModeNotGranted       = "ModeNotGranted"
	ReasonBreakGlassNotGranted = "BreakGlassNotGranted"
)

// Unheeded says what of that a selector asks for has no effect, because its namespace has no say in
// it: a reason and a message for its condition Heeded, or nothing if all has. n is on how much of
// what it selects its mode has none.
func Unheeded(account types.NamespacedName, release []string, s *v1alpha1.CloudEntitySelector, n int32, now time.Time) (reason, message string) {
	if hasSay(account, release, s.Namespace) {
		return "", ""
	}
	if n > 0 {
		reason = ReasonModeNotGranted
		message = fmt.Sprintf("mode %s is not heeded, because namespace %s has no say in it, of what it selects: %d; %s",
			s.Spec.Mode, s.Namespace, n, needsSay(account, s.Namespace))
	}
	if _, broken := glassOn(s.Annotations, now); broken {
		glass := glassUnheeded(account, s.Namespace)
		if message != "" {
			glass += "; " + message
		}
		return ReasonBreakGlassNotGranted, glass
	}
	return reason, message
}

// Refused is a selector that the account does not let select, and why, for people.
type Refused struct {
	Selector v1alpha1.CloudEntitySelector
	Why      string
}

// Granted divides the selectors of an account into those that the account lets select, and the
// others. The order stays. It fails only if labels cannot be read.
func Granted(cpa *v1alpha1.CloudProviderAccount, all []v1alpha1.CloudEntitySelector, of LabelsOf) (may []v1alpha1.CloudEntitySelector, not []Refused, err error) {
	for i := range all {
		why, err := refusal(cpa, all[i].Namespace, of)
		switch {
		case err != nil:
			return nil, nil, err
		case why == "":
			may = append(may, all[i])
		default:
			not = append(not, Refused{all[i], why})
		}
	}
	return may, not, nil
}

// LabelsWithName are the labels of a namespace, with the one that every API server adds.
func LabelsWithName(ns *corev1.Namespace) map[string]string {
	out := maps.Clone(ns.Labels)
	if out == nil {
		out = map[string]string{}
	}
	out[corev1.LabelMetadataName] = ns.Name
	return out
}

// among takes the labels of namespaces from these objects.
func among(namespaces []*corev1.Namespace) LabelsOf {
	return func(name string) (map[string]string, bool, error) {
		i := slices.IndexFunc(namespaces, func(ns *corev1.Namespace) bool { return ns.Name == name })
		if i < 0 {
			return nil, false, nil
		}
		return LabelsWithName(namespaces[i]), true, nil
	}
}
