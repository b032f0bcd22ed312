package explain_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/explain/redact"
)

// pointsOf are the points of an answer, one in a line.
func pointsText(points []analysis.Point) string {
	var lines []string
	for _, p := range points {
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%s %s by %s %s %s %s", p.Stage, p.At, p.By, p.State, p.Lost, p.Otherwise), " "))
	}
	return strings.Join(lines, "\n")
}

// TestPoints follows packets across points of enforcement: Pods on two Nodes, a host with an agent,
// and a VM of a cloud.
func TestPoints(t *testing.T) {
	pod := func(name, node, ip string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: name, Labels: map[string]string{"app": name}},
			Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}}
	}
	node := func(name, ip string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}}}
	}
	healthy := []v1beta1.AgentCondition{{Type: v1beta1.AgentHealthy, Status: "True"}}
	info := func(name string, ref v1beta1.ObjectReference, ours bool, conditions []v1beta1.AgentCondition, annotations map[string]string) *v1beta1.AntreaAgentInfo {
		out := &v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, NodeRef: ref, Version: "v1", AgentConditions: conditions}
		if ours {
			out.Labels = map[string]string{cloudv1alpha1.LabelAllowIsolates: "true"}
		}
		return out
	}
	only := func(namespace, app, from string) *v1beta1.NetworkPolicy {
		to := v1beta1.AppliedTo{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
		if namespace == "vms" {
			to = v1beta1.AppliedTo{ExternalEntitySelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
		}
		return &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app, UID: types.UID(namespace + app)}, Spec: v1beta1.NetworkPolicySpec{Priority: 1, AppliedTo: []v1beta1.AppliedTo{to},
			Ingress: []v1beta1.Rule{
				{Action: v1beta1.RuleActionAllow, From: []v1beta1.NetworkPolicyPeer{{IPBlock: &v1beta1.IPBlock{CIDR: from}}}},
				{Action: v1beta1.RuleActionDrop},
			}}}
	}
	objects := &input.Objects{
		Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "apps"}}, {ObjectMeta: metav1.ObjectMeta{Name: "vms"}}},
		Nodes:      []*corev1.Node{node("n1", "10.0.0.1"), node("n2", "10.0.0.2"), node("n3", "10.0.0.3")},
		Pods:       []*corev1.Pod{pod("a", "n1", "10.244.1.2"), pod("b", "n2", "10.244.2.2"), pod("c", "n3", "10.244.3.2"), pod("past", "n1", "10.244.1.3")},
		Services: []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "b"},
			Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.1", Selector: map[string]string{"app": "b"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt(8080)}}}}},
		ExternalNodes: []*v1alpha1.ExternalNode{{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "host", Labels: map[string]string{"app": "host"}},
			Spec: v1alpha1.ExternalNodeSpec{Interfaces: []v1alpha1.NetworkInterface{{IPs: []string{"10.9.0.1"}}}}}},
		Entities: []*v1alpha2.ExternalEntity{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "virtualmachine-vm"}, Spec: v1alpha2.ExternalEntitySpec{ExternalNode: "cloud/vms/prod", Endpoints: []v1alpha2.Endpoint{{IP: "172.16.0.1"}}}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "virtualmachine-own"}, Spec: v1alpha2.ExternalEntitySpec{ExternalNode: "cloud/vms/prod", Endpoints: []v1alpha2.Endpoint{{IP: "172.16.0.2"}}}},
		},
		VMs: []*cloudv1alpha1.VirtualMachine{{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "own"},
			Status: cloudv1alpha1.VirtualMachineStatus{Conditions: []metav1.Condition{{Type: cloudv1alpha1.ConditionAgented, Status: "True"}}}}},
		AgentInfos: []*v1beta1.AntreaAgentInfo{
			info("n1", v1beta1.ObjectReference{Kind: "Node", Name: "n1"}, false, healthy, map[string]string{cloudv1alpha1.AnnotationNotEnforceable: "apps/past: on the same bridge\napps/other: x"}),
			info("n2", v1beta1.ObjectReference{Kind: "Node", Name: "n2"}, false, []v1beta1.AgentCondition{{Type: v1beta1.AgentHealthy, Status: "False", Reason: "Released"}}, nil),
			info("host", v1beta1.ObjectReference{Kind: "ExternalNode", Namespace: "vms", Name: "host"}, true, healthy, nil),
		},
		Policies: []*v1beta1.NetworkPolicy{only("vms", "host", "10.244.0.0/16"), only("apps", "b", "10.9.0.0/24"), only("apps", "past", "10.9.0.0/24")},
	}
	c := explain.Compute(objects)
	for what, q := range map[string]struct {
		from, to string
		verdict  string
		want     string
	}{
		// The host lets Pods in by their addresses, and may see that of the Node.
		"Pod to host": {"pod/apps/a", "ee/vms/host", "Allow",
			"egress Pod apps/a by NodeAgent Enforced\ntranslation Node n1 by   Source Drop\ningress ExternalEntity vms/host by HostAgent Enforced"},
		"host to Pod": {"ee/vms/host", "pod/apps/b", "Allow", "egress ExternalEntity vms/host by HostAgent Enforced\ningress Pod apps/b by NodeAgent NotEnforced"},
		// Enforced at the Pods behind it, which may see the Node's address.
		"host to Service": {"ee/vms/host", "svc/apps/b", "Allow",
			"egress ExternalEntity vms/host by HostAgent Enforced\ntranslation Node n1 by   Source Drop\ningress Pod apps/b by NodeAgent NotEnforced"},
		"Pod to Pod":     {"pod/apps/a", "pod/apps/b", "Drop", "egress Pod apps/a by NodeAgent Enforced\ningress Pod apps/b by NodeAgent NotEnforced"},
		"Pod to Service": {"pod/apps/a", "svc/apps/b", "Drop", "egress Pod apps/a by NodeAgent Enforced\ningress Pod apps/b by NodeAgent NotEnforced"},
		"Pod to VM": {"pod/apps/c", "ee/vms/virtualmachine-vm", "Native",
			"egress Pod apps/c by NodeAgent Untold\ntranslation Node n3 by   Source\ningress VM vms/vm by SecurityGroups Enforced"},
		"a VM that is handed to its agent": {"10.1.2.3", "ee/vms/virtualmachine-own", "Native", "ingress VM vms/own by HostAgent Enforced"},
		"to an address":                    {"pod/apps/a", "192.0.2.1", "Allow", "egress Pod apps/a by NodeAgent Enforced\ntranslation Node n1 by   Source"},
		// What a policy forbids passes where nothing meets the packet.
		"to a Pod whose packets go past": {"pod/apps/c", "pod/apps/past", "Allow", "egress Pod apps/c by NodeAgent Untold\ningress Pod apps/past by NodeAgent NotEnforceable"},
	} {
		t.Run(what, func(t *testing.T) {
			x, err := c.Answer(explain.Question{From: q.from, To: q.to, Protocol: "tcp", Port: "80"})
			if err != nil {
				t.Fatal(err)
			}
			if got := pointsText(x.Points); got != q.want || x.Verdict != q.verdict {
				t.Errorf("%s by\n%s\nwant %s by\n%s", x.Verdict, got, q.verdict, q.want)
			}
			if what == "to a Pod whose packets go past" && (x.Wanted != "Drop" || x.Ingress.Default != explain.DefaultUnguarded || x.Points[1].Why != "on the same bridge") {
				t.Errorf("wanted %s, %+v, %+v", x.Wanted, x.Ingress, x.Points)
			}
		})
	}

	// A caller that may not see the namespace of the other end learns nothing of what enforces
	// there.
	mine := c.For(redact.View{Namespace: func(n string) bool { return n == "apps" }})
	x, err := mine.Answer(explain.Question{From: "pod/apps/a", To: "10.9.0.1", Protocol: "tcp", Port: "80"})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%+v", x.Points); strings.Contains(text, "vms") || strings.Contains(text, "Node n1") || strings.Contains(text, "Otherwise:Drop") {
		t.Errorf("in an answer for a caller that may not see it: %s", text)
	}
}
