package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// crowded is an account of so many VMs in 2^n-1 classes of which much is refused for want of room, so that later rounds are played.
func crowded(vms, n int) plan.Input {
	in, _ := bits(vms, n, fromSet)
	in.Regions[0].Limits.RulesPerGroup, in.Regions[0].Limits.GroupsPerInterface = 1<<n/6, 3
	return in
}

// TestEffortGrowsWithTheAccount counts work, which does not depend on the machine: to look ahead costs less than the first round did, because
// what does not change is not worked out again, and twice the account is not more than about twice the work.
func TestEffortGrowsWithTheAccount(t *testing.T) {
	const most = 2.6
	half := 0
	for _, vms := range []int{250, 500, 1000} {
		in := crowded(vms, 6)
		res := plan.Compute(in, lower.AWS{})
		if len(res.Refusals) == 0 || res.Plan.Empty() {
			t.Fatalf("%d VMs: %d refusals, %d steps: nothing has to be looked at", vms, len(res.Refusals), len(res.Plan.Steps))
		}
		round, all := in.Effort(lower.AWS{})
		t.Logf("%d VMs: %d for the round, %d with those to come", vms, round, all)
		if all == round || all > 2*round {
			t.Errorf("%d VMs: %d units of work for the first round and %d with those to come, which is none or more than as much again", vms, round, all)
		}
		if half > 0 && float64(all) > most*float64(half) {
			t.Errorf("%d VMs take %d units of work, half of them %d", vms, all, half)
		}
		half = all
	}
}

// TestTooMuchEffort: what takes more work than is allowed is not done at all, and says so. What is in force stays, glass is broken all the same,
// and when there is less to do it is done.
func TestTooMuchEffort(t *testing.T) {
	in := crowded(250, 6)
	round, all := in.Effort(lower.AWS{})
	for name, c := range map[string]struct {
		plan.Input
		message string
	}{
		"round": {in.Allowing(round/2, all), "for one round"},
		"ahead": {in.Allowing(round+1, (all-round)/2), "to look ahead"},
	} {
		res := plan.Compute(c.Input, lower.AWS{})
		if !res.Plan.Empty() || res.Plan.Partial {
			t.Errorf("%s: a plan of %d steps", name, len(res.Plan.Steps))
		}
		if !slices.ContainsFunc(res.Refusals, func(r plan.Refusal) bool {
			return r.Kept && r.Region == testRegion && strings.Contains(r.Message, c.message)
		}) {
			t.Errorf("%s: it is not said in %d refusals", name, len(res.Refusals))
		}
		for _, p := range res.Policies {
			if len(p.Realized)+len(p.Pending) > 0 || len(p.Failed) == 0 {
				t.Errorf("%s: policy %s is realized on %d VMs, pending on %d, failed on %d", name, p.UID, len(p.Realized), len(p.Pending), len(p.Failed))
			}
		}
		for _, vm := range res.VMs {
			if vm.Interfaces[0].State != plan.Untouched {
				t.Fatalf("%s: %+v", name, vm)
			}
		}
	}
	if res := plan.Compute(in.Allowing(round+1, all), lower.AWS{}); res.Plan.Empty() {
		t.Error("enough work is allowed, but there is no plan")
	}
}

// TestTooMuchEffortLater: the same with interfaces under control, of which one is to be given back at once.
func TestTooMuchEffortLater(t *testing.T) {
	e := small()
	f := e.cloud()
	settle(t, e, f, nil)
	e.History[0].Policies[0].Rules[0].Services[0].From, e.History[0].Policies[0].Rules[0].Services[0].To = 443, 443
	in := e.input(e.History[0], f)
	res := plan.Compute(in.Allowing(1, 1), lower.AWS{})
	if !res.Plan.Empty() || len(res.Policies[0].Failed) == 0 || res.VMs[0].Interfaces[0].State != plan.Guarded {
		t.Errorf("%d steps, %+v, %+v", len(res.Plan.Steps), res.Policies[0], res.VMs[0])
	}
	modes(plan.BreakGlass, 0)(&in)
	res = plan.Compute(in.Allowing(1, 1), lower.AWS{})
	if len(res.Plan.Steps) != 1 || res.Plan.Steps[0].Op.Kind != cloud.OpSetInterfaceGroups || res.VMs[0].Interfaces[0].State != plan.Untouched {
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
