package explain_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	"github.com/nephele-io/nephele/internal/reach"
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
		c := explain.Compute(&input.Objects{ExternalNodes: []*v1alpha1.ExternalNode{node}, Entities: []*v1alpha2.ExternalEntity{entity}})
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
		agent string
		want  evaluate.Outcome
	}{
		{"none has told", nil, explain.AgentUnknown, evaluate.OutcomeAllow},
		{"made by the controller, not filled in", info(nil, ""), explain.AgentUnknown, evaluate.OutcomeAllow},
		{"Antrea", info(nil, "v2.3.0"), explain.AgentAntrea, evaluate.OutcomeAllow},
		{"that of a host of the same name elsewhere", foreign, explain.AgentUnknown, evaluate.OutcomeAllow},
		{"ours", info(ours, "v1"), explain.AgentOurs, evaluate.OutcomeDrop},
	} {
		t.Run(c.name, func(t *testing.T) {
			computation := explain.Compute(&input.Objects{
				Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "vms"}}},
				ExternalNodes: []*v1alpha1.ExternalNode{{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "web", Labels: map[string]string{"role": "web"}},
					Spec: v1alpha1.ExternalNodeSpec{Interfaces: []v1alpha1.NetworkInterface{{IPs: []string{"10.0.2.9"}}}}}},
				AgentInfos: c.infos,
				Policies: []*v1beta1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "p", UID: "p"}, Spec: v1beta1.NetworkPolicySpec{Priority: 1,
					AppliedTo: []v1beta1.AppliedTo{{ExternalEntitySelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "web"}}}},
					Ingress:   []v1beta1.Rule{{Action: v1beta1.RuleActionAllow, From: []v1beta1.NetworkPolicyPeer{{IPBlock: &v1beta1.IPBlock{CIDR: "10.0.0.1/32"}}}}}}}},
			})
			for from, want := range map[string]evaluate.Outcome{"10.0.0.1": evaluate.OutcomeAllow, "10.0.0.2": c.want} {
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

// TestHostFailsafe asks about a host that a policy isolates, whose agent tells of failsafe flows
// and of a firewall beside it. What it tells is bounded, and counts for no other host.
func TestHostFailsafe(t *testing.T) {
	info := &v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{cloudv1alpha1.LabelAllowIsolates: "true"}, Annotations: map[string]string{
		cloudv1alpha1.AnnotationHostFailsafe:   `[{"direction":"Ingress","protocol":"TCP","port":22,"cidrs":["10.0.0.0/24"]},{"direction":"Egress","protocol":"UDP","port":53,"cidrs":["10.0.0.2/32"]}]`,
		cloudv1alpha1.AnnotationForwards:       "IPv4,bananas",
		cloudv1alpha1.AnnotationForeignFilters: "chain INPUT of table ip filter filters input, with 7 rules; what none of them decides it drops",
	}}, Version: "v1", NodeRef: v1beta1.ObjectReference{Kind: "ExternalNode", Namespace: "vms", Name: "web"}}
	compute := func(info *v1beta1.AntreaAgentInfo) *explain.Computation {
		return explain.Compute(&input.Objects{
			Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "vms"}}},
			ExternalNodes: []*v1alpha1.ExternalNode{{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "web", Labels: map[string]string{"app": "web"}},
				Spec: v1alpha1.ExternalNodeSpec{Interfaces: []v1alpha1.NetworkInterface{{IPs: []string{"10.9.0.1"}}}}}},
			AgentInfos: []*v1beta1.AntreaAgentInfo{info},
			Policies: []*v1beta1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "p", UID: "p"}, Spec: v1beta1.NetworkPolicySpec{Priority: 5,
				AppliedTo: []v1beta1.AppliedTo{{ExternalEntitySelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}},
				Ingress:   []v1beta1.Rule{{Action: v1beta1.RuleActionDrop}}, Egress: []v1beta1.Rule{{Action: v1beta1.RuleActionDrop}}}}},
		})
	}
	ask := func(info *v1beta1.AntreaAgentInfo, from, to, protocol, port string) *analysis.FlowAnswer {
		t.Helper()
		x, err := compute(info).Answer(explain.Question{From: from, To: to, Protocol: protocol, Port: port})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	const host = "ee/vms/web"
	if x := ask(info, "10.0.0.7", host, "tcp", "22"); x.Verdict != "Allow" || x.Ingress.HostFailsafe != "vms/web" || !strings.Contains(strings.Join(x.Notes, " "), "chain INPUT of table ip filter") ||
		!strings.Contains(strings.Join(x.Notes, " "), " routes IPv4. ") {
		t.Errorf("what the owner has named: %s, %+v, %q", x.Verdict, x.Ingress, x.Notes)
	}
	if x := ask(info, host, "10.0.0.2", "udp", "53"); x.Verdict != "Allow" || x.Egress.HostFailsafe != "vms/web" {
		t.Errorf("a resolver: %s, %+v", x.Verdict, x.Egress)
	}
	for _, from := range []string{"10.0.1.7", "192.0.2.1"} {
		if x := ask(info, from, host, "tcp", "22"); x.Verdict != "Drop" {
			t.Errorf("from elsewhere: %s", x.Verdict)
		}
	}
	// Reach says the same, and so do the rules that hold.
	w := compute(info).World(false)
	at := slices.IndexFunc(w.Endpoints, func(e reach.Endpoint) bool { return e.Name == host })
	if at < 0 {
		t.Fatalf("%+v", w.Endpoints)
	}
	mine := reach.Owner{Host: "vms/web"}
	if got := w.Effective(&w.Endpoints[at]); got.Ingress.Openings != mine || got.Egress.Openings != mine {
		t.Errorf("the rules that hold: %+v", got)
	}
	for from, want := range map[string][]reach.Owner{"10.0.0.7": {mine}, "10.0.1.7": nil} {
		var sides [2]reach.Party
		for i, text := range []string{from, host} {
			side, err := w.Party("party", text)
			if err != nil {
				t.Fatal(err)
			}
			sides[i] = side
		}
		var got []reach.Owner
		for _, f := range w.Reach(reach.Question{From: sides[0], To: sides[1]}) {
			got = append(got, f.Ingress.Openings)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s reaches it by the openings of %v, want %v", from, got, want)
		}
	}
	for what, change := range map[string]func(i *v1beta1.AntreaAgentInfo){
		"of another host":  func(i *v1beta1.AntreaAgentInfo) { i.NodeRef.Name = "other" },
		"of an Antrea one": func(i *v1beta1.AntreaAgentInfo) { i.Labels = nil },
		"too long": func(i *v1beta1.AntreaAgentInfo) {
			for _, key := range []string{cloudv1alpha1.AnnotationHostFailsafe, cloudv1alpha1.AnnotationForeignFilters} {
				i.Annotations[key] += strings.Repeat(" ", 64<<10)
			}
		},
		"nonsense": func(i *v1beta1.AntreaAgentInfo) {
			i.Annotations = map[string]string{cloudv1alpha1.AnnotationHostFailsafe: `[{"cidrs": 7}`}
		},
	} {
		changed := info.DeepCopy()
		change(changed)
		if x := ask(changed, "10.0.0.7", host, "tcp", "22"); x.Verdict != "Drop" || strings.Contains(strings.Join(x.Notes, " "), "INPUT") {
			t.Errorf("%s: %s, %q", what, x.Verdict, x.Notes)
		}
	}
}
