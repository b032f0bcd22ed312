package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/tier"
)

// TestOverlayIsTheManifest: the overlay leaves nothing out but the right to read every Secret, and
// adds nothing but the right for a namespace.
func TestOverlayIsTheManifest(t *testing.T) {
	t.Parallel()
	name := func(o *unstructured.Unstructured) string {
		return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
	}
	names := func(objects []*unstructured.Unstructured) (out []string) {
		for _, o := range objects {
			out = append(out, name(o))
		}
		slices.Sort(out)
		return out
	}
	whole, narrow := names(built(t, manifests)), names(built(t, overlay))
	for _, o := range whole {
		if gone := !slices.Contains(narrow, o); gone != (o == "ClusterRoleBinding /nephele-controller-secrets") {
			t.Errorf("%s: left out %t", o, gone)
		}
	}
	for _, o := range narrow {
		if added := !slices.Contains(whole, o); added != (o == "RoleBinding cloud-accounts/nephele-controller-secrets") {
			t.Errorf("%s: added %t", o, added)
		}
	}
}

// TestSecretsPerNamespace runs the controller with the overlay's arguments and rights: it enforces
// for an account whose Secret is in the namespace that it may read, follows that Secret, and is
// refused nothing. An account with its Secret elsewhere learns why it gets nothing.
func TestSecretsPerNamespace(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestOverlayIsTheManifest, TestSecretsOfOtherNamespaces and TestSecretTakenBack (inventory)")
	x := newExisting(t, overlay, "cloud-accounts")
	ctx := t.Context()
	state, _, err := estate.HybridCloud()
	x.must(err)
	server, err := sim.Start(context.WithoutCancel(ctx), sim.Options{State: state})
	x.must(err)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg, err := clientcmd.BuildConfigFromFlags("", x.kubeconfig)
	x.must(err)
	controller := newClient(t, cfg)
	for namespace, want := range map[string]bool{"cloud-accounts": true, "kube-system": false, "default": false, "": false} {
		err := controller.List(ctx, &corev1.SecretList{}, client.InNamespace(namespace))
		if apierrors.IsForbidden(err) == want || !want && err == nil {
			t.Errorf("Secrets of %q: %v", namespace, err)
		}
	}
	p := x.start("--without-webhooks")
	x.ready(p)
	accountText := func(namespace, name, secretNamespace string) string {
		return fmt.Sprintf(`
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {namespace: %s, name: %s}
spec: {deletionPolicy: Release, pollIntervalInSeconds: 86400, awsConfig: {region: [us-west-2], endpoint: %q, secretRef: {namespace: %s, name: keys, key: credentials}}}`, namespace, name, server.URL(), secretNamespace)
	}
	credentials := func(namespace, name string) (string, string) {
		var a cloudv1.CloudProviderAccount
		x.must(x.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &a))
		c := meta.FindStatusCondition(a.Status.Conditions, cloudv1.ConditionCredentialsValid)
		if c == nil {
			return "", ""
		}
		return string(c.Status) + " " + c.Reason, c.Message
	}
	x.must(x.admin.Create(ctx, fromText(t, accountText("default", "first", "cloud-accounts"))))
	awaitCredentials := func(namespace, name, want string) (said string) {
		t.Helper()
		eventually(t, "the account says "+want, func(context.Context) (bool, string) {
			var got string
			got, said = credentials(namespace, name)
			return got == want, got + ": " + said
		})
		return said
	}
	awaitCredentials("default", "first", "False SecretUnusable")
	// The Secret is noticed when it comes, long before the account would look again.
	keys := fromText(t, `{apiVersion: v1, kind: Secret, metadata: {namespace: cloud-accounts, name: keys}, stringData: {credentials: '`+
		`{"accessKeyId": "`+estate.DefaultAccessKeyID+`", "accessKeySecret": "`+estate.DefaultSecret+`"}'}}`)
	x.must(x.admin.Create(ctx, keys))
	awaitCredentials("default", "first", "True OK")
	// Whether there is a Secret elsewhere is not told.
	var said []string
	for _, exists := range []bool{false, true} {
		if exists {
			elsewhere := keys.DeepCopy()
			elsewhere.SetNamespace("default")
			elsewhere.SetResourceVersion("")
			elsewhere.SetUID("")
			x.must(x.admin.Create(ctx, elsewhere))
		}
		name := fmt.Sprintf("foreign-%t", exists)
		x.must(x.admin.Create(ctx, fromText(t, accountText("default", name, "default"))))
		said = append(said, awaitCredentials("default", name, "False NotGranted"))
	}
	if said[0] != said[1] || !strings.Contains(said[0], "--secret-namespaces") {
		t.Errorf("accounts with Secrets elsewhere are told %q", said)
	}
	for _, name := range []string{"first", "foreign-false", "foreign-true"} {
		x.must(x.admin.Delete(ctx, &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}))
	}
	raw, err := os.ReadFile(manifests + "/samples/quickstart.yaml")
	x.must(err)
	text := strings.Replace(string(raw), "http://127.0.0.1:8555", server.URL(), 1)
	text = strings.Replace(text, "secretRef:\n      namespace: quickstart\n      name: simulated-account", "secretRef:\n      namespace: cloud-accounts\n      name: keys", 1)
	x.enforces(text)
	p.end()
}
