package plan_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/tier"
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

// TestTooMuchEffort: what takes more work than is allowed, with however few policies, is not done
// at all, and says so.
func TestTooMuchEffort(t *testing.T) {
	in := crowded(250, 6)
	all := plan.Effort(in, lower.AWS{})
	res := plan.ComputeWithin(in, lower.AWS{}, 10)
	if !res.Plan.Empty() || res.Plan.Partial {
		t.Errorf("a plan of %d steps", len(res.Plan.Steps))
	}
	if !slices.ContainsFunc(res.Refusals, func(r plan.Refusal) bool {
		return r.Kept && r.Region == testRegion && r.Why.Is(reason.TooMuchWork)
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

// tenants is an account of three namespaces: the policies of "greedy" tell 2^n-1 kinds of its VMs
// apart, "modest" has two of its own, and policies without a namespace select all VMs.
func tenants(n int) (plan.Input, *fakeCloud) {
	own := 1 << n
	in, f := labelledInput(own+20, n+3, func(vm, k int) bool {
		switch {
		case k < n:
			return vm < own && vm>>k&1 == 1
		case k < n+2:
			return vm >= own && vm%2 == k-n
		default:
			return true
		}
	})
	for k := range n + 3 {
		admit(&in, k, 1000+k, fromSet(k))
		p := in.Policies[k]
		ref := *p.SourceRef
		switch {
		case k < n:
			ref.Namespace = "greedy"
		case k < n+2:
			ref.Namespace = "modest"
		default:
			ref.Type, ref.Namespace = v1beta2.AntreaClusterNetworkPolicy, ""
		}
		p.SourceRef = &ref
	}
	return in, f
}

// TestWorkOfOneTenant: a tenant that distinguishes so many kinds of VMs that a plan takes too much
// work has policies refused, those that come last first; nobody else notices. What is refused is
// the same in every round, and what is in force is not given up for it.
func TestWorkOfOneTenant(t *testing.T) {
	const n = 6
	in, f := tenants(n)
	allowance := plan.Effort(in, lower.AWS{}) * 2 / 5
	var refused []string
	round := func() *plan.Result {
		t.Helper()
		in.Regions[0].Snapshot = f.clone().snap
		res := plan.ComputeWithin(in, lower.AWS{}, allowance)
		var now []string
		for _, p := range res.Policies {
			heavy := slices.ContainsFunc(p.Failed, func(v plan.FailedVM) bool { return v.Why.Is(reason.TooManyKinds) })
			switch {
			case p.Namespace != "greedy" && len(p.Failed) > 0:
				t.Errorf("policy %s of %q is refused: %s", p.Name, p.Namespace, p.Failed[0].Message)
			case heavy:
				now = append(now, p.Name)
				if m := p.Failed[0].Message; !strings.Contains(m, "the policies of namespace greedy tell 63 kinds of VMs apart") {
					t.Error(m)
				}
			}
		}
		if refused == nil {
			refused = now
		}
		if len(now) == 0 || len(now) == n || !slices.Equal(now, refused) {
			t.Fatalf("refused are %v, and were %v", now, refused)
		}
		return res
	}
	for i := 0; ; i++ {
		res := round()
		if res.Plan.Empty() {
			for _, p := range res.Policies {
				if p.Namespace != "greedy" && len(p.Realized) == 0 {
					t.Errorf("policy %s of %q is in force nowhere", p.Name, p.Namespace)
				}
			}
			break
		}
		if i == 20 {
			t.Fatal("no end")
		}
		for _, s := range res.Plan.Steps {
			if err := f.apply(s.Network, s.Op); err != nil {
				t.Fatal(s.Op, err)
			}
		}
	}
	// The last in the order of precedence are refused.
	for _, p := range in.Policies[n-len(refused) : n] {
		if !slices.Contains(refused, p.SourceRef.Name) {
			t.Errorf("%s is not refused, but %v", p.SourceRef.Name, refused)
		}
	}
	// One more policy of that tenant, before all in the order, for which there is no room, either:
	// it came last, and nothing that is in force goes for it.
	held := len(f.snap.Groups)
	admit(&in, n-2, 2000, fromSet(n-2))
	more := in.Policies[len(in.Policies)-1]
	ref := *more.SourceRef
	ref.Namespace = "greedy"
	more.SourceRef, more.Priority = &ref, ptr.To(1.0)
	refused = nil
	res := round()
	if !slices.Contains(refused, ref.Name) || len(f.snap.Groups) != held {
		t.Errorf("refused are %v", refused)
	}
	for _, s := range res.Plan.Steps {
		if s.Op.Kind != cloud.OpTag || s.Op.Target != s.Network { // which policies there are now
			t.Errorf("%s", s.Op)
		}
	}
}

// TestWorkOfManyNamespaces: kinds of VMs that are told apart in many namespaces, none of which
// stands out, do not take everybody's plan away either.
func TestWorkOfManyNamespaces(t *testing.T) {
	const n, own, spaces = 5, 1 << 5, 6
	in, _ := labelledInput(spaces*own+20, spaces*n+2, func(vm, k int) bool {
		if k < spaces*n {
			return vm/own == k/n && vm>>(k%n)&1 == 1
		}
		return vm >= spaces*own && vm%2 == k-spaces*n
	})
	for k := range spaces*n + 2 {
		admit(&in, k, 1000+k, fromSet(k))
		ref := *in.Policies[k].SourceRef
		ref.Namespace = "modest"
		if k < spaces*n {
			ref.Namespace = "greedy-" + strconv.Itoa(k/n)
		}
		in.Policies[k].SourceRef = &ref
	}
	res := plan.ComputeWithin(in, lower.AWS{}, plan.Effort(in, lower.AWS{})/4)
	if slices.ContainsFunc(res.Refusals, func(r plan.Refusal) bool { return r.Why.Is(reason.TooMuchWork) }) {
		t.Fatal("nothing is planned")
	}
	refused := map[string]int{}
	for _, p := range res.Policies {
		if len(p.Failed) > 0 {
			refused[p.Namespace]++
		} else if len(p.Pending) == 0 {
			t.Errorf("policy %s of %q is not planned", p.Name, p.Namespace)
		}
	}
	if len(refused) != spaces || refused["modest"] > 0 {
		t.Errorf("refused are policies of %v", refused)
	}
}

// TestDefaultQuotasAreNotEnough: with the quotas of a new AWS account and the work that is allowed
// by default, eleven policies of one tenant took everybody's plan away.
func TestDefaultQuotasAreNotEnough(t *testing.T) {
	tier.OnlyLong(t, "it takes a minute; TestWorkOfOneTenant shows the same with less work allowed")
	in, _ := tenants(11)
	res := plan.Compute(in, lower.AWS{})
	for _, p := range res.Policies {
		if p.Namespace == "modest" && (len(p.Failed) > 0 || len(p.Pending) == 0) {
			t.Errorf("%s: pending on %d VMs, %d failed", p.Name, len(p.Pending), len(p.Failed))
		}
	}
	if slices.ContainsFunc(res.Refusals, func(r plan.Refusal) bool { return r.Why.Is(reason.TooMuchWork) }) {
		t.Error("nothing is planned")
	}
}
