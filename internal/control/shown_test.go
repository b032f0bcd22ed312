package control

import (
	"math"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// counted is a report with numbers.
func (w *testWorld) counted(uid string, n v1beta2.NetworkPolicyNodeStatus) {
	w.t.Helper()
	err := w.Report(w.t.Context(), &v1beta2.NetworkPolicyStatus{ObjectMeta: metav1.ObjectMeta{Name: uid}, Nodes: []v1beta2.NetworkPolicyNodeStatus{n}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.settle()
}

// TestPolicyAtAGlance: phase, VMs and message say in one line how a policy stands; a policy that is
// only planned for is no failure, and one that is refused somewhere is.
func TestPolicyAtAGlance(t *testing.T) {
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud/vms/a"))
	w.put(vm(t, "b", "db", "cloud/vms/b"))
	w.put(allowSSH(t, "p", "db", 1))
	w.settle()
	want := func(step string, phase v1beta1.NetworkPolicyPhase, vms, message string, failing bool) {
		t.Helper()
		s := get(w, &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "p"}}).Status
		if s.Phase != phase || s.VMs != vms || s.Message != message || (len(s.Conditions) > 1) != failing {
			t.Errorf("%s: %s %q %q %+v", step, s.Phase, s.VMs, s.Message, s.Conditions)
		}
	}
	want("created", "Realizing", "", "", false)
	report := func(key string, generation int64, failure bool, message string, all, realized, planned int32) {
		t.Helper()
		w.counted("uid-p", v1beta2.NetworkPolicyNodeStatus{NodeName: key, Generation: generation, RealizationFailure: failure, Message: message,
			Workloads: all, WorkloadsRealized: realized, WorkloadsPlanned: planned})
	}
	report("cloud/vms/a", 1, false, "", 2, 2, 0)
	want("one account", "Realizing", "2/2", "", false)
	report("cloud/vms/b", 1, true, "planned on 3 VMs: 3 would be enforced", 3, 0, 3)
	want("planned in the other", "Planned", "2/5", "planned on 3 VMs: 3 would be enforced", false)
	report("cloud/vms/b", 1, true, "refused on 1 of 3 VMs: needs 73 rules", 3, 2, 0)
	want("refused", "Failed", "4/5", "refused on 1 of 3 VMs: needs 73 rules", true)
	w.counted("uid-p", v1beta2.NetworkPolicyNodeStatus{NodeName: "cloud/vms/b", Generation: 1, RealizationFailure: true, Message: "not enforced on 3 of 3 VMs: 3 in mode break-glass",
		Workloads: 3, WorkloadsSuspended: 3})
	want("released in an emergency in the other", "Suspended", "2/5", "not enforced on 3 of 3 VMs: 3 in mode break-glass", false)
	w.counted("uid-p", v1beta2.NetworkPolicyNodeStatus{NodeName: "cloud/vms/b", Generation: 1, RealizationFailure: true, Message: "refused on 1 of 3 VMs: needs 73 rules",
		Workloads: 3, WorkloadsSuspended: 2})
	want("and refused on another VM", "Failed", "2/5", "refused on 1 of 3 VMs: needs 73 rules", true)
	report("cloud/vms/b", 1, true, "refused on 1 of 3 VMs: needs 73 rules", 3, 2, 0)
	report("cloud/vms/a", 1, true, "refused on 1 of 2 VMs: needs 99 rules", 2, 1, 0)
	want("refused twice", "Failed", "3/5", "vms/a: refused on 1 of 2 VMs: needs 99 rules; vms/b: refused on 1 of 3 VMs: needs 73 rules", true)
	report("cloud/vms/a", 1, false, "", 2, 2, 0)
	report("cloud/vms/b", 1, false, "", 3, 3, 0)
	want("enforced", "Realized", "5/5", "", false)
	w.put(allowSSH(t, "p", "db", 2))
	w.settle()
	want("changed", "Realizing", "0/5", "", false)
	w.remove(vm(t, "b", "db", "cloud/vms/b"))
	w.settle()
	report("cloud/vms/a", 2, false, "", 2, 2, 0)
	want("one account left", "Realized", "2/2", "", false)
}

// TestReportsWithStrangeNumbers: what an enforcer says of its own numbers makes no other phase than
// one it could have said plainly, and nothing but text of one line.
func TestReportsWithStrangeNumbers(t *testing.T) {
	w := newTestWorld(t)
	w.put(vm(t, "a", "db", "cloud/vms/a"))
	w.put(allowSSH(t, "p", "db", 1))
	w.settle()
	for name, n := range map[string]v1beta2.NetworkPolicyNodeStatus{
		"more planned than there are": {Workloads: 1, WorkloadsPlanned: math.MaxInt32},
		"less than none":              {Workloads: 1, WorkloadsRealized: -2, WorkloadsPlanned: 3},
		"all negative":                {Workloads: -1, WorkloadsRealized: -1, WorkloadsPlanned: -1},
	} {
		n.NodeName, n.Generation, n.RealizationFailure, n.Message = "cloud/vms/a", 1, true, "no\n\x1b[2Jroom"+strings.Repeat(" at all", 100)
		w.counted("uid-p", n)
		s := get(w, &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "p"}}).Status
		if s.Phase != v1beta1.NetworkPolicyFailed || strings.HasPrefix(s.VMs, "-") || len(s.Message) > maxShown || !strings.HasPrefix(s.Message, "no [2Jroom at all") {
			t.Errorf("%s: %s %q %q", name, s.Phase, s.VMs, s.Message)
		}
	}
}
