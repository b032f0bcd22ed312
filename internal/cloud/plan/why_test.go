package plan_test

import (
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestStepsOfWholeGroupsSayWhy: where the rules of a group are written as one, a step that adds
// some and removes others says for which policies, and why, as two steps would.
func TestStepsOfWholeGroupsSayWhy(t *testing.T) {
	said := func(whole bool) (policies []plan.PolicyRef, why []string) {
		e := small()
		e.Limits.WholeGroups = whole
		f := e.cloud()
		settle(t, e, f, nil)
		service := &e.History[0].Policies[0].Rules[0].Services[0]
		service.From, service.To = 443, 443
		written := false
		for _, s := range plan.Compute(e.input(e.History[0], f.clone()), e.lowerer()).Plan.Steps {
			switch s.Op.Kind {
			case cloud.OpSetRules, cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpReplaceRules:
				written = written || s.Op.Kind == cloud.OpSetRules
				why = append(why, s.Op.Reason)
				policies = append(policies, s.Policies...)
			}
		}
		if written != whole {
			t.Fatalf("a group is written as one: %v", written)
		}
		return policies, why
	}
	single, _ := said(false)
	whole, why := said(true)
	if len(single) == 0 || len(whole) == 0 || whole[0] != single[0] {
		t.Errorf("for %v, and by single steps for %v", whole, single)
	}
	if !slices.Contains(why, "no longer allowed") {
		t.Errorf("%q", why)
	}
}
