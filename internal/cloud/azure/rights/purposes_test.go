package rights

import (
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/config/azure"
)

// TestPurposes: each action of the published role has a purpose, and everything that a purpose
// names is in the role.
func TestPurposes(t *testing.T) {
	actions, err := Actions(azure.Role())
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, a := range actions {
		known := slices.ContainsFunc(Purposes(), func(p Purpose) bool {
			return slices.ContainsFunc(p.Actions, func(end string) bool {
				if !strings.HasSuffix(a, end) {
					return false
				}
				used[end] = true
				return true
			})
		})
		if !known {
			t.Errorf("action %s has no purpose", a)
		}
	}
	for _, p := range Purposes() {
		for _, end := range p.Actions {
			if !used[end] {
				t.Errorf("no action ends in %s", end)
			}
		}
	}
}
