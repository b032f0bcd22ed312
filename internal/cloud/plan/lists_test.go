package plan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// longLists is an account of so many VMs, which are all selected by policies that admit 250 blocks
// each for a range of ports.
func longLists(vms, policies int) (plan.Input, *fakeCloud) {
	r := rand.New(rand.NewPCG(3, 3))
	in, f := labelledInput(vms, 1, func(int, int) bool { return true })
	for k := range policies {
		rule := ruleSpec{Action: "Allow"}
		for range 250 {
			bits := []int{12, 16, 20, 24, 32}[r.IntN(5)]
			rule.Blocks = append(rule.Blocks, blockSpec{CIDR: fmt.Sprintf("%d.%d.%d.%d/%d", 11+r.IntN(180), r.IntN(256), r.IntN(256), r.IntN(256), bits)})
		}
		from := int32(1 + r.IntN(60000))
		rule.Services = []serviceSpec{{Protocol: "TCP", From: from, To: from + int32(r.IntN(5000)), Type: -1}}
		e := estate{}
		in.Policies = append(in.Policies, e.policy(&policySpec{Tier: 250, Priority: float64(k), Applied: []int{0}, Rules: []ruleSpec{rule}}, k))
	}
	return in, f
}

// Long lists are refused policy by policy; the policies of the highest precedence that fit are
// realized, by an amount of work that grows with the lists and not with their square: Stop is asked
// once for every part of it.
func TestLongListsAreRefusedQuickly(t *testing.T) {
	t.Parallel()
	work := map[int]int{}
	for _, policies := range []int{5, 10, 20} {
		in, f := longLists(1, policies)
		in.Stop = func() bool { work[policies]++; return false }
		res := plan.Compute(in, lower.AWS{})
		in.Stop = nil
		settleBig(t, &in, f)
		if len(res.Refusals) != policies-1 {
			t.Fatalf("%d policies: %d refusals", policies, len(res.Refusals))
		}
		for _, x := range res.Refusals {
			if x.Policy.Name == "p0" || x.Lack == nil || x.Lack.Direction != "ingress" || x.Lack.Family != "IPv4" {
				t.Errorf("%+v", x)
			}
		}
	}
	if work[10] > 5*work[5]/2 || work[20] > 5*work[10]/2 {
		t.Errorf("parts of work by the number of policies: %v", work)
	}
}

// What is far too long is refused with a number that it needs at least.
func TestFarTooLongListIsRefusedWithABound(t *testing.T) {
	in, _ := labelledInput(1, 1, func(int, int) bool { return true })
	peer := ruleSpec{}
	for i := range 3000 {
		peer.Blocks = append(peer.Blocks, blockSpec{CIDR: fmt.Sprintf("20.%d.%d.0/24", i/100, 2*(i%100))})
	}
	admit(&in, 0, 80, peer)
	res := plan.Compute(in, lower.AWS{})
	if len(res.Refusals) != 1 {
		t.Fatalf("%+v", res.Refusals)
	}
	if l := res.Refusals[0].Lack; l == nil || l.Needed != 3000 || !l.AtLeast || l.Direction != "ingress" || l.Family != "IPv4" {
		t.Errorf("%+v", l)
	}
}

// A computation can be stopped at any time, and says that nothing is known then.
func TestStop(t *testing.T) {
	in, _ := longLists(2, 10)
	asked := 0
	in.Stop = func() bool { asked++; return false }
	whole := plan.Compute(in, lower.AWS{})
	if whole.Stopped || whole.Plan.Empty() || asked < 100 {
		t.Fatalf("stopped %v, %d steps, asked %d times", whole.Stopped, len(whole.Plan.Steps), asked)
	}
	for _, at := range []int{0, 1, asked / 2, asked - 1} {
		left := at
		in.Stop = func() bool { left--; return left < 0 }
		if res := plan.Compute(in, lower.AWS{}); !res.Stopped || len(res.Plan.Steps)+len(res.VMs)+len(res.Policies)+len(res.Refusals) > 0 {
			t.Errorf("stopped when asked for the time %d: %+v", at, res)
		}
	}
}
