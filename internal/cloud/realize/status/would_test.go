package status

import (
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// rounds are rounds of planning: the first leaves all to be done that the second says is done.
func rounds(policies []plan.PolicyStatus) []*plan.Result {
	first := slices.Clone(policies)
	for i := range first {
		first[i].Failed, first[i].Pending = nil, append(slices.Clone(first[i].Pending), vmsOf(first[i].Failed)...)
	}
	last := slices.Clone(policies)
	for i := range last {
		last[i].Pending, last[i].Realized = nil, append(slices.Clone(last[i].Pending), last[i].Realized...)
	}
	return []*plan.Result{{Policies: first}, {Policies: last}}
}

func vmsOf(failed []plan.FailedVM) (out []plan.VMRef) {
	for _, f := range failed {
		out = append(out, f.VM)
	}
	return out
}

// TestPlannedIsToldWithItsOutcome: of VMs in mode plan a report says on how many a policy would be
// enforced and where it would be refused, and counts them apart, so that a controller that knows
// the numbers does not take it for a failure.
func TestPlannedIsToldWithItsOutcome(t *testing.T) {
	t.Parallel()
	vm := func(id string) plan.VMRef { return plan.VMRef{Region: home, ID: id} }
	ref := onVM("a", 2, false, "").PolicyRef
	one, two, three := vm("i-1"), vm("i-2"), vm("i-3")
	modes := map[plan.VMRef]plan.Mode{one: plan.Planned, two: plan.Planned, three: plan.Planned}
	suspended := plan.PolicyStatus{PolicyRef: ref, Suspended: []plan.VMRef{one, two, three}}
	for name, c := range map[string]struct {
		is       plan.PolicyStatus
		would    []*plan.Result
		message  string
		realized int32
	}{
		"all":      {suspended, rounds([]plan.PolicyStatus{{PolicyRef: ref, Pending: []plan.VMRef{one, two}, Realized: []plan.VMRef{three}}}), "planned on 3 VMs: 3 would be enforced", 0},
		"one not":  {suspended, rounds([]plan.PolicyStatus{{PolicyRef: ref, Pending: []plan.VMRef{one, two}, Failed: []plan.FailedVM{{VM: three, Message: "needs 73 rules"}}}}), "planned on 3 VMs: 2 would be enforced, 1 refused: needs 73 rules", 0},
		"unknown":  {suspended, nil, "planned on 3 VMs, nothing is written", 0},
		"enforced": {plan.PolicyStatus{PolicyRef: ref, Realized: []plan.VMRef{vm("i-9")}, Suspended: []plan.VMRef{one, two, three}}, rounds([]plan.PolicyStatus{{PolicyRef: ref, Pending: []plan.VMRef{one, two, three}, Realized: []plan.VMRef{vm("i-9")}}}), "planned on 3 VMs: 3 would be enforced", 1},
	} {
		r := Report{EnforcerKey: "cloud/vms/shop", Would: c.would}
		node, known := nodeStatus(r, c.is, modes, nil, wouldBe(r, modes)[ref.UID])
		if !known || node.Message != c.message || node.WorkloadsPlanned != 3 || node.WorkloadsRealized != c.realized || node.Workloads != 3+c.realized || !node.RealizationFailure {
			t.Errorf("%s: %+v", name, node)
		}
	}
}
