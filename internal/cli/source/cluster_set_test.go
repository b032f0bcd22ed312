package source

import (
	"encoding/base64"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/clusterset/remote"
	"github.com/nephele-io/nephele/internal/clusterset/wire"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/kinds"
)

// TestReadOfSet: what is worked out here counts what the hub has sent, as the controller does.
func TestReadOfSet(t *testing.T) {
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	all := metav1.LabelSelector{}
	copied := &v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "hub-p", UID: "p", Labels: map[string]string{setv1alpha1.LabelFromHub: "true"}}}
	copied.Spec.Tier, copied.Spec.Priority = "application", 5
	copied.Spec.AppliedTo = []v1beta1.AppliedTo{{PodSelector: &all, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"set.nephele.io/env": "prod"}}}}
	copied.Spec.Ingress = []v1beta1.Rule{{Action: v1beta1.RuleActionAllow, From: []v1beta1.NetworkPolicyPeer{{PodSelector: &all, Scope: v1beta1.ScopeClusterSet}}}, {Action: v1beta1.RuleActionDrop}}
	converted := convert.ClusterNetworkPolicy(copied)
	group := peers.Groups(&converted)[0].ID
	book := remote.New(peers.Allows)
	if err := book.Apply(&wire.Part{Group: group, Cluster: "east", Add: []string{"10.1.0.5"}}); err != nil {
		t.Fatal(err)
	}
	record, err := book.Record(group)
	if err != nil {
		t.Fatal(err)
	}
	member := &setv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: setv1alpha1.MembershipName}, Spec: setv1alpha1.MembershipSpec{Cluster: "west"}, Status: setv1alpha1.MembershipStatus{Labels: map[string]string{"env": "prod"}}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(copied, member,
		&setv1alpha1.RemoteGroup{ObjectMeta: metav1.ObjectMeta{Name: group}, Content: base64.StdEncoding.EncodeToString(record)},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{PodIP: "10.2.0.7", PodIPs: []corev1.PodIP{{IP: "10.2.0.7"}}}}).Build()
	verdict := func(from string) string {
		t.Helper()
		in, err := Inputs(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := explain.Compute(&in.Objects).Answer(explain.Question{From: from, To: "shop/db", Protocol: "TCP", Port: "5432"})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Verdict
	}
	if a, b := verdict("10.1.0.5"), verdict("10.1.0.6"); a != "Allow" || b != "Drop" {
		t.Errorf("%s of a workload of another cluster, %s of nobody", a, b)
	}
	member.Status.Expired = true
	if err := c.Update(t.Context(), member); err != nil {
		t.Fatal(err)
	}
	if got := verdict("10.1.0.5"); got != "Drop" {
		t.Errorf("%s though it has expired", got)
	}
}
