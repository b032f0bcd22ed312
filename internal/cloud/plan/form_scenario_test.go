package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// crowd is an account of so many VMs, each in a class of its own, with small quotas: the first VM may have fewer rules than it has peers.
// isMember tells who is in the last set, which the first VM shall admit.
func crowd(vms, rulesPerGroup int, isMember func(vm int) bool) (plan.Input, *fakeCloud) {
	in, f := labelledInput(vms, vms+1, func(vm, k int) bool { return vm == k || k == vms && isMember(vm) })
	for k := range vms {
		admit(&in, k, 1000+k, ruleSpec{Address: []int{(k + 1) % vms}})
	}
	f.limits.RulesPerGroup = rulesPerGroup
	in.Regions[0].Limits = f.limits
	return in, f
}

// checkAdmits compares what the first VM admits at port 5000 with the members, VM by VM.
func checkAdmits(t *testing.T, in plan.Input, isMember func(vm int) bool) {
	t.Helper()
	f := &fakeCloud{snap: in.Regions[0].Snapshot, limits: in.Regions[0].Limits}
	pr := f.prober()
	for i, n := range f.snap.Interfaces {
		got := pr.half(f.snap.Interfaces[0].ID, cloud.Ingress, remote{n.PrivateIPs[0], n.ID}, packet{cloud.TCP, 5000})
		if got != isMember(i) {
			t.Fatalf("VM %d is a member: %v, admitted: %v", i, isMember(i), got)
		}
	}
}

func next(in plan.Input, limits cloud.Limits, at int) *fakeCloud {
	return &fakeCloud{snap: in.Regions[0].Snapshot, limits: limits, next: at}
}

// Many neighbours are named by blocks of addresses if references to all of their classes do not fit; a class that lies scattered goes on being
// referred to. No interface is touched for it.
func TestManyPeersBecomeBlocks(t *testing.T) {
	const vms = 120
	isMember := func(vm int) bool { return vm < 100 || vm%8 == 0 }
	in, f := crowd(vms, 10, isMember)
	settleBig(t, &in, f)
	admit(&in, 0, 5000, ruleSpec{Address: []int{vms}})
	summaries := settleBig(t, &in, next(in, f.limits, 1000))
	if res := plan.Compute(in, lower.AWS{}); len(res.Refusals) > 0 {
		t.Fatalf("refused: %+v", res.Refusals[0])
	}
	edits, rules := 0, 0
	for _, s := range summaries {
		edits, rules = edits+s.InterfaceEdits, rules+s.RulesAdded
	}
	if edits != 0 || rules > 12 {
		t.Errorf("%d edits of interfaces and %d rules for 102 peers: %v", edits, rules, summaries)
	}
	checkAdmits(t, in, isMember)
}

// What fits in no form is refused with the number of rules of the shortest one.
func TestManyScatteredPeersAreRefused(t *testing.T) {
	const vms = 120
	in, f := crowd(vms, 10, func(vm int) bool { return vm%2 == 0 })
	settleBig(t, &in, f)
	admit(&in, 0, 5000, ruleSpec{Address: []int{vms}})
	res := plan.Compute(in, lower.AWS{})
	if len(res.Refusals) != 1 || !strings.Contains(res.Refusals[0].Message, "needs 61 ingress rules for IPv4") || !strings.Contains(res.Refusals[0].Message, "a quota of 13 ") {
		t.Errorf("%+v", res.Refusals)
	}
	if !slices.ContainsFunc(res.VMs, func(vm plan.VMStatus) bool { return vm.VM.ID == fmt.Sprintf("i-%05d", 0) }) {
		t.Error("no status of the VM")
	}
}
