package cli

import (
	"testing"

	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/policy"
)

// TestHiddenIsSaid: of an end that the caller may not see nobody says that no policy decides there.
func TestHiddenIsSaid(t *testing.T) {
	d := &explain.Decision{Outcome: policy.OutcomeAllow, Default: explain.DefaultHidden}
	for _, at := range []explain.End{{Hidden: true, Title: "10.0.0.1"}, {Hidden: true, Enforcer: "cloud/a/b"}} {
		if got, want := reason(d, at), "you may not see what decides there; it counts as open"; got != want {
			t.Errorf("%+v: %q, want %q", at, got, want)
		}
	}
}
