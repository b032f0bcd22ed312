package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// another is a policy for the first VM that allows a port from a block of addresses.
func another(e *estate, port int32) func(*plan.Input) {
	p := policySpec{Tier: 250, Priority: 1, Applied: []int{0}, Rules: []ruleSpec{{
		Action: "Allow", Blocks: []blockSpec{{CIDR: "198.51.100.0/24"}}, Services: []serviceSpec{{Protocol: "TCP", From: port, To: port, Type: -1}},
	}}}
	return func(in *plan.Input) { in.Policies = append(in.Policies, e.policy(&p, 1)) }
}

func both(a, b func(*plan.Input)) func(*plan.Input) {
	return func(in *plan.Input) { a(in); b(in) }
}

// TestNeverInForce: a policy that does not fit and never was in force is left out, and others
// change as they like beside it, though nothing but the cloud tells what was in force.
func TestNeverInForce(t *testing.T) {
	e := small()
	f := e.cloud()
	rest := e.History[0].Policies
	e.History[0].Policies = nil
	settle(t, e, f, another(e, 443))
	e.History[0].Policies = rest
	res := settle(t, e, f, both(manyBlocks(400), another(e, 444)))
	if len(res.Refusals) != 1 || res.Refusals[0].Kept {
		t.Errorf("%+v", res.Refusals)
	}
	if !admits(f, 0, "198.51.100.9", "", 444) || admits(f, 0, "198.51.100.9", "", 443) || admits(f, 0, "10.0.0.11", nicID(1), 80) {
		t.Error("the policy that fits is not in force, or the one that does not fit is")
	}
}

// TestInForceEarlier: what was in force stays so in its last form, whatever else changes, and from
// then on as well.
func TestInForceEarlier(t *testing.T) {
	e := small()
	f := e.cloud()
	settle(t, e, f, another(e, 443))
	before := shape(f)
	for range 3 {
		res := settle(t, e, f, both(manyBlocks(400), another(e, 444)))
		if len(res.Refusals) != 1 || !res.Refusals[0].Kept || fmt.Sprint(shape(f)) != fmt.Sprint(before) {
			t.Fatalf("%+v\n%v\n%v", res.Refusals, shape(f), before)
		}
	}
	// Groups that do not tell, because somebody removed the tag, count as if everything had been in
	// force.
	g := f.group(f.nic(nicID(0)).GroupIDs[0])
	told := g.Tags[cloud.TagPolicies]
	if len(told) != 16 {
		t.Fatalf("it remembers %q", told)
	}
	for _, change := range []func(){func() { delete(g.Tags, cloud.TagPolicies) }, func() { g.Tags[cloud.TagPolicies] = told[:13] }} {
		change()
		if res := settle(t, e, f, both(manyBlocks(400), another(e, 444))); !res.Refusals[0].Kept || fmt.Sprint(shape(f)) != fmt.Sprint(before) {
			t.Errorf("%+v\n%v\n%v", res.Refusals, shape(f), before)
		}
	}
	settle(t, e, f, another(e, 443))
	if got := f.group(f.nic(nicID(0)).GroupIDs[0]).Tags[cloud.TagPolicies]; got != told {
		t.Errorf("it remembers %q, not %q", got, told)
	}
}

// TestRememberMany: more policies than a tag value can name are remembered in further ones, which
// go when they are needed no more.
func TestRememberMany(t *testing.T) {
	e := small()
	f := e.cloud()
	of := func(n int) func(*plan.Input) {
		return func(in *plan.Input) {
			for i := range n {
				p := *in.Policies[0]
				p.Name, p.UID = fmt.Sprintf("more-%d", i), types.UID(fmt.Sprintf("more-%d", i))
				in.Policies = append(in.Policies, &p)
			}
		}
	}
	for _, c := range []struct{ policies, tags int }{{70, 3}, {30, 1}, {31, 2}, {30, 1}, {40, 2}, {600, 0}, {0, 1}} {
		settle(t, e, f, of(c.policies))
		n := 0
		for key := range f.group(f.nic(nicID(0)).GroupIDs[0]).Tags {
			if strings.HasPrefix(key, cloud.TagPolicies) {
				n++
			}
		}
		if n != c.tags {
			t.Errorf("%d more policies are remembered in %d tags, want %d", c.policies, n, c.tags)
		}
	}
	if res := plan.Compute(e.input(e.History[0], f), lower.AWS{}); !res.Plan.Empty() {
		t.Errorf("something is left to do: %v", res.Plan.Steps)
	}
}
