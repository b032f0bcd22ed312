package clustercmd

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
)

func object(version, kind, namespace, name string, labels map[string]string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind, "spec": spec}}
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(labels)
	return o
}

// TestOwnName: what a cluster calls itself is read in either version, and that there is nothing to
// read is no error.
func TestOwnName(t *testing.T) {
	for _, version := range []string{"about.k8s.io/v1beta1", "about.k8s.io/v1alpha1"} {
		c := fake.NewClientBuilder().WithObjects(object(version, "ClusterProperty", "", ownNameProperty, nil, map[string]any{"value": "east"})).Build()
		if got, err := ownName(t.Context(), c); got != "east" || err != nil {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
	if got, err := ownName(t.Context(), fake.NewClientBuilder().Build()); got != "" || err != nil {
		t.Errorf("nothing: %q, %v", got, err)
	}
}

// TestProfile: of a ClusterProfile come the labels of its owner, and those that are given win.
func TestProfile(t *testing.T) {
	labels := map[string]string{"env": "prod", "site": "a", "x-k8s.io/cluster-manager": "m", "multicluster.x-k8s.io/clusterset": "s", "kubernetes.io/x": "y", "set.nephele.io/env": "dev"}
	c := fake.NewClientBuilder().WithObjects(object("multicluster.x-k8s.io/v1alpha1", "ClusterProfile", "fleet", "east", labels, nil),
		object("multicluster.x-k8s.io/v1alpha1", "ClusterProfile", "fleet", "bare", nil, nil)).Build()
	got, err := withProfile(t.Context(), c, "fleet/east", map[string]string{"env": "test"})
	if err != nil || !maps.Equal(got, map[string]string{"env": "test", "site": "a"}) {
		t.Errorf("%v, %v", got, err)
	}
	for profile, want := range map[string]string{"east": "want NAMESPACE/NAME", "/east": "want NAMESPACE/NAME", "fleet/": "want NAMESPACE/NAME", "a/b/c": "want NAMESPACE/NAME",
		"fleet/west": "there is no ClusterProfile fleet/west", "fleet/bare": "has no labels"} {
		if _, err := withProfile(t.Context(), c, profile, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", profile, err, want)
		}
	}
}

// TestJoinSays: what is wrong with a token or a hub comes in one sentence, that of the controller,
// and nothing of the member is lost.
func TestJoinSays(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), setv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	for what, message := range map[string]string{
		"used":            "the token is not valid here: it was used, it was replaced by another, or it is for another host or cluster",
		"of another hub":  "this is not the server that the token is from: it does not show the authority that the token names",
		"a newer hub":     "the hub and this cluster do not understand each other: the hub speaks versions 3 to 4, the member 1 to 2: upgrade the older one",
		"with an escape":  "refused \x1b[2J",
		"nobody tells it": "",
	} {
		m := &setv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: setv1alpha1.MembershipName}}
		if message != "" {
			m.Status.Conditions = []metav1.Condition{{Type: setv1alpha1.MembershipConnected, Status: metav1.ConditionFalse, Message: message}}
		}
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(m).Build()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		err := await(ctx, c)
		cancel()
		want := strings.ReplaceAll(message, "\x1b", "")
		if message == "" {
			want = "the controller of this cluster has not taken it up"
		}
		if err == nil || !strings.HasPrefix(err.Error(), "not connected to the hub: ") || strings.Contains(err.Error(), "\x1b") || message != "refused \x1b[2J" && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
			t.Error(err)
		}
	}
}
