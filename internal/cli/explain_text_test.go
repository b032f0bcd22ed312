package cli

import (
	"testing"

	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/policy"
)

// TestHiddenIsSaid: where somebody decides whom the caller may not see, nobody says that only the
// enforcer knows.
func TestHiddenIsSaid(t *testing.T) {
	d := &explain.Decision{Outcome: policy.OutcomeUnknown, Possible: []policy.Outcome{policy.OutcomeAllow, policy.OutcomeDrop}, Uncertain: []explain.Rule{{DependsOn: []string{explain.DependsOnUnseen}}}}
	if got, want := reason(d, explain.End{Title: "10.0.0.1"}), "it depends on members that you may not see: Allow or Drop"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
