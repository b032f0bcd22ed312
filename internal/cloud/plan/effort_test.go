package plan_test

import (
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// crowded is an account of so many VMs in 2^n-1 classes of which much is refused for want of room.
func crowded(vms, n int) plan.Input {
	in, _ := bits(vms, n, fromSet)
	in.Regions[0].Limits.RulesPerGroup, in.Regions[0].Limits.GroupsPerInterface = 1<<n/6, 3
	return in
}

// TestEffortGrowsWithTheAccount counts work, which does not depend on the machine: twice the
// account is not more than about twice the work.
func TestEffortGrowsWithTheAccount(t *testing.T) {
	const most = 2.6
	half := 0
	for _, vms := range []int{250, 500, 1000} {
		in := crowded(vms, 6)
		all := plan.Effort(in, lower.AWS{})
		if half > 0 && float64(all) > most*float64(half) {
			t.Errorf("%d VMs take %d units of work, half of them %d", vms, all, half)
		}
		half = all
	}
}

// TestTooMuchEffort: what takes more work than is allowed is not done at all, and says so.
func TestTooMuchEffort(t *testing.T) {
	in := crowded(250, 6)
	all := plan.Effort(in, lower.AWS{})
	res := plan.ComputeWithin(in, lower.AWS{}, all/2)
	if !res.Plan.Empty() || res.Plan.Partial {
		t.Errorf("a plan of %d steps", len(res.Plan.Steps))
	}
	if !slices.ContainsFunc(res.Refusals, func(r plan.Refusal) bool {
		return r.Kept && r.Region == testRegion && r.Why.Is(intent.TooMuchWork)
	}) {
		t.Errorf("it is not said in %d refusals", len(res.Refusals))
	}
	for _, p := range res.Policies {
		if len(p.Realized)+len(p.Pending) > 0 || len(p.Failed) == 0 {
			t.Errorf("policy %s is realized on %d VMs, pending on %d, failed on %d", p.UID, len(p.Realized), len(p.Pending), len(p.Failed))
		}
	}
	for _, vm := range res.VMs {
		if vm.Interfaces[0].State != guard.Untouched {
			t.Fatalf("%+v", vm)
		}
	}
	if res := plan.ComputeWithin(in, lower.AWS{}, all+1); res.Plan.Empty() {
		t.Error("enough work is allowed, but there is no plan")
	}
}

// TestTooMuchEffortLater: the same with interfaces under control, of which one is to be given back
// at once.
func TestTooMuchEffortLater(t *testing.T) {
	e := small()
	f := e.cloud()
	settle(t, e, f, nil)
	e.History[0].Policies[0].Rules[0].Services[0].From, e.History[0].Policies[0].Rules[0].Services[0].To = 443, 443
	in := e.input(e.History[0], f)
	res := plan.ComputeWithin(in, lower.AWS{}, 1)
	if !res.Plan.Empty() || len(res.Policies[0].Failed) == 0 || res.VMs[0].Interfaces[0].State != plan.Guarded {
		t.Errorf("%d steps, %+v, %+v", len(res.Plan.Steps), res.Policies[0], res.VMs[0])
	}
	modes(plan.BreakGlass, 0)(&in)
	res = plan.ComputeWithin(in, lower.AWS{}, 1)
	if len(res.Plan.Steps) != 1 || res.Plan.Steps[0].Op.Kind != cloud.OpSetInterfaceGroups || res.VMs[0].Interfaces[0].State != guard.Untouched {
		t.Fatalf("%+v", res.Plan.Steps)
	}
	step := res.Plan.Steps[0]
	if err := f.apply(step.Network, step.Op); err != nil {
		t.Fatal(err)
	}
	if want := e.cloud().nic(nicID(0)).GroupIDs; !slices.Equal(f.nic(nicID(0)).GroupIDs, want) {
		t.Errorf("it holds %v, its own are %v", f.nic(nicID(0)).GroupIDs, want)
	}
	settle(t, e, f, modes(plan.BreakGlass, 0)) // and all else goes on when it can
}
