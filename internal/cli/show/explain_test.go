package show

import (
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain"
)

// TestHiddenIsSaid: where somebody decides whom the caller may not see, nobody says that only the
// enforcer knows.
func TestHiddenIsSaid(t *testing.T) {
	d := &analysis.Decision{Outcome: "Unknown", Possible: []string{"Allow", "Drop"}, Uncertain: []analysis.Rule{{DependsOn: []string{explain.DependsOnUnseen}}}}
	if got, want := reason(d, analysis.End{Title: "10.0.0.1"}), "it depends on members that you may not see: Allow or Drop"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
