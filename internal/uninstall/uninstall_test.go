package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// stage is a cluster with Nephele in it, and a record of what is deleted in which order.
type stage struct {
	*testing.T
	client  client.Client
	clock   *clocktesting.FakeClock
	deleted []string
	told    []string
	// release plays the controller: it is called at every pause.
	release func(*stage)
}

var definitions = []string{"cloudprovideraccounts.crd.cloud.antrea.io", "networkpolicies.crd.antrea.io"}

func newStage(t *testing.T) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cloudv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &stage{T: t, clock: clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), release: func(*stage) {}}
	labels, managed := map[string]string{nameLabel: ours}, map[string]string{managedLabel: ours}
	meta := func(name string, l map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: leaseNamespace, Name: name, Labels: l}
	}
	cluster := func(name string, l map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Labels: l}
	}
	holder, now := "nephele controller", metav1.NewMicroTime(s.clock.Now())
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "real", Finalizers: []string{"nephele.io/release"}}}
	objects := []client.Object{
		account,
		&appsv1.Deployment{ObjectMeta: meta("nephele-controller", labels)},
		&appsv1.Deployment{ObjectMeta: meta("coredns", nil)},
		&coordinationv1.Lease{ObjectMeta: meta(leaseName, labels), Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now}},
		&admissionv1.MutatingWebhookConfiguration{
			ObjectMeta: cluster("crdmutator.antrea.io", managed),
		},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: cluster("other", nil)},
		&admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: cluster("nephele-deletion", labels),
		},
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: cluster("nephele-deletion", labels)},
		&corev1.Secret{
			ObjectMeta: meta("nephele-record-key", nil),
		},
		&corev1.Secret{ObjectMeta: meta("other", nil)},
		&corev1.ConfigMap{ObjectMeta: meta("nephele-instance", labels)},
	}
	for _, d := range definitions {
		objects = append(objects, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: cluster(d, nil)})
	}
	s.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(account).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			s.deleted = append(s.deleted, strings.TrimPrefix(fmt.Sprintf("%T ", o), "*v1.PartialObjectMetadata ")+o.GetObjectKind().GroupVersionKind().Kind+" "+o.GetName())
			return c.Delete(ctx, o, opts...)
		},
	}).Build()
	return s
}

func (s *stage) run(o Options) error {
	s.Helper()
	o.Client, o.Clock, o.Definitions = s.client, s.clock, definitions
	o.Timeout = 20 * time.Second
	o.Tell = func(format string, args ...any) { s.told = append(s.told, fmt.Sprintf(format, args...)) }
	done := make(chan error, 1)
	go func() { done <- Run(s.Context(), o) }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(time.Millisecond):
			if s.clock.HasWaiters() {
				s.release(s)
				s.clock.Step(poll)
			}
		}
	}
}

// freed takes the finalizer off the account, as the controller does.
func freed(s *stage) {
	var a cloudv1.CloudProviderAccount
	if err := s.client.Get(s.Context(), client.ObjectKey{Namespace: "cloud", Name: "real"}, &a); apierrors.IsNotFound(err) {
		return
	} else if err != nil {
		s.Error(err)
	}
	a.Finalizers = nil
	if err := s.client.Update(s.Context(), &a); err != nil {
		s.Error(err)
	}
}

func TestOrder(t *testing.T) {
	s := newStage(t)
	s.release = freed // the lease runs out by itself
	if err := s.run(Options{}); err != nil {
		t.Fatal(err, s.told)
	}
	want := []string{"*v1alpha1.CloudProviderAccount CloudProviderAccount real", "Deployment nephele-controller", "MutatingWebhookConfiguration crdmutator.antrea.io",
		"ValidatingAdmissionPolicyBinding nephele-deletion", "ValidatingAdmissionPolicy nephele-deletion", "CustomResourceDefinition cloudprovideraccounts.crd.cloud.antrea.io",
		"ConfigMap nephele-instance", "Lease nephele-controller", "Secret nephele-record-key"}
	for i := range s.deleted {
		s.deleted[i] = strings.Replace(s.deleted[i], "*v1alpha1.CloudProviderAccount  real", want[0], 1)
	}
	if !slices.Equal(s.deleted, want) {
		t.Errorf("deleted\n%s\nwant\n%s", strings.Join(s.deleted, "\n"), strings.Join(want, "\n"))
	}
	s.deleted = nil
	if err := s.run(Options{Policies: true}); err != nil || !slices.Equal(s.deleted, []string{"CustomResourceDefinition networkpolicies.crd.antrea.io"}) {
		t.Errorf("again, with policies: %v %q", err, s.deleted)
	}
}

// TestReleaseOnly: with --release-only the accounts are released, and nothing else is deleted.
func TestReleaseOnly(t *testing.T) {
	s := newStage(t)
	s.release = freed
	if err := s.run(Options{ReleaseOnly: true}); err != nil {
		t.Fatal(err, s.told)
	}
	if len(s.deleted) != 1 || !strings.HasSuffix(s.deleted[0], " real") {
		t.Errorf("deleted %q", s.deleted)
	}
}

// TestStuckRelease: an account that is not released stops everything, and is named with its reason;
// the next run goes on.
func TestStuckRelease(t *testing.T) {
	s := newStage(t)
	s.release = func(s *stage) {
		var l coordinationv1.Lease
		if err := s.client.Get(s.Context(), client.ObjectKey{Namespace: leaseNamespace, Name: leaseName}, &l); err != nil {
			s.Error(err)
		}
		now := metav1.NewMicroTime(s.clock.Now())
		l.Spec.RenewTime = &now
		var a cloudv1.CloudProviderAccount
		if err := s.client.Get(s.Context(), client.ObjectKey{Namespace: "cloud", Name: "real"}, &a); err != nil {
			s.Error(err)
		}
		a.Status.Conditions = []metav1.Condition{{Type: cloudv1.ConditionBraked, Status: metav1.ConditionTrue, Reason: "ConfirmationNeeded", Message: "annotate it with 0123"}}
		if err := errors.Join(s.client.Update(s.Context(), &l), s.client.Status().Update(s.Context(), &a)); err != nil {
			s.Error(err)
		}
	}
	err := s.run(Options{})
	var stuck *Stuck
	if !errors.As(err, &stuck) || !strings.Contains(stuck.Reason, "cloud/real (annotate it with 0123)") {
		t.Fatalf("%v", err)
	}
	if len(s.deleted) != 1 {
		t.Errorf("deleted %q", s.deleted)
	}
	s.release = freed
	if err := s.run(Options{}); err != nil {
		t.Error(err)
	}
}

// TestNobodyReleases: without a controller accounts are not deleted. A dry run changes nothing.
func TestNobodyReleases(t *testing.T) {
	s := newStage(t)
	if err := s.run(Options{DryRun: true}); err != nil || len(s.deleted) != 0 || len(s.told) != 9 {
		t.Errorf("dry run: %v, deleted %q, told %d: %q", err, s.deleted, len(s.told), s.told)
	}
	s.clock.Step(time.Minute)
	var stuck *Stuck
	if err := s.run(Options{}); !errors.As(err, &stuck) || !strings.Contains(stuck.Reason, "no controller works") || len(s.deleted) != 0 {
		t.Errorf("%v, deleted %q", err, s.deleted)
	}
}

// TestAllInOne: on a cluster of "nephele up" the accounts are released, and nothing is waited for
// that will not end by itself.
func TestAllInOne(t *testing.T) {
	for _, dry := range []bool{true, false} {
		s := newStage(t)
		holder := "nephele up"
		lease := &coordinationv1.Lease{}
		if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: leaseNamespace, Name: leaseName}, lease); err != nil {
			t.Fatal(err)
		}
		lease.Spec.HolderIdentity = &holder
		if err := s.client.Update(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		s.release = freed
		err := s.run(Options{DryRun: dry})
		if !errors.Is(err, ErrAllInOne) || slices.ContainsFunc(s.deleted, func(d string) bool { return !strings.HasSuffix(d, " real") }) {
			t.Errorf("dry %v: %v, deleted %q", dry, err, s.deleted)
		}
	}
}
