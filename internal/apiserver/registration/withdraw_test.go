package registration

import (
	"net"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/nephele-io/nephele/internal/apiserver/webhook"
)

// What a server on this machine has registered is withdrawn when it is gone, and only then.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	r := newRegistration(t)
	r.Port, r.Hooks = int32(l.Addr().(*net.TCPAddr).Port), webhook.Hooks()
	count := func() int {
		t.Helper()
		var apis apiregistrationv1.APIServiceList
		var mutating admissionregistrationv1.MutatingWebhookConfigurationList
		var validating admissionregistrationv1.ValidatingWebhookConfigurationList
		if err := r.Client.List(t.Context(), &apis); err != nil {
			t.Fatal(err)
		}
		if err := r.Client.List(t.Context(), &mutating); err != nil {
			t.Fatal(err)
		}
		if err := r.Client.List(t.Context(), &validating); err != nil {
			t.Fatal(err)
		}
		return len(apis.Items) + len(mutating.Items) + len(validating.Items)
	}
	if _, err := r.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := count()
	if err := Withdraw(t.Context(), r.Client); err != nil || count() != all || all < 3 {
		t.Errorf("%d of %d registrations are left, error %v; want all: the server runs", count(), all, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Withdraw(t.Context(), r.Client); err != nil || count() != 0 {
		t.Errorf("%d registrations are left, error %v; want none: the server is gone", count(), err)
	}
	r.Local = false
	if _, err := r.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := Withdraw(t.Context(), r.Client); err != nil || count() != all {
		t.Errorf("%d of %d registrations are left, error %v; want all: they are not of this machine", count(), all, err)
	}
}
