package review_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/review"
)

// shop is a Namespace with Pods a, b and c on a Node, and the policies given.
func shop(policies ...*networkingv1.NetworkPolicy) *input.Objects {
	o := &input.Objects{Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}, K8sPolicies: policies}
	for i, name := range []string{"a", "b", "c"} {
		o.Pods = append(o.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{"app": name}}, Spec: corev1.PodSpec{NodeName: "worker"},
			Status: corev1.PodStatus{PodIP: fmt.Sprintf("10.0.0.%d", i+1), PodIPs: []corev1.PodIP{{IP: fmt.Sprintf("10.0.0.%d", i+1)}}},
		})
	}
	return o
}

// admits lets some Pods in to b, by a port.
func admits(name string, port int, apps ...string) *networkingv1.NetworkPolicy {
	p, tcp := intstr.FromInt(port), corev1.ProtocolTCP
	out := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}, Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "b"}}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}}}
	for _, app := range apps {
		out.Spec.Ingress = append(out.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{
			Ports: []networkingv1.NetworkPolicyPort{{Port: &p, Protocol: &tcp}}, From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}})
	}
	return out
}

func seen(from, to, verdict string, port, connections int) v1alpha1.SeenFlow {
	end := func(name string) v1alpha1.FlowEnd {
		if address := map[string]string{"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}[name]; address != "" {
			return v1alpha1.FlowEnd{Address: address, Kind: "Pod", Namespace: "shop", Name: name}
		}
		return v1alpha1.FlowEnd{Address: name}
	}
	return v1alpha1.SeenFlow{From: end(from), To: end(to), Protocol: "TCP", Port: int32(port), Verdict: verdict, Connections: int64(connections), Last: metav1.NewMicroTime(time.Unix(100, 0))}
}

// TestEffects judges flows of every kind before and after a policy becomes another one.
func TestEffects(t *testing.T) {
	before, after := explain.Compute(shop(admits("db", 5432, "a"))), explain.Compute(shop(admits("db", 5432, "c")))
	flows := []v1alpha1.SeenFlow{
		seen("a", "b", "Allow", 5432, 7), seen("a", "b", "Allow", 5432, 9), // seen at both ends
		seen("c", "b", "Drop", 5432, 2), seen("c", "b", "Allow", 5432, 1), // a leak: it will be right
		seen("b", "a", "Allow", 80, 1), seen("198.51.100.1", "b", "Drop", 5432, 3), seen("a", "198.51.100.1", "Allow", 443, 1),
		seen("gone", "b", "Allow", 5432, 1), // an end that nobody has
	}
	flows[6].Protocol = "47" // of which policies know nothing
	got, err := review.Effects(t.Context().Err, before, after, append(flows, v1alpha1.SeenFlow{Verdict: "Unknown"}))
	if err != nil {
		t.Fatal(err)
	}
	if got.Judged != 7 || got.Cut != 1 || got.Opened != 1 || got.Unaffected != 3 || got.CannotTell != 2 || len(got.Affected) != 2 {
		t.Errorf("%+v", got)
	}
	cut, opened := got.Affected[0], got.Affected[1]
	if cut.Effect != v1alpha1.EffectCut || cut.From.Name != "a" || cut.Connections != 9 || len(cut.By.IsolatedBy) != 1 || cut.By.IsolatedBy[0].Name != "db" {
		t.Errorf("cut: %+v", cut)
	}
	if opened.Effect != v1alpha1.EffectOpened || opened.From.Name != "c" || opened.By.Rule == nil || opened.By.Rule.Policy.Name != "db" {
		t.Errorf("opened: %+v", opened)
	}
	same, err := review.Effects(t.Context().Err, before, before, flows)
	if err != nil || same.Cut+same.Opened > 0 {
		t.Errorf("without a change: %+v, %v", same, err)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := review.Effects(late.Err, before, after, flows); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits for the answer: %v", err)
	}
}

func BenchmarkEffects(b *testing.B) {
	o := shop(admits("db", 5432, "a"))
	for i := range 2000 {
		address := fmt.Sprintf("10.1.%d.%d", i/250, i%250)
		o.Pods = append(o.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("p%d", i), Labels: map[string]string{"app": "x"}},
			Spec: corev1.PodSpec{NodeName: "worker"}, Status: corev1.PodStatus{PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}}})
	}
	c := explain.Compute(o)
	var flows []v1alpha1.SeenFlow
	for i := range 5000 {
		flows = append(flows, v1alpha1.SeenFlow{From: v1alpha1.FlowEnd{Address: fmt.Sprintf("10.1.%d.%d", i%2000/250, i%250)}, To: v1alpha1.FlowEnd{Address: "10.0.0.2", Kind: "Pod", Namespace: "shop", Name: "b"},
			Protocol: "TCP", Port: int32(1 + i), Verdict: "Allow"})
	}
	for b.Loop() {
		if _, err := review.Effects(b.Context().Err, c, c, flows); err != nil {
			b.Fatal(err)
		}
	}
}
