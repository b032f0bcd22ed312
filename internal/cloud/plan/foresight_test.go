package plan

import (
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
)

// TestStandStill: a plan that later rounds would undo for ever is not made, and says so of every interface.
func TestStandStill(t *testing.T) {
	set := Step{Scope: cloud.Scope{Region: "r"}, Op: cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: "eni-1"}}
	rules := Step{Scope: cloud.Scope{Region: "r"}, Op: cloud.Op{Kind: cloud.OpAddRules, Target: "sg-1"}}
	out := (&Result{Plan: Plan{Steps: []Step{rules, set, set}, Partial: true}}).standStill()
	if !out.Plan.Empty() || out.Plan.Partial || len(out.Notes) != 1 || out.Notes[0].Object != "eni-1" {
		t.Errorf("%+v", out)
	}
}
