package explain

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/policy"
)

// TestSet: an answer counts what the hub has sent: workloads of other clusters are in the peers of
// its policies, Namespaces have the labels of their cluster, and policies that are for other
// clusters decide nothing here.
func TestSet(t *testing.T) {
	all := metav1.LabelSelector{}
	from := &v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "hub-p", UID: "p", Labels: map[string]string{setv1alpha1.LabelFromHub: "true"}}}
	from.Spec.Tier, from.Spec.Priority = "application", 5
	from.Spec.AppliedTo = []v1beta1.AppliedTo{{PodSelector: &all, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{setv1alpha1.LabelClusterName: "west"}}}}
	from.Spec.Ingress = []v1beta1.Rule{
		{Action: v1beta1.RuleActionAllow, From: []v1beta1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Scope: v1beta1.ScopeClusterSet}}},
		{Action: v1beta1.RuleActionDrop},
	}
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "elsewhere", UID: "e", Annotations: map[string]string{setv1alpha1.AnnotationClusters: "{}"}}
	converted := convert.ClusterNetworkPolicy(from)
	group := peers.Groups(&converted)[0].ID
	in := &input.Objects{
		Namespaces:      []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}},
		Pods:            []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{PodIP: "10.2.0.7", PodIPs: []corev1.PodIP{{IP: "10.2.0.7"}}}}},
		ClusterPolicies: []*v1beta1.ClusterNetworkPolicy{from},
		K8sPolicies:     []*networkingv1.NetworkPolicy{{ObjectMeta: meta, Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Egress"}}}},
		Remote:          []policy.Entity{{EntityRef: policy.EntityRef{Kind: policy.KindRemote, Name: "10.1.0.5"}, Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.5")}, Labels: map[string]string{group: ""}}},
		OwnLabels:       peers.Given("west", nil),
	}
	for question, want := range map[Question]string{
		{From: "10.1.0.5", To: "shop/db", Protocol: "TCP", Port: "5432"}:  "Allow",
		{From: "10.1.0.6", To: "shop/db", Protocol: "TCP", Port: "5432"}:  "Drop",
		{From: "shop/db", To: "192.0.2.1", Protocol: "TCP", Port: "5432"}: "Allow",
	} {
		answer, err := Compute(in).Answer(question)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Verdict != want {
			t.Errorf("%+v: %s, want %s", question, answer.Verdict, want)
		}
	}
	in.OwnLabels = nil
	if answer, err := Compute(in).Answer(Question{From: "10.1.0.6", To: "shop/db", Protocol: "TCP", Port: "5432"}); err != nil || answer.Verdict != "Allow" {
		t.Errorf("%+v %v: in no set the policy is for nobody", answer, err)
	}
}
