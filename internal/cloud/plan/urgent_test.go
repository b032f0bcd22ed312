package plan_test

import (
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
