package control

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/clusterset/peers"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// vm is an ExternalEntity with a role, for an enforcer.
func vm(t *testing.T, name, role, host string) *v1alpha2.ExternalEntity {
	return decode[v1alpha2.ExternalEntity](t, fmt.Sprintf(`
metadata: {namespace: vms, name: %s, labels: {role: %s}}
spec: {externalNode: %s, endpoints: [{ip: 10.0.0.1}]}`, name, role, host))
}

// allowSSH is a policy for the VMs of a role.
func allowSSH(t *testing.T, name, role string, generation int64) *v1beta1.NetworkPolicy {
	return decode[v1beta1.NetworkPolicy](t, fmt.Sprintf(`
metadata: {namespace: vms, name: %[1]s, uid: uid-%[1]s, generation: %[3]d}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {role: %[2]s}}}]
  ingress: [{action: Allow, ports: [{port: 22}]}]`, name, role, generation))
}

func (w *testWorld) report(uid, node string, generation int64, failure string) {
	w.t.Helper()
	err := w.Report(w.t.Context(), &v1beta2.NetworkPolicyStatus{
		ObjectMeta: metav1.ObjectMeta{Name: uid},
		Nodes:      []v1beta2.NetworkPolicyNodeStatus{{NodeName: node, Generation: generation, RealizationFailure: failure != "", Message: failure}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.settle()
}

// line prints a status.
func line(s v1beta1.NetworkPolicyStatus) string {
	var conditions []string
	for _, c := range s.Conditions {
		conditions = append(conditions, fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return fmt.Sprintf("%s %d/%d gen %d [%s]", s.Phase, s.CurrentNodesRealized, s.DesiredNodesRealized, s.ObservedGeneration, strings.Join(conditions, "; "))
}

func (w *testWorld) wantStatus(step, policy, want string) {
	w.t.Helper()
	p := get(w, &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: policy}})
	if diff := cmp.Diff(want, line(p.Status)); diff != "" {
		w.t.Errorf("%s: status of %s (-want +got):\n%s", step, policy, diff)
	}
}

func TestPolicyStatusFollowsReports(t *testing.T) {
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud-a"))
	w.put(vm(t, "b", "db", "cloud-b"))
	w.put(allowSSH(t, "p", "db", 1))
	w.settle()
	w.wantStatus("created", "p", "Realizing 0/2 gen 1 [Realizable=True  ]")
	w.report("uid-p", "cloud-a", 1, "")
	w.wantStatus("one of two", "p", "Realizing 1/2 gen 1 [Realizable=True  ]")
	w.report("uid-p", "cloud-c", 1, "")
	w.wantStatus("a stranger reports", "p", "Realizing 1/2 gen 1 [Realizable=True  ]")
	w.report("uid-unknown", "cloud-a", 1, "")
	w.report("uid-p", "cloud-b", 1, "needs 73 rules, quota 60")
	w.wantStatus("the other fails", "p", `Failed 1/2 gen 1 [Realizable=True  ; `+
		`RealizationFailure=True NetworkPolicyRealizationFailedOnNode Failed Nodes count 1: "cloud-b":"needs 73 rules, quota 60"]`)
	w.report("uid-p", "cloud-b", 1, "")
	w.wantStatus("both", "p", "Realized 2/2 gen 1 [Realizable=True  ]")

	w.put(allowSSH(t, "p", "db", 2))
	w.settle()
	w.wantStatus("changed", "p", "Realizing 0/2 gen 2 [Realizable=True  ]")
	w.report("uid-p", "cloud-a", 2, "")
	w.report("uid-p", "cloud-b", 1, "")
	w.wantStatus("an old report", "p", "Realizing 1/2 gen 2 [Realizable=True  ]")

	w.remove(vm(t, "b", "db", "cloud-b"))
	w.settle()
	w.wantStatus("span shrinks", "p", "Realized 1/1 gen 2 [Realizable=True  ]")
	w.report("uid-p", "cloud-b", 2, "")
	w.wantStatus("a report that was under way", "p", "Realized 1/1 gen 2 [Realizable=True  ]")
	w.put(vm(t, "b", "db", "cloud-b"))
	w.settle()
	w.wantStatus("span grows: what the enforcer said before does not count", "p", "Realizing 1/2 gen 2 [Realizable=True  ]")

	for _, want := range []string{
		`Warning PolicyFailed: Failed Nodes count 1: "cloud-b":"needs 73 rules, quota 60"`,
		"Normal PolicyRealized: Generation 1 is realized by all 2 enforcers",
	} {
		if !slices.Contains(w.events.list, want) {
			t.Errorf("no Event %q in\n%s", want, strings.Join(w.events.list, "\n"))
		}
	}
	if err := w.Report(t.Context(), &v1beta2.NetworkPolicyStatus{}); err == nil {
		t.Error("a status without name is taken")
	}
}

// TestPolicyThatIsNotInForce: what a mode does not let be enforced is Failed with the reason, until
// it is enforced or is taken back.
func TestPolicyThatIsNotInForce(t *testing.T) {
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud-a"))
	w.put(allowSSH(t, "p", "db", 1))
	w.settle()
	w.report("uid-p", "cloud-a", 1, "not enforced on 1 of 1 VMs: 1 in mode plan")
	w.wantStatus("mode plan", "p", `Failed 0/1 gen 1 [Realizable=True  ; `+
		`RealizationFailure=True NetworkPolicyRealizationFailedOnNode Failed Nodes count 1: "cloud-a":"not enforced on 1 of 1 VMs: 1 in mode plan"]`)
	if slices.ContainsFunc(w.events.list, func(e string) bool { return strings.Contains(e, "PolicyRealized") }) {
		t.Errorf("events %q", w.events.list)
	}
	w.report("uid-p", "cloud-a", 0, "")
	w.wantStatus("taken back", "p", "Realizing 0/1 gen 1 [Realizable=True  ]")
	w.report("uid-p", "cloud-a", 1, "")
	w.wantStatus("enforced", "p", "Realized 1/1 gen 1 [Realizable=True  ]")
}

func TestPolicyThatSelectsNothing(t *testing.T) {
	w := newTestWorld(t)
	w.put(allowSSH(t, "p", "nobody", 1))
	w.settle()
	w.wantStatus("created", "p", "Idle 0/0 gen 1 [Realizable=True  nothing is selected that an enforcer is responsible for: "+
		"spec.appliedTo[0].externalEntitySelector: got a selector of nobody, want labels that some ExternalEntity has; there is none yet]")
	w.put(vm(t, "a", "db", "cloud-a"))
	w.put(allowSSH(t, "q", "dbb", 1))
	w.settle()
	q := get(w, &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "q"}}).Status
	if text := line(q); !strings.HasPrefix(text, "Idle 0/0") || !strings.Contains(text, "spec.appliedTo[0].externalEntitySelector") || !strings.Contains(text, "db") || q.Message == "" {
		t.Errorf("it does not say which selector matches nothing, and what is near: %s", text)
	}
	w.put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "x", UID: "x", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}})
	r := allowSSH(t, "r", "dbb", 1)
	r.Spec.AppliedTo = []v1beta1.AppliedTo{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "wbe"}}}}
	close(w.computed) // as the loop does, which answers
	go func() {
		for ask := range w.questions {
			ask(w.engine)
		}
	}()
	defer close(w.questions)
	w.put(r)
	w.settle()
	if text := line(get(w, &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "r"}}).Status); !strings.Contains(text,
		`spec.appliedTo[0].podSelector: got a selector of nobody, want labels that some Pod has; app is never "wbe"; did you mean web?`) {
		t.Errorf("of Pods: %s", text)
	}
	if len(w.events.list) < 1 || !strings.HasPrefix(w.events.list[0], "Warning PolicySelectsNothing") {
		t.Errorf("events: %q", w.events.list)
	}
}

// TestPolicyWithoutRules: a policy that takes away its rules is realized where an enforcer says so,
// or where one is given it: Antrea Agents never report such a policy. It is not where there is no
// enforcer.
func TestPolicyWithoutRules(t *testing.T) {
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud-a"))
	p := allowSSH(t, "p", "db", 1)
	w.put(p)
	w.settle()
	w.report("uid-p", "cloud-a", 1, "")
	p = allowSSH(t, "p", "db", 2)
	p.Spec.Ingress = nil
	w.put(p)
	w.settle()
	w.wantStatus("no rules left, and no enforcer", "p", "Realizing 0/1 gen 2 [Realizable=True  there are no rules to enforce]")
	w.report("uid-p", "cloud-a", 2, "")
	w.wantStatus("the enforcer says so", "p", "Realized 1/1 gen 2 [Realizable=True  there are no rules to enforce]")
	p = allowSSH(t, "p", "db", 3)
	p.Spec.Ingress = nil
	w.put(p)
	w.settle()
	w.wantStatus("what was said is of former rules", "p", "Realizing 0/1 gen 3 [Realizable=True  there are no rules to enforce]")
	for _, other := range []struct {
		resource watchstore.Resource
		key      string
	}{{watchstore.NetworkPolicies, "cloud-b"}, {watchstore.AddressGroups, "cloud-a"}, {watchstore.NetworkPolicies, ""}} {
		watching, err := w.Store().Watch(other.resource, other.key)
		if err != nil {
			t.Fatal(err)
		}
		defer watching.Stop()
		w.settle()
		w.wantStatus("somebody else watches", "p", "Realizing 0/1 gen 3 [Realizable=True  there are no rules to enforce]")
	}
	watching, err := w.Store().Watch(watchstore.NetworkPolicies, "cloud-a")
	if err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.wantStatus("an enforcer begins to watch", "p", "Realized 1/1 gen 3 [Realizable=True  there are no rules to enforce]")
	watching.Stop()
	w.put(vm(t, "b", "db", "cloud-c"))
	w.settle()
	w.wantStatus("it was given the policy; another one is not there", "p", "Realizing 1/2 gen 3 [Realizable=True  there are no rules to enforce]")
	w.remove(vm(t, "b", "db", "cloud-c"))
	p = allowSSH(t, "p", "db", 2)
	p.Spec.Ingress = nil
	w.put(p)
	w.settle()
	w.report("uid-p", "cloud-a", 2, "quota")
	w.wantStatus("a failure", "p", `Failed 0/1 gen 2 [Realizable=True  there are no rules to enforce; `+
		`RealizationFailure=True NetworkPolicyRealizationFailedOnNode Failed Nodes count 1: "cloud-a":"quota"]`)
	w.put(allowSSH(t, "p", "db", 3))
	w.settle()
	w.wantStatus("a rule", "p", "Realizing 0/1 gen 3 [Realizable=True  ]")
}

func TestInvalidPolicyHurtsNobodyElse(t *testing.T) {
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud-a"))
	w.put(allowSSH(t, "good", "db", 1))
	bad := allowSSH(t, "bad", "db", 1)
	bad.Spec.Ingress[0].From = []v1beta1.NetworkPolicyPeer{{IPBlock: &v1beta1.IPBlock{CIDR: "10.0.0.0/33"}}}
	w.put(bad)
	late := allowSSH(t, "late", "db", 1)
	late.Spec.Tier = "later"
	w.put(late)
	w.settle()
	w.wantStatus("created", "good", "Realizing 0/1 gen 1 [Realizable=True  ]")
	p := get(w, &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "bad"}})
	if got := line(
		p.Status,
	); !strings.HasPrefix(got, "Failed 0/0 gen 1 [Realizable=False NetworkPolicyInvalid spec.ingress[0].from[0].ipBlock.cidr") ||
		!strings.Contains(got, "10.0.0.0/33") {
		t.Errorf("bad: %s", got)
	}
	p = get(w, &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "late"}})
	if got := line(p.Status); !strings.HasPrefix(got, "Failed 0/0 gen 1 [Realizable=False NetworkPolicyInvalid spec.tier") {
		t.Errorf("late: %s", got)
	}
	if n := len(w.events.list); n != 2 {
		t.Errorf("%d events, want one per bad policy:\n%s", n, strings.Join(w.events.list, "\n"))
	}
	objects, _, err := w.Store().List(watchstore.NetworkPolicies, "cloud-a")
	if err != nil || len(objects) != 1 {
		t.Fatalf("published policies: %v, %v", objects, err)
	}

	w.put(&v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Spec: v1beta1.TierSpec{Priority: 7}})
	w.put(allowSSH(t, "bad", "db", 2))
	w.settle()
	w.wantStatus("mended", "bad", "Realizing 0/1 gen 2 [Realizable=True  ]")
	w.wantStatus("tier came", "late", "Realizing 0/1 gen 1 [Realizable=True  ]")
	broken := allowSSH(t, "bad", "db", 3)
	broken.Spec.AppliedTo = nil
	w.put(broken)
	w.settle()
	objects, _, err = w.Store().List(watchstore.NetworkPolicies, "cloud-a")
	if err != nil || len(objects) != 3 {
		t.Fatalf("a policy that became invalid: %d policies are published (%v), want its last valid version to stay in force beside the others", len(objects), err)
	}
	p = get(w, &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "bad"}})
	if got := line(p.Status); !strings.HasPrefix(got, "Failed") || !strings.Contains(got, "gen 3") || !strings.Contains(got, "appliedTo") {
		t.Errorf("a policy that became invalid: %s", got)
	}
}

func TestForeignStatusIsCorrected(t *testing.T) {
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud-a"))
	w.put(allowSSH(t, "p", "db", 1))
	w.settle()
	p := get(w, &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "p"}})
	before := p.DeepCopy()
	p.Status.Phase = v1beta1.NetworkPolicyRealized
	if err := w.api.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	w.handler(kindPolicy).OnUpdate(before, p)
	w.settle()
	w.wantStatus("corrected", "p", "Realizing 0/1 gen 1 [Realizable=True  ]")
}

func TestTransitionTimes(t *testing.T) {
	w := newTestWorld(t)
	start := w.clock.Now()
	w.put(vm(t, "a", "db", "cloud-a"))
	w.put(allowSSH(t, "p", "db", 1))
	w.settle()
	w.clock.Step(time.Minute)
	w.report("uid-p", "cloud-a", 1, "no")
	p := get(w, &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "p"}})
	if got := p.Status.Conditions[0].LastTransitionTime.Time; !got.Equal(start) {
		t.Errorf("Realizable since %v, want %v", got, start)
	}
	if got := p.Status.Conditions[1].LastTransitionTime.Time; !got.Equal(start.Add(time.Minute)) {
		t.Errorf("RealizationFailure since %v, want %v", got, start.Add(time.Minute))
	}
}

func TestPolicyMadeAgainIsAnother(t *testing.T) {
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud-a"))
	first := allowSSH(t, "p", "db", 1)
	w.put(first)
	w.settle()
	w.report("uid-p", "cloud-a", 1, "")
	w.wantStatus("first", "p", "Realized 1/1 gen 1 [Realizable=True  ]")
	second := allowSSH(t, "p", "db", 1)
	second.UID = "uid-second"
	if err := w.api.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	second.ResourceVersion = ""
	if err := w.api.Create(t.Context(), second.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	// The informer has missed the deletion.
	w.handler(kindPolicy).OnUpdate(first, second)
	w.settle()
	w.wantStatus("second", "p", "Realizing 0/1 gen 1 [Realizable=True  ]")
	objects, _, _ := w.Store().List(watchstore.NetworkPolicies, "")
	if len(objects) != 1 || objects[0].(*v1beta2.NetworkPolicy).Name != "uid-second" {
		t.Errorf("published: %v", objects)
	}
	w.report("uid-p", "cloud-a", 1, "")
	w.wantStatus("a report about the first", "p", "Realizing 0/1 gen 1 [Realizable=True  ]")
}

func TestKubernetesPolicyHasEventsOnly(t *testing.T) {
	w := newTestWorld(t)
	w.put(decode[networkingv1.NetworkPolicy](t, `
metadata: {namespace: vms, name: k, uid: uid-k, generation: 1}
spec:
  podSelector: {}
  ingress: [{from: [{ipBlock: {cidr: nonsense}}]}]`))
	w.settle()
	if len(w.events.list) != 1 || !strings.Contains(w.events.list[0], "nonsense") {
		t.Errorf("events: %q", w.events.list)
	}
}

func TestGroupStatus(t *testing.T) {
	w := newTestWorld(t)
	w.put(decode[v1beta1.Group](t, `{metadata: {namespace: vms, name: g}, spec: {externalEntitySelector: {}}}`))
	w.put(decode[v1beta1.ClusterGroup](t, `{metadata: {name: leaf}, spec: {ipBlocks: [{cidr: 10.0.0.0/8}]}}`))
	w.put(decode[v1beta1.ClusterGroup](t, `{metadata: {name: middle}, spec: {childGroups: [leaf]}}`))
	w.put(decode[v1beta1.ClusterGroup](t, `{metadata: {name: top}, spec: {childGroups: [middle]}}`))
	w.settle()
	condition := func(s v1beta1.GroupStatus) string {
		if len(s.Conditions) != 1 {
			return fmt.Sprint(s.Conditions)
		}
		return fmt.Sprintf("%s=%s %s", s.Conditions[0].Type, s.Conditions[0].Status, s.Conditions[0].Reason)
	}
	group := get(w, &v1beta1.Group{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "g"}})
	if got := condition(group.Status); got != "GroupMembersComputed=True " {
		t.Errorf("g: %s", got)
	}
	for name, want := range map[string]string{
		"leaf": "GroupMembersComputed=True ", "top": "GroupMembersComputed=False ChildGroupsNestingExceeded",
	} {
		g := get(w, &v1beta1.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if got := condition(g.Status); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	w.put(decode[v1beta1.ClusterGroup](t, `{metadata: {name: middle}, spec: {podSelector: {}}}`))
	w.settle()
	top := get(w, &v1beta1.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Name: "top"}})
	if got := condition(top.Status); got != "GroupMembersComputed=True " {
		t.Errorf("top after its child has no children: %s", got)
	}
}

func TestSystemTiersAreKept(t *testing.T) {
	w := newTestWorld(t)
	if err := w.keepTiers(context.Background()); err != nil {
		t.Fatal(err)
	}
	var list v1beta1.TierList
	if err := w.api.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	got := map[string]int32{}
	for _, tier := range list.Items {
		got[tier.Name] = tier.Spec.Priority
	}
	want := map[string]int32{"emergency": 50, "securityops": 100, "networkops": 150, "platform": 200, "application": 250, "baseline": 253}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	w.put(&v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: "platform"}, Spec: v1beta1.TierSpec{Priority: 12}})
	w.settle()
	if p := get(w, &v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: "platform"}}); p.Spec.Priority != 200 {
		t.Errorf("platform has priority %d", p.Spec.Priority)
	}
	w.remove(&v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: "baseline"}})
	w.settle()
	get(w, &v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: "baseline"}})
}

// TestPeersOfOtherClusters: the status of a policy with peers of other clusters says what of them
// is not known, and ceases to when it is.
func TestPeersOfOtherClusters(t *testing.T) {
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud-a"))
	p := allowSSH(t, "p", "db", 1)
	p.Spec.Ingress[0].From = []v1beta1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}, Scope: v1beta1.ScopeClusterSet}}
	w.put(p)
	w.settle()
	const known = "Realizing 0/1 gen 1 [Realizable=True  "
	const note = known + "; PeersKnown=False OtherClusters spec.ingress[0].from[0]: "
	w.wantStatus("in no set", "p", note+noteAlone+"]")
	converted := convert.NetworkPolicy(p)
	id := peers.Groups(&converted)[0].ID
	w.PutPeerNotes(map[string]string{id: "the hub has not answered"})
	w.settle()
	w.wantStatus("asked", "p", note+"the hub has not answered]")
	w.PutPeerNotes(map[string]string{id: ""})
	w.settle()
	w.wantStatus("answered", "p", known+"]")
	w.PutRemote([]policy.Entity{{EntityRef: policy.EntityRef{Kind: policy.KindRemote, Name: "10.9.0.1"}, Labels: map[string]string{id: ""}, Addresses: []netip.Addr{netip.MustParseAddr("10.9.0.1")}}}, nil)
	w.settle()
	if from := addressesOf(w); !slices.Equal(from, []string{"10.9.0.1"}) {
		t.Errorf("the peers are %v", from)
	}
}

// addressesOf are all that are in peers.
func addressesOf(w *testWorld) []string {
	var out []string
	for _, g := range w.engine.Listing().AddressGroups {
		for _, m := range g.Members {
			for _, a := range m.IPs {
				out = append(out, a.String())
			}
		}
	}
	return out
}
