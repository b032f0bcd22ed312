package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// wordForWord is an account in which a VM keeps the rules of a policy whose next version does not
// fit, and has no room for one more than so many, while the class of its peers is divided by
// another policy.
func wordForWord(room int) *estate {
	e := small()
	e.VMs = append(e.VMs, vmSpec{Selected: true})
	e.NICs = append(e.NICs, nicSpec{Net: 0, VM: 3, IPs: []string{"10.0.0.20"}, Groups: []int{3}})
	rule := func(address []int, blocks ...string) ruleSpec {
		out := ruleSpec{Action: v1beta2.RuleActionAllow, Address: address, Services: []serviceSpec{{Protocol: "TCP", From: 80, To: 80, Type: -1}}}
		for _, b := range blocks {
			out.Blocks = append(out.Blocks, blockSpec{CIDR: b})
		}
		return out
	}
	var blocks []string
	for i := range room + 2 {
		blocks = append(blocks, fmt.Sprintf("198.%d.%d.0/24", i/100, i%100*2))
	}
	first := policySpec{Tier: 250, Priority: 1, Applied: []int{0}, Rules: []ruleSpec{rule([]int{0}, blocks[:room-1]...)}}
	next := policySpec{Tier: 250, Priority: 1, Applied: []int{0}, Rules: []ruleSpec{rule([]int{0}, blocks...)}}
	other := policySpec{Tier: 250, Priority: 2, Applied: []int{1}, Rules: []ruleSpec{rule([]int{1})}}
	groups := policySet{Address: [][]int{{1, 2}, {1}}, Applied: [][]int{{0}, {3}}}
	before, after := groups.clone(), groups.clone()
	before.Policies, after.Policies = []policySpec{first}, []policySpec{next, other}
	e.History = []policySet{before, after}
	return e
}

// A peer cannot leave a group that kept rules name as long as that cuts it off: with a free slot it
// joins its new group besides, and without one it stays where it is. Both is said. Five slots of 60
// rules are the default of AWS.
func TestKeptRulesWhosePeersMove(t *testing.T) {
	for slots, moves := range map[int]bool{5: true, 3: true, 2: false} {
		perGroup := map[int]int{5: 60, 3: 2, 2: 3}[slots]
		e := wordForWord(slots * perGroup)
		e.Limits.RulesPerGroup, e.Limits.GroupsPerInterface = perGroup, slots
		f := e.cloud()
		settle(t, e, f, nil)
		e.History = e.History[1:]
		res := settle(t, e, f, nil)
		if !slices.ContainsFunc(res.Refusals, func(r plan.Refusal) bool { return r.Kept && r.VM.ID == vmID(0) }) {
			t.Fatalf("%d slots: %v", slots, res.Refusals)
		}
		for i := 1; i <= 2; i++ {
			if !admits(f, 0, e.NICs[i].IPs[0], nicID(i), 80) {
				t.Errorf("%d slots: %s is not admitted: %q", slots, e.NICs[i].IPs[0], ourRules(f, 0))
			}
		}
		if got := admits(f, 3, e.NICs[1].IPs[0], nicID(1), 80); got != moves || admits(f, 3, e.NICs[2].IPs[0], nicID(2), 80) {
			t.Errorf("%d slots: the other policy admits its peer: %v, or somebody else: %q", slots, got, ourRules(f, 3))
		}
		if !slices.ContainsFunc(res.Refusals, func(r plan.Refusal) bool { return r.Kept && r.VM.ID == vmID(1) }) {
			t.Errorf("%d slots: nobody says that it does not leave its group: %+v", slots, res.Refusals)
		}
	}
}
