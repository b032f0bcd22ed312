package explain_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/control/convert"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/policy"
	corev1 "k8s.io/api/core/v1"
)

// TestEntityOfExternalNode: the entity that a controller has made for an ExternalNode is no
// stranger that stands in its place.
func TestEntityOfExternalNode(t *testing.T) {
	node := &v1alpha1.ExternalNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "web", UID: "u"},
		Spec:       v1alpha1.ExternalNodeSpec{Interfaces: []v1alpha1.NetworkInterface{{IPs: []string{"10.0.2.9"}}}},
	}
	made := convert.EntityOfExternalNode(node)
	strange := made.DeepCopy()
	strange.OwnerReferences = nil
	for want, entity := range map[int]*v1alpha2.ExternalEntity{0: made, 1: strange} {
		c := explain.Compute(&explain.Objects{ExternalNodes: []*v1alpha1.ExternalNode{node}, Entities: []*v1alpha2.ExternalEntity{entity}})
		if len(c.Problems) != want || len(c.Ends) != 1 {
			t.Errorf("owned by %v: %+v", entity.OwnerReferences, c.Problems)
		}
	}
}

// TestAgents asks about a host with an Allow rule for 10.0.0.1, and about another address. What no
// rule allows is dropped by our agent and passes an Antrea Agent.
func TestAgents(t *testing.T) {
	info := func(labels map[string]string, version string) []*v1beta1.AntreaAgentInfo {
		return []*v1beta1.AntreaAgentInfo{{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: labels}, Version: version,
			NodeRef: v1beta1.ObjectReference{Kind: "ExternalNode", Namespace: "vms", Name: "web"}}}
	}
	ours := map[string]string{cloudv1alpha1.LabelAllowIsolates: "true"}
	foreign := info(ours, "v1")
	foreign[0].NodeRef.Namespace = "others"
	for _, c := range []struct {
		name  string
		infos []*v1beta1.AntreaAgentInfo
		agent explain.Agent
		want  policy.Outcome
	}{
		{"none has told", nil, explain.AgentUnknown, policy.OutcomeAllow},
		{"made by the controller, not filled in", info(nil, ""), explain.AgentUnknown, policy.OutcomeAllow},
		{"Antrea", info(nil, "v2.3.0"), explain.AgentAntrea, policy.OutcomeAllow},
		{"that of a host of the same name elsewhere", foreign, explain.AgentUnknown, policy.OutcomeAllow},
		{"ours", info(ours, "v1"), explain.AgentOurs, policy.OutcomeDrop},
	} {
		t.Run(c.name, func(t *testing.T) {
			computation := explain.Compute(&explain.Objects{
				Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "vms"}}},
				ExternalNodes: []*v1alpha1.ExternalNode{{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "web", Labels: map[string]string{"role": "web"}},
					Spec: v1alpha1.ExternalNodeSpec{Interfaces: []v1alpha1.NetworkInterface{{IPs: []string{"10.0.2.9"}}}}}},
				AgentInfos: c.infos,
				Policies: []*v1beta1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "p", UID: "p"}, Spec: v1beta1.NetworkPolicySpec{Priority: 1,
					AppliedTo: []v1beta1.AppliedTo{{ExternalEntitySelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "web"}}}},
					Ingress:   []v1beta1.Rule{{Action: v1beta1.RuleActionAllow, From: []v1beta1.NetworkPolicyPeer{{IPBlock: &v1beta1.IPBlock{CIDR: "10.0.0.1/32"}}}}}}}},
			})
			for from, want := range map[string]policy.Outcome{"10.0.0.1": policy.OutcomeAllow, "10.0.0.2": c.want} {
				got, err := computation.Answer(explain.Question{From: from, To: "ee/vms/web", Protocol: "tcp", Port: "443"})
				if err != nil {
					t.Fatal(err)
				}
				if got.Verdict != string(want) || got.To.Agent != c.agent || len(got.Notes) == 0 == (c.agent != explain.AgentAntrea) {
					t.Errorf("from %s: %s by an agent %q, want %s by %q; %q", from, got.Verdict, got.To.Agent, want, c.agent, got.Notes)
				}
			}
		})
	}
}
