package registration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/apiserver/webhook"
)

const (
	// mutatingName and validatingName are the names that the webhook configurations have with an
	// Antrea Controller as well: where both are installed, only the first is asked.
	mutatingName, validatingName = "crdmutator.antrea.io", "crdvalidator.antrea.io"
)

// webhookLabels are the labels of the webhook configurations, besides our own. An Antrea Controller
// gives its CA bundle to what is served by "antrea-controller", so this is not.
var webhookLabels = map[string]string{"app": "antrea", "served-by": "nephele-controller"}

// ensureWebhooks brings the webhook configurations up to date. They fail closed: while no server
// answers, the objects that they are about cannot be changed.
func (r *Registration) ensureWebhooks(ctx context.Context, bundle []byte) error {
	if len(r.Hooks) == 0 {
		return r.emptyWebhooks(ctx)
	}
	mutating, validating := r.configurations(bundle)
	var presentMutating admissionregistrationv1.MutatingWebhookConfiguration
	var presentValidating admissionregistrationv1.ValidatingWebhookConfiguration
	return errors.Join(
		r.keep(ctx, mutating, &presentMutating, func() bool {
			same := equality.Semantic.DeepEqual(presentMutating.Webhooks, mutating.Webhooks)
			presentMutating.Webhooks = mutating.Webhooks
			return keepLabels(&presentMutating.ObjectMeta, mutating.Labels) && same
		}),
		r.keep(ctx, validating, &presentValidating, func() bool {
			same := equality.Semantic.DeepEqual(presentValidating.Webhooks, validating.Webhooks)
			presentValidating.Webhooks = validating.Webhooks
			return keepLabels(&presentValidating.ObjectMeta, validating.Labels) && same
		}),
	)
}

// configurations are the webhook configurations as they should be.
func (r *Registration) configurations(bundle []byte) (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: r.webhookMeta(mutatingName)}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: r.webhookMeta(validatingName)}
	for _, h := range r.Hooks {
		if h.Mutating {
			mutating.Webhooks = append(mutating.Webhooks, r.mutating(h, bundle))
		} else {
			validating.Webhooks = append(validating.Webhooks, r.validating(h, bundle))
		}
	}
	return mutating, validating
}

// emptyWebhooks removes the webhooks from the configurations that the manifest or a former process
// of ours has left, because no server would answer them. The configurations stay: only the
// administrator has the right to delete them.
func (r *Registration) emptyWebhooks(ctx context.Context) error {
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	return errors.Join(
		r.empty(ctx, mutatingName, &mutating, func() (some bool) {
			some, mutating.Webhooks = len(mutating.Webhooks) > 0, nil
			return some
		}),
		r.empty(ctx, validatingName, &validating, func() (some bool) {
			some, validating.Webhooks = len(validating.Webhooks) > 0, nil
			return some
		}),
	)
}

// empty changes an object of ours, if it is there, by a function that reports whether there was
// something to change.
func (r *Registration) empty(ctx context.Context, name string, o client.Object, clear func() bool) error {
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, o)
	if err == nil && o.GetLabels()[ManagedBy] == Nephele && clear() {
		err = r.Client.Update(ctx, o)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the webhooks: %w", err)
	}
	return nil
}

func (r *Registration) webhookMeta(name string) metav1.ObjectMeta {
	m := r.meta(types.NamespacedName{Name: name})
	keepLabels(&m, webhookLabels)
	return m
}

// keepLabels sets labels and reports whether all were there.
func keepLabels(m *metav1.ObjectMeta, labels map[string]string) bool {
	same := true
	for k, v := range labels {
		if m.Labels[k] != v {
			same = false
			metav1.SetMetaDataLabel(m, k, v)
		}
	}
	return same
}

// Every field that has a default is set, so that what is read back compares equal.

func (r *Registration) mutating(h webhook.Hook, bundle []byte) admissionregistrationv1.MutatingWebhook {
	v := r.validating(h, bundle)
	never := admissionregistrationv1.NeverReinvocationPolicy
	return admissionregistrationv1.MutatingWebhook{
		Name: v.Name, ClientConfig: v.ClientConfig, Rules: v.Rules, FailurePolicy: v.FailurePolicy, MatchPolicy: v.MatchPolicy,
		NamespaceSelector: v.NamespaceSelector, ObjectSelector: v.ObjectSelector, SideEffects: v.SideEffects,
		TimeoutSeconds: v.TimeoutSeconds, AdmissionReviewVersions: v.AdmissionReviewVersions, ReinvocationPolicy: &never,
	}
}

func (r *Registration) validating(h webhook.Hook, bundle []byte) admissionregistrationv1.ValidatingWebhook {
	fail, equivalent := admissionregistrationv1.Fail, admissionregistrationv1.Equivalent
	none, timeout, scope := admissionregistrationv1.SideEffectClassNone, int32(webhook.Timeout/time.Second), h.Scope
	if h.Witness { // a deletion must not wait for its witness
		fail, timeout = admissionregistrationv1.Ignore, 2
	}
	return admissionregistrationv1.ValidatingWebhook{
		Name:         h.Name,
		ClientConfig: r.webhookClient(h.Path, bundle),
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: slices.Clone(h.Operations),
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{h.Group}, APIVersions: []string{h.Version}, Resources: []string{h.Resource}, Scope: &scope,
			},
		}},
		FailurePolicy: &fail, MatchPolicy: &equivalent, SideEffects: &none, TimeoutSeconds: &timeout,
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
		AdmissionReviewVersions: []string{"v1", "v1beta1"},
	}
}

// webhookClient says where a hook is asked: at the Service, or on this machine.
func (r *Registration) webhookClient(path string, bundle []byte) admissionregistrationv1.WebhookClientConfig {
	out := admissionregistrationv1.WebhookClientConfig{CABundle: slices.Clone(bundle)}
	if r.Local {
		url := "https://" + net.JoinHostPort(cmp.Or(r.Host, localhost), strconv.Itoa(int(r.Port))) + path
		out.URL = &url
		return out
	}
	port := r.Port
	out.Service = &admissionregistrationv1.ServiceReference{Namespace: r.Service.Namespace, Name: r.Service.Name, Path: &path, Port: &port}
	return out
}
