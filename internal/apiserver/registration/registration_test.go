package registration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

const apiName = "v1beta2.controlplane.antrea.io"

func newRegistration(t *testing.T, objects ...client.Object) *Registration {
	t.Helper()
	known, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	return &Registration{
		Client:  fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).Build(),
		Service: types.NamespacedName{Namespace: "kube-system", Name: "antrea"}, Port: 10349, Local: true,
		CABundle: func() []byte { return []byte("first") }, Clock: clocktesting.NewFakeClock(time.Now()),
	}
}

func TestRegistration(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	r := newRegistration(t)
	clk := r.Clock.(*clocktesting.FakeClock)
	var bundle atomic.Pointer[string]
	first, second := "first", "second"
	bundle.Store(&first)
	r.CABundle = func() []byte { return []byte(*bundle.Load()) }
	done := make(chan error, 1)
	go func() { done <- r.Start(ctx) }()
	await := func(what string, check func(*apiregistrationv1.APIService, *corev1.Service) error) {
		t.Helper()
		deadline := time.Now().Add(2 * time.Minute)
		for {
			var api apiregistrationv1.APIService
			var service corev1.Service
			err := r.Client.Get(ctx, client.ObjectKey{Name: apiName}, &api)
			if err == nil {
				err = r.Client.Get(ctx, client.ObjectKey(r.Service), &service)
			}
			if err == nil {
				err = check(&api, &service)
			}
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v", what, err)
			}
			time.Sleep(time.Millisecond)
			clk.Step(interval)
		}
	}
	await("made", func(api *apiregistrationv1.APIService, service *corev1.Service) error {
		if s := api.Spec.Service; s == nil || s.Namespace != "kube-system" || s.Name != "antrea" || *s.Port != 10349 || !bytes.Equal(api.Spec.CABundle, []byte(first)) {
			return fmt.Errorf("%+v", api.Spec)
		}
		if service.Spec.Type != corev1.ServiceTypeExternalName || service.Spec.ExternalName != "localhost" {
			return fmt.Errorf("%+v", service.Spec)
		}
		return nil
	})
	bundle.Store(&second)
	await("new bundle", func(api *apiregistrationv1.APIService, _ *corev1.Service) error {
		if !bytes.Equal(api.Spec.CABundle, []byte(second)) {
			return fmt.Errorf("%s", api.Spec.CABundle)
		}
		// Agents look for the bundle here.
		var ca corev1.ConfigMap
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "antrea-ca"}, &ca); err != nil || ca.Data["ca.crt"] != second {
			return fmt.Errorf("%v: %+v", err, ca.Data)
		}
		return nil
	})
	if err := r.Client.Delete(ctx, &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: apiName}}); err != nil {
		t.Fatal(err)
	}
	await("made again", func(*apiregistrationv1.APIService, *corev1.Service) error { return nil })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestRegistrationLeavesForeignObjectsAlone(t *testing.T) {
	t.Parallel()
	foreign := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: apiName, Labels: map[string]string{"app": "antrea"}},
		Spec:       apiregistrationv1.APIServiceSpec{Group: "controlplane.antrea.io", Version: "v1beta2", CABundle: []byte("theirs")},
	}
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "antrea-ca"}, Data: map[string]string{"ca.crt": "theirs"}}
	r := newRegistration(t, foreign, theirs)
	if _, err := r.ensure(t.Context()); !errors.Is(err, errForeign) {
		t.Errorf("got %v", err)
	}
	var ca corev1.ConfigMap
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(theirs), &ca); err != nil || ca.Data["ca.crt"] != "theirs" {
		t.Errorf("%v: %+v", err, ca.Data)
	}
	var got apiregistrationv1.APIService
	if err := r.Client.Get(t.Context(), client.ObjectKey{Name: apiName}, &got); err != nil || string(got.Spec.CABundle) != "theirs" {
		t.Errorf("%v: %+v", err, got.Spec)
	}
}
