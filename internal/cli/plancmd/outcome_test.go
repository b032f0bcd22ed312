package plancmd

import (
	"errors"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
)

// TestOutcome: the exit code says whether anything is to be done or is refused; an account that
// cannot be read is a failure, whatever is planned for the others.
func TestOutcome(t *testing.T) {
	steps := analysis.PlanDocument{Steps: []analysis.PlanStep{{Kind: "CreateGroup"}}}
	for name, c := range map[string]struct {
		accounts []analysis.AccountPlan
		want     error
	}{
		"nothing": {[]analysis.AccountPlan{{Account: "vms/a"}}, nil},
		"steps":   {[]analysis.AccountPlan{{Account: "vms/a", Plan: steps}}, terminal.ErrNo},
		"tags":    {[]analysis.AccountPlan{{Account: "vms/a", Plan: steps, TagsOnly: true}}, nil},
		"refused": {[]analysis.AccountPlan{{Account: "vms/a", Refusals: []analysis.PlanRefusal{{Message: "no"}}}}, terminal.ErrNo},
	} {
		if err := outcomeOf(analysis.PlanAnswer{Accounts: c.accounts}, strictness{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	half := analysis.PlanAnswer{Accounts: []analysis.AccountPlan{{Account: "vms/a", Plan: steps}, {Account: "vms/b", Error: "the keys are refused"}}}
	if err := outcomeOf(half, strictness{}); err == nil || errors.Is(err, terminal.ErrNo) || !strings.Contains(err.Error(), "account vms/b: the keys are refused") {
		t.Errorf("an account that cannot be read: %v", err)
	}
}
