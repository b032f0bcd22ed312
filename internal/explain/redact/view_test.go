package redact

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/selection"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/policy"
)

func mine(cluster bool) *View {
	return &View{Namespace: func(n string) bool { return n == "mine" }, Cluster: cluster}
}

// TestPolicies: a policy of a Namespace or of the cluster that may not be seen has no name, a rule
// of it says what it does and names nothing, and a nil View hides nothing.
func TestPolicies(t *testing.T) {
	rule := func(namespace string) analysis.Rule {
		return analysis.Rule{Policy: analysis.Policy{Type: "T", Namespace: namespace, Name: "p"}, Name: "r", Action: "Drop", Through: []string{"Pod x/y"}, DependsOn: []string{"a.example"}}
	}
	for _, c := range []struct {
		view      *View
		namespace string
		hidden    bool
	}{
		{nil, "theirs", false}, {nil, "", false}, {mine(false), "mine", false}, {mine(false), "theirs", true}, {mine(false), "", true}, {mine(true), "", false}, {mine(true), "theirs", true},
	} {
		d := &analysis.Decision{
			Passed: []analysis.Rule{rule(c.namespace)}, IsolatedBy: []analysis.Policy{rule(c.namespace).Policy},
			Policies:   []analysis.PolicyState{{Policy: rule(c.namespace).Policy, Why: "it names mine/db"}},
			IfEnforced: &analysis.Decision{Uncertain: []analysis.Rule{rule(c.namespace)}},
		}
		decider := rule(c.namespace)
		d.DecidedBy = &decider
		c.view.Flow(&analysis.Flow{Ingress: d})
		for _, r := range []analysis.Rule{*d.DecidedBy, d.Passed[0], d.IfEnforced.Uncertain[0]} {
			if r.Policy.Hidden != c.hidden || (r.Policy.Name == "") != c.hidden || (r.Name == "") != c.hidden || (r.DependsOn == nil) != c.hidden || r.Action != "Drop" {
				t.Errorf("namespace %q, %+v: %+v", c.namespace, c.view, r)
			}
			if (r.Through == nil) != (c.view != nil) {
				t.Errorf("namespace %q, %+v: through %v", c.namespace, c.view, r.Through)
			}
		}
		if d.IsolatedBy[0].Hidden != c.hidden || d.Policies[0].Hidden != c.hidden || (d.Policies[0].Why == "") != c.hidden {
			t.Errorf("namespace %q, %+v: %+v", c.namespace, c.view, d)
		}
		if decider.Name != "r" {
			t.Error("the rule that the decision pointed to was changed")
		}
	}
}

// TestObjects: objects of a Namespace that may not be seen are left out, with the machines in
// clouds that they represent; machines that no object represents are shown with the cluster.
func TestObjects(t *testing.T) {
	pod := func(namespace string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
	}
	in := &input.Objects{
		Pods: []*corev1.Pod{pod("mine"), pod("theirs")}, Nodes: []*corev1.Node{{}},
		Observed: []input.Account{{
			Snapshots: []*cloud.Snapshot{{
				Scope: cloud.Scope{Region: "r"}, VMs: []cloud.VM{{ID: "i-mine"}, {ID: "i-theirs"}, {ID: "i-free"}},
				Interfaces: []cloud.Interface{{ID: "eni-mine", VMID: "i-mine"}, {ID: "eni-theirs", VMID: "i-theirs"}, {ID: "eni-free"}},
			}},
			VMs: map[types.NamespacedName]selection.VMRef{{Namespace: "mine", Name: "a"}: {Region: "r", VMID: "i-mine"}, {Namespace: "theirs", Name: "b"}: {Region: "r", VMID: "i-theirs"}},
		}},
	}
	for view, want := range map[*View][4]int{nil: {2, 1, 3, 3}, mine(false): {1, 0, 1, 1}, mine(true): {1, 1, 2, 2}} {
		out := view.Objects(in)
		s := out.Observed[0].Snapshots[0]
		if got := [4]int{len(out.Pods), len(out.Nodes), len(s.VMs), len(s.Interfaces)}; got != want {
			t.Errorf("%+v: %v Pods, Nodes, VMs and interfaces, want %v", view, got, want)
		}
	}
	if len(in.Pods) != 2 || len(in.Observed[0].VMs) != 2 || len(in.Observed[0].Snapshots[0].VMs) != 3 {
		t.Error("what was given has changed")
	}
}

// TestListing: members that may not be seen are left out of groups, and the groups are marked;
// rules that apply to such members alone are left out.
func TestListing(t *testing.T) {
	member := func(namespace string) *policy.Member {
		return &policy.Member{EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: namespace, Name: "p"}}
	}
	l := &policy.Listing{
		AppliedToGroups: []policy.ComputedGroup{{Name: "both", Members: []*policy.Member{member("mine"), member("theirs")}}, {Name: "theirs", Members: []*policy.Member{member("theirs")}}},
		Policies:        []policy.PolicySpan{{ComputedPolicy: &policy.ComputedPolicy{Rules: []policy.ComputedRule{{AppliedToGroups: []string{"both"}}, {AppliedToGroups: []string{"theirs"}}}}}},
	}
	out := mine(true).Listing(l)
	if g := out.AppliedToGroups[0]; len(g.Members) != 1 || !g.Unseen {
		t.Errorf("%+v: want one member, and that others are unseen", g)
	}
	if len(out.Policies) != 1 || len(out.Policies[0].Rules) != 1 {
		t.Errorf("%+v: want the rule that applies to both", out.Policies)
	}
	if len(l.Policies[0].Rules) != 2 || len(l.AppliedToGroups[0].Members) != 2 {
		t.Error("what was given has changed")
	}
}
