package clusterset_test

import (
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
)

// TestKubernetesPoliciesRealized: the status of a Cluster shows how far a NetworkPolicy of
// Kubernetes is realized there, and no member reports it for another one.
func TestKubernetesPoliciesRealized(t *testing.T) {
	s := newSet(t, "east", "west")
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "p", Generation: 1, UID: "p", Annotations: map[string]string{setv1alpha1.AnnotationClusters: setv1alpha1.LabelClusterName + "=east"},
	}}
	s.must(s.hub.Create(t.Context(), p))
	is := func(name, want string) {
		t.Helper()
		s.until(name+" is "+want, func() (bool, any) {
			got := ""
			for _, k := range s.cluster(name).Status.KubernetesPolicies {
				got += fmt.Sprintf("%s/%s %s %d/%d %s%s", k.Namespace, k.Name, k.Phase, k.CurrentNodesRealized, k.DesiredNodesRealized, k.Reason, k.Message)
			}
			return got == want, got
		})
	}
	is("east", "shop/p Unknown 0/0 ")
	east := s.sides["east"]
	var copied networkingv1.NetworkPolicy
	s.must(east.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "hub-p"}, &copied))
	report := func(phase v1beta1.NetworkPolicyPhase, current, desired int32, o client.Object) {
		east.knows.mu.Lock()
		follow := east.knows.copied
		east.knows.mu.Unlock()
		follow(o, v1beta1.NetworkPolicyStatus{Phase: phase, ObservedGeneration: o.GetGeneration(), CurrentNodesRealized: current, DesiredNodesRealized: desired})
	}
	report(v1beta1.NetworkPolicyRealizing, 0, 3, &copied)
	is("east", "shop/p Unknown 0/3 no enforcer there has reported it")
	report(v1beta1.NetworkPolicyRealizing, 2, 3, &copied)
	is("east", "shop/p Realizing 2/3 ")
	report(v1beta1.NetworkPolicyRealized, 3, 3, &copied)
	is("east", "shop/p Realized 3/3 ")
	is("west", "")
	own := copied.DeepCopy()
	own.Labels = nil
	report(v1beta1.NetworkPolicyRealizing, 1, 9, own) // not a copy
	is("east", "shop/p Realized 3/3 ")

	// Another version is not there yet because the former one was.
	s.must(s.hub.Get(t.Context(), client.ObjectKeyFromObject(p), p))
	p.Spec.PolicyTypes, p.Generation = []networkingv1.PolicyType{"Ingress"}, 2
	line := east.line
	line.set(func() { line.held = true })
	s.must(s.hub.Update(t.Context(), p))
	is("east", "shop/p Unknown 0/3 Syncing")
	line.set(func() { line.held = false })
	s.must(s.hub.Delete(t.Context(), p))
	is("east", "")
}
