package control

import "testing"

// TestPolicyWhoseAccountIsGone: a policy is not called realized once nothing that a cloud enforced
// it on is left. What held Pods only is, as with Antrea.
func TestPolicyWhoseAccountIsGone(t *testing.T) {
	const released = "Pending 0/0 gen 1 [Realizable=True NotEnforced not enforced: the VMs that it applied to are released, and nothing else is selected that an enforcer is responsible for]"
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
