package registration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"syscall"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// dialLimit bounds the wait for a server on this machine.
const dialLimit = 2 * time.Second

// Withdraw deletes what a Registration with Local has left whose server does not run any more.
// Otherwise kube-apiserver would go on asking that server whenever somebody writes a policy, and
// refuse. It is for processes that do not serve the API themselves.
func Withdraw(ctx context.Context, c client.Client) error {
	ours := client.MatchingLabels{ManagedBy: Nephele}
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	var apis apiregistrationv1.APIServiceList
	for _, list := range []client.ObjectList{&mutating, &validating, &apis} {
		if err := c.List(ctx, list, ours); apierrors.IsForbidden(err) {
			return nil // a process that may not even see them, as in a cluster, has not left any
		} else if err != nil {
			return fmt.Errorf("look for registrations of a former server: %w", err)
		}
	}
	dead, services := map[client.Object]bool{}, map[client.ObjectKey]*corev1.Service{}
	for i := range mutating.Items {
		if w := mutating.Items[i].Webhooks; len(w) > 0 {
			dead[&mutating.Items[i]] = leadsNowhere(ctx, w[0].ClientConfig.URL)
		}
	}
	for i := range validating.Items {
		if w := validating.Items[i].Webhooks; len(w) > 0 {
			dead[&validating.Items[i]] = leadsNowhere(ctx, w[0].ClientConfig.URL)
		}
	}
	for i := range apis.Items {
		s := apis.Items[i].Spec.Service
		if s == nil || s.Port == nil {
			continue
		}
		key := client.ObjectKey{Namespace: s.Namespace, Name: s.Name}
		if services[key] == nil {
			services[key] = &corev1.Service{}
			if err := c.Get(ctx, key, services[key]); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("look for registrations of a former server: %w", err)
			}
		}
		service := services[key]
		if service.Spec.Type == corev1.ServiceTypeExternalName && service.Labels[ManagedBy] == Nephele {
			dead[&apis.Items[i]] = refused(ctx, net.JoinHostPort(service.Spec.ExternalName, strconv.Itoa(int(*s.Port))))
			dead[service] = dead[&apis.Items[i]]
		}
	}
	var errs []error
	for o, nowhere := range dead {
		if nowhere {
			errs = append(errs, client.IgnoreNotFound(c.Delete(ctx, o)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete registrations of a former server: %w", err)
	}
	return nil
}

// leadsNowhere reports whether no server answers at a URL; an absent URL is not on this machine.
func leadsNowhere(ctx context.Context, at *string) bool {
	if at == nil {
		return false
	}
	u, err := url.Parse(*at)
	return err == nil && refused(ctx, u.Host)
}

// refused reports whether no server listens at an address, as far as that is certain.
func refused(ctx context.Context, address string) bool {
	conn, err := (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
