package registration

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/apiserver/groups"
	"github.com/nephele-io/nephele/internal/apiserver/webhook"
)

// configurations reads both webhook configurations.
func configurations(ctx context.Context, r *Registration) (m admissionregistrationv1.MutatingWebhookConfiguration,
	v admissionregistrationv1.ValidatingWebhookConfiguration, err error) {
	if err = r.Client.Get(ctx, client.ObjectKey{Name: "crdmutator.antrea.io"}, &m); err == nil {
		err = r.Client.Get(ctx, client.ObjectKey{Name: "crdvalidator.antrea.io"}, &v)
	}
	return m, v, err
}

func TestWebhooksAreRegistered(t *testing.T) {
	t.Parallel()
	for name, local := range map[string]bool{"of a Service": false, "on this machine": true} {
		t.Run(name, func(t *testing.T) {
			r := newRegistration(t)
			r.Hooks, r.Local = webhook.Hooks(), local
			if _, err := r.ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			mutating, validating, err := configurations(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if l := mutating.Labels; l["app"] != "antrea" || l["served-by"] != "nephele-controller" || l[ManagedBy] != Nephele {
				t.Errorf("labels %v", l)
			}
			paths := map[string]bool{}
			check := func(name string, c admissionregistrationv1.WebhookClientConfig, fail *admissionregistrationv1.FailurePolicyType,
				none *admissionregistrationv1.SideEffectClass, timeout *int32, versions []string) {
				if *fail != admissionregistrationv1.Fail || *none != admissionregistrationv1.SideEffectClassNone || *timeout != 5 ||
					fmt.Sprint(versions) != "[v1 v1beta1]" || string(c.CABundle) != "first" {
					t.Errorf("%s: %v %v %v %v %s", name, *fail, *none, *timeout, versions, c.CABundle)
				}
				switch {
				case local && c.Service == nil && strings.HasPrefix(*c.URL, "https://localhost:10349/"):
					paths[strings.TrimPrefix(*c.URL, "https://localhost:10349")] = true
				case !local && c.URL == nil && c.Service.Namespace == "kube-system" && c.Service.Name == "antrea" && *c.Service.Port == 10349:
					paths[*c.Service.Path] = true
				default:
					t.Errorf("%s is asked at %+v", name, c)
				}
			}
			for _, w := range mutating.Webhooks {
				check(w.Name, w.ClientConfig, w.FailurePolicy, w.SideEffects, w.TimeoutSeconds, w.AdmissionReviewVersions)
			}
			for _, w := range validating.Webhooks {
				check(w.Name, w.ClientConfig, w.FailurePolicy, w.SideEffects, w.TimeoutSeconds, w.AdmissionReviewVersions)
				deletes := w.Rules[0].Operations[len(w.Rules[0].Operations)-1] == admissionregistrationv1.Delete
				if deletes != (w.Name == "tiervalidator.antrea.io") {
					t.Errorf("%s is asked about %v", w.Name, w.Rules[0].Operations)
				}
			}
			for _, hook := range webhook.Hooks() {
				path := hook.Path
				if !paths[path] {
					t.Errorf("nobody is asked at %s", path)
				}
			}
			// Nothing is written when everything is as it should be.
			if _, err := r.ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			again, _, err := configurations(t.Context(), r)
			if err != nil || again.ResourceVersion != mutating.ResourceVersion {
				t.Errorf("written again without need (%v)", err)
			}
			// Without webhooks, the webhooks of a former process go.
			r.Hooks = nil
			if _, err := r.ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			none, neither, err := configurations(t.Context(), r)
			if err != nil || len(none.Webhooks)+len(neither.Webhooks) > 0 {
				t.Errorf("webhooks that nobody serves are left: %v, %v (%v)", none.Webhooks, neither.Webhooks, err)
			}
			if _, err := r.ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			if still, _, err := configurations(t.Context(), r); err != nil || still.ResourceVersion != none.ResourceVersion {
				t.Errorf("written again without need (%v)", err)
			}
		})
	}
}

// TestWebhooksAreKept: what is edited, deleted or out of date is put right.
func TestWebhooksAreKept(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r := newRegistration(t)
	clk := r.Clock.(*clocktesting.FakeClock)
	changed := make(chan struct{}, 1)
	var bundle atomic.Pointer[string]
	first, second := "first", "second"
	bundle.Store(&first)
	r.Hooks, r.Changed, r.CABundle = webhook.Hooks(), changed, func() []byte { return []byte(*bundle.Load()) }
	registered := make(chan struct{})
	r.Registered = func() { close(registered) }
	done := make(chan error, 1)
	go func() { done <- r.Start(ctx) }()
	await := func(what string, step time.Duration, ok func(*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
			m, v, err := configurations(ctx, r)
			if err == nil && ok(&m, &v) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v", what, err)
			}
			clk.Step(step)
		}
	}
	hasAll := func(m *admissionregistrationv1.MutatingWebhookConfiguration, v *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
		return len(m.Webhooks)+len(v.Webhooks) == len(webhook.Hooks())
	}
	await("made", 0, hasAll)
	select {
	case <-registered:
		t.Error("Registered is called though kube-apiserver does not reach the API")
	default:
	}
	for _, gv := range groups.Versions() {
		var api apiregistrationv1.APIService
		await("the API", availabilityInterval, func(*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
			return r.Client.Get(ctx, client.ObjectKey{Name: gv.Version + "." + gv.Group}, &api) == nil
		})
		api.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue}}
		if err := r.Client.Update(ctx, &api); err != nil {
			t.Fatal(err)
		}
	}
	await("told", availabilityInterval, func(*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
		select {
		case <-registered:
			return true
		default:
			return false
		}
	})
	// The clock stands: only the word that the bundle has changed makes it look.
	bundle.Store(&second)
	changed <- struct{}{}
	await("new bundle", 0, func(m *admissionregistrationv1.MutatingWebhookConfiguration, v *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
		return string(m.Webhooks[0].ClientConfig.CABundle) == second && string(v.Webhooks[0].ClientConfig.CABundle) == second
	})
	m, v, err := configurations(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	ignore := admissionregistrationv1.Ignore
	m.Webhooks[0].FailurePolicy = &ignore
	delete(m.Labels, "app")
	v.Webhooks = v.Webhooks[:1]
	for _, o := range []client.Object{&m, &v} {
		if err := r.Client.Update(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	await("put right", interval, func(m *admissionregistrationv1.MutatingWebhookConfiguration, v *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
		return hasAll(m, v) && *m.Webhooks[0].FailurePolicy == admissionregistrationv1.Fail && m.Labels["app"] == "antrea"
	})
	if err := r.Client.Delete(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: mutatingName}}); err != nil {
		t.Fatal(err)
	}
	await("made again", interval, hasAll)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestForeignWebhooks: the webhooks of an Antrea Controller stay, everything else is registered,
// and nobody waits for them.
func TestForeignWebhooks(t *testing.T) {
	t.Parallel()
	r := newRegistration(t, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: validatingName, Labels: map[string]string{"app": "antrea", "served-by": "antrea-controller"}},
		Webhooks:   []admissionregistrationv1.ValidatingWebhook{{Name: "theirs"}},
	})
	ctx, cancel := context.WithCancel(t.Context())
	registered := make(chan struct{})
	r.Hooks, r.Registered = webhook.Hooks(), func() { close(registered) }
	done := make(chan error, 1)
	go func() { done <- r.Start(ctx) }()
	select {
	case <-registered:
	case <-time.After(20 * time.Second):
		t.Error("Registered is not called")
	}
	_, v, err := configurations(ctx, r)
	if err != nil || len(v.Webhooks) != 1 || v.Webhooks[0].Name != "theirs" {
		t.Errorf("%v: %+v", err, v)
	}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: apiName}, &apiregistrationv1.APIService{}); err != nil {
		t.Error(err)
	}
	if err := r.emptyWebhooks(ctx); err != nil {
		t.Error(err)
	}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: validatingName}, &v); err != nil || len(v.Webhooks) != 1 {
		t.Errorf("theirs are removed: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
