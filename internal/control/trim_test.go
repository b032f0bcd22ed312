package control

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/internal/control/convert"
)

func untrimmedPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, Labels: map[string]string{"app": "web", "tier": "front"}, Annotations: map[string]string{"a": "b"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-1", ServiceAccountName: "robot", HostNetwork: true, Volumes: []corev1.Volume{{Name: "v"}},
			Containers: []corev1.Container{
				{Name: "plain", Image: "image"},
				{Name: "ports", Image: "image", Ports: []corev1.ContainerPort{{ContainerPort: 1}, {Name: "http", ContainerPort: 80}}},
			},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodFailed, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady}},
		},
	}
}

// TestTrimKeepsWhatCounts: a trimmed Pod converts to the same entity, and is left with little else.
func TestTrimKeepsWhatCounts(t *testing.T) {
	whole, trimmed := untrimmedPod("p"), untrimmedPod("p")
	if _, err := NewTrimmer().Trim(trimmed); err != nil {
		t.Fatal(err)
	}
	want, _ := convert.Pod(whole)
	got, errs := convert.Pod(trimmed)
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b fmt.Stringer) bool { return a.String() == b.String() })); diff != "" || errs != nil {
		t.Fatalf("%v\n%s", errs, diff)
	}
	if trimmed.ManagedFields != nil || trimmed.Annotations != nil || trimmed.Spec.Volumes != nil || trimmed.Status.Conditions != nil || len(trimmed.Spec.Containers) != 1 {
		t.Fatalf("not trimmed: %+v", trimmed)
	}
}

func TestTrimSharesLabels(t *testing.T) {
	trimmer := NewTrimmer()
	same := func(a, b map[string]string) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }
	a, b, c := untrimmedPod("a"), untrimmedPod("b"), untrimmedPod("c")
	c.Labels["tier"] = "back"
	p := &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front", "app": "web"}},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{
			PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "back", "app": "web"}},
		}}}},
	}}
	for _, o := range []any{a, b, c, p} {
		if _, err := trimmer.Trim(o); err != nil {
			t.Fatal(err)
		}
	}
	if !same(a.Labels, b.Labels) || !same(a.Labels, p.Spec.PodSelector.MatchLabels) || !same(c.Labels, p.Spec.Ingress[0].From[0].PodSelector.MatchLabels) {
		t.Fatal("equal labels are not the same map")
	}
	if same(a.Labels, c.Labels) {
		t.Fatal("different labels are the same map")
	}
	for i := range maxShared + 10 {
		a.Labels = map[string]string{"n": fmt.Sprint(i)}
		if _, err := trimmer.Trim(a); err != nil || a.Labels["n"] != fmt.Sprint(i) {
			t.Fatal(a.Labels, err)
		}
	}
	if len(trimmer.labels) > maxShared {
		t.Fatalf("%d contents are remembered", len(trimmer.labels))
	}
}
