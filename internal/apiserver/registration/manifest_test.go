package registration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/internal/apiserver/groups"
	"github.com/nephele-io/nephele/internal/apiserver/webhook"
)

var update = flag.Bool("update", false, "rewrite the manifest of the registration")

const manifestFile = "../../../config/controller/registration.yaml"

// inCluster is a Registration of the controller in a cluster, as its Deployment runs it.
func inCluster(t *testing.T, bundle string, objects ...client.Object) *Registration {
	r := newRegistration(t, objects...)
	r.Local, r.Port, r.Hooks, r.CABundle = false, 443, webhook.Hooks(), func() []byte { return []byte(bundle) }
	return r
}

// registered are the objects of a Registration before it has a bundle.
func registered(r *Registration) []client.Object {
	mutating, validating := r.configurations(nil)
	out := []client.Object{mutating, validating}
	for _, gv := range groups.Versions() {
		out = append(out, r.apiService(gv, nil))
	}
	return append(out, &corev1.ConfigMap{ObjectMeta: r.caMeta()})
}

// TestManifestOfTheRegistration: config/ has the objects that the controller keeps, as it wants
// them, but for the bundle.
func TestManifestOfTheRegistration(t *testing.T) {
	r := inCluster(t, "")
	var want bytes.Buffer
	want.WriteString("# What kube-apiserver is told about the API and the webhooks of the controller, which puts in its CA bundle. It is here so that the\n" +
		"# controller needs no right to make or delete such objects. Written by: go test ./internal/apiserver/registration -run TestManifestOfTheRegistration -update\n")
	for i, o := range registered(r) {
		gvk, err := r.Client.GroupVersionKindFor(o)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			want.WriteString("---\n")
		}
		want.Write(manifest(t, gvk, o))
	}
	if *update {
		if err := os.WriteFile(manifestFile, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(manifestFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not what the controller wants; run this test with -update and look at the difference", manifestFile)
	}
}

// manifest is an object as one writes it: with its kind, and without what is empty.
func manifest(t *testing.T, gvk schema.GroupVersionKind, o client.Object) []byte {
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetGroupVersionKind(gvk)
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	out, err := yaml.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// restricted lets a Registration do what its ClusterRole lets it: nothing is made, and nothing
// deleted.
func restricted(t *testing.T, r *Registration) {
	no := func(verb string, o client.Object) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "objects"}, o.GetName(), errors.New("no right to "+verb))
	}
	r.Client = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			return no("create", o)
		},
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
			t.Errorf("deletes %s", o.GetName())
			return no("delete", o)
		},
	})
}

// TestRegistrationNeedsNoRightToMake: with the manifest applied, the controller puts its bundle in
// and the webhooks out without the right to make or delete anything. Without the manifest it says
// what to do.
func TestRegistrationNeedsNoRightToMake(t *testing.T) {
	t.Parallel()
	r := inCluster(t, "first", registered(inCluster(t, ""))...)
	restricted(t, r)
	if _, err := r.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, v, err := configurations(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range m.Webhooks {
		if string(w.ClientConfig.CABundle) != "first" {
			t.Errorf("%s has the bundle %q", w.Name, w.ClientConfig.CABundle)
		}
	}
	if len(m.Webhooks)+len(v.Webhooks) != len(webhook.Hooks()) {
		t.Errorf("%d and %d webhooks", len(m.Webhooks), len(v.Webhooks))
	}
	var ca corev1.ConfigMap
	if err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: CAConfigMap}, &ca); err != nil || ca.Data[CAKey] != "first" {
		t.Errorf("%v: %v", ca.Data, err)
	}
	r.Hooks = nil
	if _, err := r.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m, v, err := configurations(t.Context(), r); err != nil || len(m.Webhooks)+len(v.Webhooks) != 0 {
		t.Errorf("webhooks that nobody serves are left: %v, %v (%v)", m.Webhooks, v.Webhooks, err)
	}
	bare := inCluster(t, "first")
	restricted(t, bare)
	if _, err := bare.ensure(t.Context()); err == nil || !strings.Contains(err.Error(), "apply config/controller again") {
		t.Errorf("without the manifest: %v", err)
	}
}
