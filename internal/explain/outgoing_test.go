package explain_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/show"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/explain/redact"
)

// leavingWorld has Pods a (IPv4) and both (two families) on Node n1, an Egress that selects them,
// and a host outside that lets in one address only.
func leavingWorld(spec v1beta1.EgressSpec, status v1beta1.EgressStatus) *input.Objects {
	pod := func(name string, ips ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "leaves"}},
			Spec: corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ips[0]}}
		for _, ip := range ips {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
		}
		return p
	}
	node := func(name, ip, cidr string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: []string{cidr}},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}}}
	}
	if spec.AppliedTo.PodSelector == nil && spec.AppliedTo.NamespaceSelector == nil {
		spec.AppliedTo.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "leaves"}}
	}
	onNode := func(p *corev1.Pod) *corev1.Pod { p.Spec.HostNetwork = true; return p }
	return &input.Objects{
		Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"out": "y"}}}, {ObjectMeta: metav1.ObjectMeta{Name: "vms"}}},
		Nodes:      []*corev1.Node{node("n1", "10.0.0.1", "10.244.1.0/24"), node("n2", "10.0.0.2", "10.244.2.0/24")},
		Pods:       []*corev1.Pod{pod("a", "10.244.1.2"), pod("both", "10.244.1.3", "fd00:1::3"), onNode(pod("onnode", "10.0.0.1"))},
		Entities: []*v1alpha2.ExternalEntity{{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "host", Labels: map[string]string{"app": "host"}},
			Spec: v1alpha2.ExternalEntitySpec{ExternalNode: "vms/host", Endpoints: []v1alpha2.Endpoint{{IP: "10.9.0.1"}}}}},
		Policies: []*v1beta1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "host", UID: types.UID("1")}, Spec: v1beta1.NetworkPolicySpec{Priority: 1,
			AppliedTo: []v1beta1.AppliedTo{{ExternalEntitySelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "host"}}}},
			Ingress: []v1beta1.Rule{
				{Action: v1beta1.RuleActionAllow, From: []v1beta1.NetworkPolicyPeer{{IPBlock: &v1beta1.IPBlock{CIDR: "192.0.2.5/32"}}}},
				{Action: v1beta1.RuleActionDrop},
			}}}},
		Leaving: input.Leaving{Egresses: []*v1beta1.Egress{{ObjectMeta: metav1.ObjectMeta{Name: "shop", CreationTimestamp: metav1.Unix(100, 0)}, Spec: spec, Status: status}}},
	}
}

func conditions(allocated, assigned metav1.ConditionStatus) []v1beta1.EgressCondition {
	return []v1beta1.EgressCondition{
		{Type: v1beta1.IPAllocated, Status: allocated, Message: "the pool is exhausted"}, {Type: v1beta1.IPAssigned, Status: assigned, Message: "no Node is ready"},
	}
}

// excepting lets the agent of a Node tell that Pods keep their addresses towards a range.
func excepting(node, cidr string) func(*input.Objects) {
	return func(in *input.Objects) {
		in.AgentInfos = []*v1beta1.AntreaAgentInfo{{NodeRef: v1beta1.ObjectReference{Kind: "Node", Name: node}, Version: "v1", ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{cloudv1alpha1.AnnotationNetwork: fmt.Sprintf(`{"mode":"encap","snatExcept":[%q]}`, cidr)}}}}
	}
}

func withPool(name, cidr string) func(*input.Objects) {
	return func(in *input.Objects) {
		in.Leaving.Pools = []*v1beta1.ExternalIPPool{{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.ExternalIPPoolSpec{IPRanges: []v1beta1.IPRange{{CIDR: cidr}}}}}
	}
}

// TestLeaving: an answer about a flow from a Pod that an Egress applies to names the address that
// it leaves with, or why it is dropped; its destination decides about that address.
func TestLeaving(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	one := v1beta1.EgressSpec{EgressIP: "192.0.2.5", ExternalIPPool: "out"}
	has := v1beta1.EgressStatus{EgressNode: "n2", EgressIP: "192.0.2.5", Conditions: conditions(yes, yes)}
	two := v1beta1.EgressSpec{EgressIPs: []string{"192.0.2.5", "2001:db8::5"}, ExternalIPPools: []string{"a", "b"}}
	for what, q := range map[string]struct {
		spec     v1beta1.EgressSpec
		status   v1beta1.EgressStatus
		change   func(*input.Objects)
		from, to string
		verdict  string
		want     string // of Leaving: state, address, Node, reason; empty for none
	}{
		"an address outside":                              {spec: one, status: has, to: "198.51.100.1", verdict: "Allow", want: "Leaves 192.0.2.5 n2"},
		"a destination that lets in the Egress's address": {spec: one, status: has, to: "vms/host", verdict: "Allow", want: "Leaves 192.0.2.5 n2"},
		"a destination that lets in another address": {spec: v1beta1.EgressSpec{EgressIP: "192.0.2.6"}, status: v1beta1.EgressStatus{EgressNode: "n1", EgressIP: "192.0.2.6", Conditions: conditions(yes, yes)},
			to: "vms/host", verdict: "Drop", want: "Leaves 192.0.2.6 n1"},
		"no Node has it":            {spec: one, status: v1beta1.EgressStatus{Conditions: conditions(yes, no)}, to: "vms/host", verdict: "Drop", want: "Dropped 192.0.2.5  no Node is ready"},
		"no address":                {spec: v1beta1.EgressSpec{ExternalIPPool: "out"}, status: v1beta1.EgressStatus{Conditions: conditions(no, no)}, to: "198.51.100.1", verdict: "Drop", want: "Dropped   the pool is exhausted"},
		"not looked at yet":         {spec: v1beta1.EgressSpec{ExternalIPPool: "out"}, to: "198.51.100.1", verdict: "Drop", want: "Dropped   the Egress has no address yet"},
		"refused":                   {spec: one, status: v1beta1.EgressStatus{Conditions: conditions(no, no)}, to: "198.51.100.1", verdict: "Drop", want: "Dropped 192.0.2.5  the pool is exhausted"},
		"nobody has told":           {spec: one, to: "198.51.100.1", verdict: "Unknown", want: "Unknown 192.0.2.5  the controller has not told which Node has the address"},
		"not told, and closed":      {spec: v1beta1.EgressSpec{EgressIP: "192.0.2.6"}, to: "vms/host", verdict: "Drop", want: "Unknown 192.0.2.6  the controller has not told which Node has the address"},
		"another Pod":               {spec: one, status: has, to: "10.244.2.9", verdict: "Allow"},
		"a Node":                    {spec: one, status: has, to: "10.0.0.2", verdict: "Allow"},
		"a name of a Pod":           {spec: one, status: has, to: "shop/both", verdict: "Allow"},
		"on the link":               {spec: one, status: has, to: "169.254.169.254", verdict: "Allow"},
		"from the Node":             {spec: one, status: has, from: "shop/onnode", to: "198.51.100.1", verdict: "Allow"},
		"IPv6 of an Egress of IPv4": {spec: one, status: has, from: "shop/both", to: "2001:db8:9::1", verdict: "Allow"},
		"IPv6 without a place":      {spec: v1beta1.EgressSpec{EgressIPs: []string{"192.0.2.5"}, ExternalIPPools: []string{"a", "b"}}, status: has, from: "shop/both", to: "2001:db8:9::1", verdict: "Drop", want: "Dropped   the Egress has no address yet"},
		"the second address":        {spec: two, status: has, from: "shop/both", to: "2001:db8:9::1", verdict: "Allow", want: "Leaves 2001:db8::5"},
		"only the first is in use": {spec: two, status: v1beta1.EgressStatus{EgressNode: "n2", EgressIP: "192.0.2.5", Conditions: conditions(yes, no)}, from: "shop/both", to: "2001:db8:9::1",
			verdict: "Drop", want: "Dropped 2001:db8::5  no Node is ready"},
		"the first is not in use": {spec: two, status: v1beta1.EgressStatus{Conditions: conditions(yes, no)}, from: "shop/both", to: "2001:db8:9::1", verdict: "Unknown", want: "Unknown 2001:db8::5  no Node is ready"},
		"a pool of some family":   {spec: v1beta1.EgressSpec{ExternalIPPool: "out"}, status: v1beta1.EgressStatus{Conditions: conditions(no, no)}, from: "shop/both", to: "198.51.100.1", verdict: "Unknown", want: "Unknown   the pool is exhausted"},
		"by the Namespace": {spec: v1beta1.EgressSpec{EgressIP: "192.0.2.5", AppliedTo: v1beta1.EgressAppliedTo{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"out": "y"}}}}, status: has,
			to: "198.51.100.1", verdict: "Allow", want: "Leaves 192.0.2.5 n2"},
		"by no Namespace": {spec: v1beta1.EgressSpec{EgressIP: "192.0.2.5", AppliedTo: v1beta1.EgressAppliedTo{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"out": "n"}}}}, status: has,
			to: "198.51.100.1", verdict: "Allow"},
		"an older one counts": {spec: one, status: has, to: "198.51.100.1", verdict: "Allow", want: "Leaves 192.0.2.9 n1", change: func(in *input.Objects) {
			older := in.Leaving.Egresses[0].DeepCopy()
			older.Name, older.CreationTimestamp, older.Spec.EgressIP = "shop2", metav1.Unix(1, 0), "192.0.2.9"
			older.Status.EgressIP, older.Status.EgressNode = "192.0.2.9", "n1"
			in.Leaving.Egresses = append(in.Leaving.Egresses, older)
		}},
		"another plugin makes the network": {spec: one, status: has, to: "198.51.100.1", verdict: "Allow", change: func(in *input.Objects) {
			in.AgentInfos = []*v1beta1.AntreaAgentInfo{{NodeRef: v1beta1.ObjectReference{Kind: "Node", Name: "n1"}, Version: "v1"}}
		}},
		"the agent makes it": {spec: one, status: has, to: "198.51.100.1", verdict: "Allow", want: "Leaves 192.0.2.5 n2", change: func(in *input.Objects) {
			in.AgentInfos = []*v1beta1.AntreaAgentInfo{{NodeRef: v1beta1.ObjectReference{Kind: "Node", Name: "n1"}, Version: "v1",
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{cloudv1alpha1.AnnotationNetwork: `{"mode":"encap"}`}}}}
		}},
		"an exception of the Pod's Node": {spec: one, status: has, to: "198.51.100.1", verdict: "Allow", change: excepting("n1", "198.51.100.0/24")},
		"an exception of another Node":   {spec: one, status: has, to: "198.51.100.1", verdict: "Allow", want: "Leaves 192.0.2.5 n2", change: excepting("n2", "198.51.100.0/24")},
		"no exception":                   {spec: one, status: has, to: "198.51.100.1", verdict: "Allow", want: "Leaves 192.0.2.5 n2", change: excepting("n1", "198.51.100.128/25")},
		"a pool of the other family": {spec: v1beta1.EgressSpec{ExternalIPPool: "six"}, status: v1beta1.EgressStatus{Conditions: conditions(no, no)}, to: "198.51.100.1", verdict: "Allow",
			change: withPool("six", "2001:db8::/120")},
		"a pool of this family": {spec: v1beta1.EgressSpec{ExternalIPPool: "out"}, status: v1beta1.EgressStatus{Conditions: conditions(no, no)}, from: "shop/both", to: "198.51.100.1", verdict: "Drop",
			want: "Dropped   the pool is exhausted", change: withPool("out", "192.0.2.0/28")},
		"no such pool": {spec: v1beta1.EgressSpec{ExternalIPPool: "none"}, status: v1beta1.EgressStatus{Conditions: conditions(no, no)}, from: "shop/both", to: "198.51.100.1", verdict: "Drop",
			want: "Dropped   the pool is exhausted", change: withPool("out", "192.0.2.0/28")},
	} {
		t.Run(what, func(t *testing.T) {
			in := leavingWorld(q.spec, q.status)
			if q.change != nil {
				q.change(in)
			}
			if q.from == "" {
				q.from = "shop/a"
			}
			x, err := explain.Compute(in).Answer(explain.Question{From: q.from, To: q.to, Protocol: "tcp", Port: "443"})
			if err != nil {
				t.Fatal(err)
			}
			if got := leavingText(x.Leaving); got != q.want || x.Verdict != q.verdict || len(x.Flows) > 0 {
				t.Errorf("%s %q, want %s %q: %+v", x.Verdict, got, q.verdict, q.want, x)
			}
			hidden := strings.Contains(fmt.Sprintf("%+v", x.Points), "Node n1")
			if leaves := x.Leaving != nil; leaves && hidden {
				t.Errorf("it leaves with two addresses: %+v", x.Points)
			}
			if text := show.Explanation(x); strings.Contains(text, "by Egress") != (q.want != "") {
				t.Error(text)
			}
		})
	}
	// A caller that may not see objects of the cluster learns of no Egress.
	limited := explain.Compute(leavingWorld(one, has)).For(redact.View{Namespace: func(string) bool { return true }})
	if x, err := limited.Answer(explain.Question{From: "shop/a", To: "198.51.100.1", Protocol: "tcp", Port: "443"}); err != nil || x.Leaving != nil {
		t.Errorf("%+v %v", x, err)
	}
}

func leavingText(l *analysis.Leaving) string {
	if l == nil {
		return ""
	}
	return strings.TrimSpace(strings.Join([]string{l.State, l.Address, l.Node, l.Why}, " "))
}
