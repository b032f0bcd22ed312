package plan_test

import (
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestBreakGlassIsUrgentOnEveryPath: whichever way a plan was made, what gives back interfaces
// whose glass is broken is urgent, so that no limit makes it wait: a whole plan, one that was cut
// short because the design takes too much work, and one cut short because to find an order does.
func TestBreakGlassIsUrgentOnEveryPath(t *testing.T) {
	e := small()
	f := e.cloud()
	settle(t, e, f, nil)
	e.History[0].Policies[0].Rules[0].Services[0].From, e.History[0].Policies[0].Rules[0].Services[0].To = 443, 443
	in := e.input(e.History[0], f)
	modes(plan.BreakGlass, 0, 1)(&in)
	held := 0
	for i := range f.snap.Interfaces {
		if plan.Former(&f.snap.Interfaces[i]) != nil || len(f.snap.Interfaces[i].GroupIDs) > 1 {
			held++
		}
	}
	if held < 2 {
		t.Fatalf("%d interfaces hold something of ours; a wave of 1 would hold nothing up", held)
	}
	all := plan.Effort(in, lower.AWS{})
	for name, allowed := range map[string]int{"whole": all, "no design": 1, "no order": all - 1} {
		urgent, rest := plan.ComputeWithin(in, lower.AWS{}, allowed).Plan.Urgent()
		freed := map[string]bool{}
		for _, s := range urgent.Steps {
			if s.Op.Kind != cloud.OpSetInterfaceGroups {
				t.Errorf("%s: %s is urgent", name, s.Op)
			}
			freed[s.Op.Target] = true
		}
		if len(freed) != held || !freed[nicID(0)] {
			t.Errorf("%s: urgent is what gives back %v, and %d interfaces hold something; the rest is %+v", name, freed, held, rest.Steps)
		}
	}
}

// TestOneGlassIsBroken: a VM that is released in the usual order is not hurried by another one of
// its class whose glass is broken.
func TestOneGlassIsBroken(t *testing.T) {
	e := small()
	e.NICs[1].Groups = []int{1}
	e.History[0].Applied[0], e.History[0].Address[0] = []int{0, 1}, []int{2}
	f := e.cloud()
	settle(t, e, f, nil)
	if !slices.Equal(f.nic(nicID(0)).GroupIDs, f.nic(nicID(1)).GroupIDs) {
		t.Fatal("the VMs are of different classes")
	}
	in := e.input(e.History[0], f)
	in.Modes = map[plan.VMRef]plan.Mode{{Region: testRegion, ID: vmID(0)}: plan.BreakGlass, {Region: testRegion, ID: vmID(1)}: plan.Released}
	urgent, _ := plan.Compute(in, lower.AWS{}).Plan.Urgent()
	if len(urgent.Steps) != 1 || urgent.Steps[0].Op.Target != nicID(0) {
		t.Errorf("urgent is %+v", urgent.Steps)
	}
}
