package control

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// served counts what is served to an enforcer.
func (w *testWorld) served(key string) int {
	w.t.Helper()
	n := 0
	for _, r := range []watchstore.Resource{watchstore.NetworkPolicies, watchstore.AppliedToGroups, watchstore.AddressGroups} {
		list, _, err := w.Store().List(r, key)
		if err != nil {
			w.t.Fatal(err)
		}
		n += len(list)
	}
	return n
}

func staged(p *v1beta1.NetworkPolicy, value string) *v1beta1.NetworkPolicy {
	p.Annotations = map[string]string{"nephele.io/stage": value}
	return p
}

// TestStagedIsNeverServed: a staged policy is not served to anybody, from the first moment and
// after it was in force; it comes back when the annotation goes. An annotation is no new
// generation.
func TestStagedIsNeverServed(t *testing.T) {
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud-a"))
	w.put(staged(allowSSH(t, "p", "db", 1), "plan"))
	w.settle()
	if n := w.served(""); n > 0 {
		t.Fatalf("%d objects are served of a policy that was staged from the beginning", n)
	}
	w.wantStatus("staged", "p", "Staged 0/0 gen 1 [Realizable=True Staged not enforced: the annotation nephele.io/stage: plan stages it]")
	w.put(allowSSH(t, "p", "db", 1))
	w.settle()
	if n := w.served("cloud-a"); n != 2 {
		t.Fatalf("%d objects are served of a policy that is staged no longer, want the policy and its group", n)
	}
	w.report("uid-p", "cloud-a", 1, "")
	w.wantStatus("in force", "p", "Realized 1/1 gen 1 [Realizable=True  ]")
	w.put(staged(allowSSH(t, "p", "db", 1), "plan"))
	w.settle()
	if n := w.served(""); n > 0 {
		t.Fatalf("%d objects are served of a policy that has been staged", n)
	}
	// An enforcer that is a little behind changes nothing.
	w.report("uid-p", "cloud-a", 1, "")
	w.wantStatus("staged again", "p", "Staged 0/0 gen 1 [Realizable=True Staged not enforced: the annotation nephele.io/stage: plan stages it]")
}

// TestOnlyOneValueStages: what admission would have refused, and got in all the same, is enforced;
// so is a policy of a kind that others enforce as well, and one beside a staged one.
func TestOnlyOneValueStages(t *testing.T) {
	for _, value := range []string{"Plan", "planned", "plan ", "", "true", "enforce"} {
		w := newTestWorld(t)
		w.put(vm(t, "a", "db", "cloud-a"))
		w.put(staged(allowSSH(t, "p", "db", 1), value))
		w.settle()
		if n := w.served("cloud-a"); n != 2 {
			t.Errorf("stage %q: %d objects are served, want the policy and its group", value, n)
		}
	}
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud-a"))
	w.put(allowSSH(t, "enforced", "db", 1))
	w.put(staged(allowSSH(t, "p", "db", 1), "plan"))
	w.put(decode[networkingv1.NetworkPolicy](t, `
metadata: {namespace: vms, name: k8s, uid: uid-k8s, annotations: {nephele.io/stage: plan}}
spec: {podSelector: {}}`))
	w.settle()
	list, _, err := w.Store().List(watchstore.NetworkPolicies, "")
	if err != nil || len(list) != 2 {
		t.Errorf("%d policies are served (%v), want that beside the staged one and the Kubernetes NetworkPolicy", len(list), err)
	}
}
