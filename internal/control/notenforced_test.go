package control

import (
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// TestPolicyWhoseAccountIsGone: a policy is not called realized once nothing that a cloud enforced
// it on is left. What held Pods only is, as with Antrea.
func TestPolicyWhoseAccountIsGone(t *testing.T) {
	const released = "NotEnforced 0/0 gen 1 [Realizable=True NotEnforced not enforced: the VMs that it applied to are released, and nothing else is selected that an enforcer is responsible for]"
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud/vms/shop"))
	w.put(allowSSH(t, "p", "db", 1))
	w.settle()
	w.report("uid-p", "cloud/vms/shop", 1, "")
	w.wantStatus("enforced", "p", "Realized 1/1 gen 1 [Realizable=True  ]")
	w.remove(vm(t, "a", "db", "cloud/vms/shop"))
	w.settle()
	w.wantStatus("released", "p", released)
	if len(w.events.list) != 2 || w.events.list[1][:len("Warning PolicyNotEnforced")] != "Warning PolicyNotEnforced" {
		t.Errorf("events: %q", w.events.list)
	}
	w.put(vm(t, "a", "db", "cloud/vms/shop"))
	w.settle()
	w.wantStatus("imported again", "p", "Realizing 0/1 gen 1 [Realizable=True  ]")

	w.put(vm(t, "b", "agent", "host-b"))
	w.put(allowSSH(t, "q", "agent", 1))
	w.settle()
	w.remove(vm(t, "b", "agent", "host-b"))
	w.settle()
	w.wantStatus("an agent's", "q", "Idle 0/0 gen 1 [Realizable=True  nothing is selected that an enforcer is responsible for: "+
		`spec.appliedTo[0].externalEntitySelector: got a selector of nobody, want labels that some ExternalEntity has; role is never "agent": there is db]`)
}

// TestPolicyOfDeadAgent: what an agent has realized that is not heard of any more is not confirmed
// since; its rules may be in force as they were, so the phase stays.
func TestPolicyOfDeadAgent(t *testing.T) {
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "vms/host-a"))
	w.put(vm(t, "b", "db", "vms/host-b"))
	w.put(allowSSH(t, "p", "db", 1))
	w.settle()
	w.report("uid-p", "vms/host-a", 1, "")
	w.report("uid-p", "vms/host-b", 1, "")
	w.wantStatus("enforced", "p", "Realized 2/2 gen 1 [Realizable=True  ]")
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	w.Silent(map[string]time.Time{"vms/host-a": since})
	w.settle()
	w.wantStatus("one is dead", "p", "Realized 2/2 gen 1 [Realizable=True  ; Confirmed=False EnforcerSilent not confirmed since 2026-03-01T12:00:00Z: the agent on vms/host-a is silent]")
	w.Silent(map[string]time.Time{"vms/host-a": since, "vms/host-b": since.Add(time.Minute), "vms/host-c": since})
	w.settle()
	w.wantStatus("two are", "p", "Realized 2/2 gen 1 [Realizable=True  ; Confirmed=False EnforcerSilent not confirmed since 2026-03-01T12:00:00Z: the agent on vms/host-a is silent, and 1 more]")
	w.Silent(nil)
	w.settle()
	w.wantStatus("back", "p", "Realized 2/2 gen 1 [Realizable=True  ]")
}

// TestPolicyOfDifferingTraffic: while traffic is not as a policy says, its status tells so beside
// all else, and only then.
func TestPolicyOfDifferingTraffic(t *testing.T) {
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "vms/host-a"))
	w.put(allowSSH(t, "p", "db", 1))
	w.put(allowSSH(t, "q", "db", 1))
	w.settle()
	w.report("uid-p", "vms/host-a", 1, "")
	w.report("uid-q", "vms/host-a", 1, "no room")
	failed := "Failed 0/1 gen 1 [Realizable=True  ; RealizationFailure=True NetworkPolicyRealizationFailedOnNode Failed Nodes count 1: \"vms/host-a\":\"no room\""
	differing := map[types.UID]Differing{"uid-p": {"Leaks", "it passes"}, "uid-q": {"Leaks", "it passes"}, "uid-unknown": {"Leaks", "it passes"}}
	for range 2 { // the same again changes nothing
		w.Differ(maps.Clone(differing))
		w.settle()
		w.wantStatus("differs", "p", "Realized 1/1 gen 1 [Realizable=True  ; TrafficAgrees=False Leaks it passes]")
		w.wantStatus("differs", "q", failed+"; TrafficAgrees=False Leaks it passes]")
	}
	q := get(w, &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "q"}})
	if q.Status.Message != "it passes; no room" {
		t.Error(q.Status.Message)
	}
	delete(differing, "uid-p")
	w.Differ(differing)
	w.settle()
	w.wantStatus("agrees", "p", "Realized 1/1 gen 1 [Realizable=True  ]")
	w.wantStatus("differs still", "q", failed+"; TrafficAgrees=False Leaks it passes]")
}
