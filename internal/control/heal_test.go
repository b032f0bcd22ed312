package control

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// oddSource is a policy that nobody can compute.
type oddSource struct{ policy.PolicyRef }

func (o oddSource) Ref() policy.PolicyRef                { return o.PolicyRef }
func (o oddSource) Policy(*policy.Policy) *policy.Policy { panic("an odd policy") }

// TestRoundHeals: a round that panics leaves out what it panics about, which stays as it was, and
// computes everything else; and so do the rounds after it.
func TestRoundHeals(t *testing.T) {
	w := newTestWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.put(vm(t, name, "db", "cloud-"+name))
	}
	for _, name := range []string{"p", "q", "r"} {
		w.put(allowSSH(t, name, "db", 1))
	}
	w.settle()
	close(w.Controller.computed)
	before := w.served("cloud-a")
	watching, err := w.Store().Watch(watchstore.NetworkPolicies, "cloud-a")
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	begin := make([]watchstore.Event, 16)
	if _, err := watching.Take(t.Context(), begin); err != nil {
		t.Fatal(err)
	}

	// A version of a policy that was fine, and a new policy.
	var changed policy.PolicyRef
	for ref := range compute.Inputs(w.Controller.engine) {
		if ref.Kind == compute.InputPolicy && (changed.UID == "" || ref.Name < changed.UID) {
			changed.UID = ref.Name
		}
	}
	for _, uid := range []string{changed.UID, "new"} {
		ref := compute.Input{Kind: compute.InputPolicy, Name: uid}
		w.Controller.suspects[ref] = suspect{former: compute.Held(w.Controller.engine, ref)}
		w.Controller.engine.PutPolicySource(oddSource{policy.PolicyRef{Kind: policy.AntreaNetworkPolicy, Namespace: "n", Name: uid, UID: uid}})
	}
	w.put(vm(t, "d", "db", "cloud-d"))
	w.Controller.guardedRound()
	if err := w.Controller.Faulty(); err != nil {
		t.Fatal(err)
	}
	if n := w.served("cloud-a"); n != before {
		t.Errorf("%d objects are served, want %d", n, before)
	}
	if n := w.served("cloud-d"); n != before {
		t.Errorf("%d objects for the VM that came with it, want %d", n, before)
	}
	if len(w.Controller.suspects) != 0 {
		t.Errorf("still suspected: %v", w.Controller.suspects)
	}
	page := w.Controller.book.policies[types.UID(changed.UID)]
	if page == nil || !page.computed || page.desired != 4 || !strings.Contains(policy.JoinErrors(page.refused), "an odd policy") {
		t.Errorf("the page of the policy: %+v", page)
	}

	// The engine goes on.
	w.put(vm(t, "e", "db", "cloud-e"))
	w.Controller.guardedRound()
	if n := w.served("cloud-e"); n != before {
		t.Errorf("%d objects for the next VM, want %d", n, before)
	}
}

// TestFirstRoundHeals: of what there is at first, everything is suspected.
func TestFirstRoundHeals(t *testing.T) {
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud-a"))
	for _, name := range []string{"p", "q", "r", "s"} {
		w.put(allowSSH(t, name, "db", 1))
	}
	for _, uid := range []string{"odd-1", "zodd-2"} {
		w.Controller.engine.PutPolicySource(oddSource{policy.PolicyRef{Kind: policy.AntreaNetworkPolicy, Namespace: "n", Name: uid, UID: uid}})
	}
	w.Controller.guardedRound()
	if err := w.Controller.Faulty(); err != nil {
		t.Fatal(err)
	}
	policies, _, err := w.Store().List(watchstore.NetworkPolicies, "cloud-a")
	if err != nil || len(policies) != 4 {
		t.Errorf("%d policies are served: %v", len(policies), err)
	}
}

// BenchmarkHeal finds one policy that nobody can compute among 100 changes, in a cluster of 100,000
// Pods and 1,000 policies, and computes everything without it.
func BenchmarkHeal(b *testing.B) {
	const namespaces, pods, changes = 1_000, 100, 100
	engine := compute.New(compute.Options{})
	of := func(n int) policy.Policy {
		name := fmt.Sprintf("p-%04d", n)
		return policy.Policy{Kind: policy.KubernetesNetworkPolicy, Namespace: fmt.Sprintf("n-%04d", n), Name: name, UID: name,
			AppliedTo: []policy.AppliedTo{{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "db"}}}},
			Ingress:   []policy.Rule{{Peers: []policy.Peer{{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "web"}}}}}}}
	}
	for n := range namespaces {
		engine.PutNamespace(policy.Namespace{Name: fmt.Sprintf("n-%04d", n)})
		for i := range pods {
			engine.PutEntity(policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: fmt.Sprintf("n-%04d", n), Name: fmt.Sprint(i)},
				Labels: map[string]string{"app": []string{"web", "db"}[i%2]}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(n >> 2), byte(n<<6) | byte(i), 1})}, Host: fmt.Sprint("node-", i)})
		}
		engine.PutPolicy(of(n))
	}
	engine.CommitChanges()
	suspects := map[compute.Input]suspect{}
	var order []compute.Input
	for n := range changes {
		ref := compute.Input{Kind: compute.InputPolicy, Name: of(n).UID}
		suspects[ref] = suspect{former: compute.Held(engine, ref)}
		order = append(order, ref)
		engine.PutPolicy(of(n))
	}
	odd := order[changes/3]
	engine.PutPolicySource(oddSource{policy.PolicyRef{Kind: policy.KubernetesNetworkPolicy, Namespace: "n-0033", Name: odd.Name, UID: odd.Name}})
	var computed int
	for b.Loop() {
		h := &healing{from: engine, suspects: suspects, order: order}
		guilty := h.guilty()
		if len(guilty) != 1 || guilty[0] != odd {
			b.Fatalf("guilty: %v, want %v", guilty, odd)
		}
		if _, _, err := h.compute(guilty); err != nil {
			b.Fatal(err)
		}
		computed = h.attempts + 1
	}
	b.ReportMetric(float64(computed), "computed")
}
