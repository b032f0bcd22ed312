package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// wordForWord is an account in which a VM keeps the rules of a policy whose next version does not fit, and has no room for one more, while the
// class of its peers is divided by another policy.
func wordForWord() *estate {
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
	for i := range 8 {
		blocks = append(blocks, fmt.Sprintf("198.51.%d.0/24", 2*i))
	}
	first := policySpec{Tier: 250, Priority: 1, Applied: []int{0}, Rules: []ruleSpec{rule([]int{0}, blocks[:5]...)}}
	next := policySpec{Tier: 250, Priority: 1, Applied: []int{0}, Rules: []ruleSpec{rule([]int{0}, blocks...)}}
	other := policySpec{Tier: 250, Priority: 2, Applied: []int{1}, Rules: []ruleSpec{rule([]int{1})}}
	groups := policySet{Address: [][]int{{1, 2}, {1}}, Applied: [][]int{{0}, {3}}}
	before, after := groups.clone(), groups.clone()
	before.Policies, after.Policies = []policySpec{first}, []policySpec{next, other}
	e.History = []policySet{before, after}
	return e
}

// A peer that moves to another group stays in the one that the kept rules name as long as it has a slot for both; else a note tells what is lost.
func TestKeptRulesWhosePeersMove(t *testing.T) {
	for slots, kept := range map[int]bool{3: true, 2: false} {
		e := wordForWord()
		e.Limits.RulesPerGroup, e.Limits.GroupsPerInterface = 6/slots, slots
		f := e.cloud()
		settle(t, e, f, nil)
		e.History = e.History[1:]
		notes := plan.Compute(e.input(e.History[0], f.clone()), e.lowerer()).Notes // when it happens
		res := settle(t, e, f, nil)
		if !slices.ContainsFunc(res.Refusals, func(r plan.Refusal) bool { return r.Kept }) {
			t.Fatalf("%d slots: %v", slots, res.Refusals)
		}
		for i, want := range []bool{1: kept, 2: true} {
			if i > 0 && admits(f, 0, e.NICs[i].IPs[0], nicID(i), 80) != want {
				t.Errorf("%d slots: %s is not admitted: %q", slots, e.NICs[i].IPs[0], ourRules(f, 0))
			}
		}
		told := slices.ContainsFunc(notes, func(n plan.Note) bool {
			return n.Object == nicID(0) && strings.HasSuffix(n.Message, "no longer allows ingress tcp 80 from 10.0.0.11/32")
		})
		if told == kept {
			t.Errorf("%d slots: %v", slots, notes)
		}
		if admits(f, 3, e.NICs[2].IPs[0], nicID(2), 80) || !admits(f, 3, e.NICs[1].IPs[0], nicID(1), 80) {
			t.Errorf("%d slots: the other policy admits somebody else: %q", slots, ourRules(f, 3))
		}
	}
}
