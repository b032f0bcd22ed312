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

// TestNodeRoutes: the right to write routes is in no role that does not ask for it, and what a role
// for plans asks for is left out.
func TestNodeRoutes(t *testing.T) {
	for _, c := range []struct {
		pins Pins
		want bool
	}{
		{Pins{Mode: Enforce}, false}, {Pins{Mode: Enforce, Name: "x"}, false}, {Pins{Mode: Enforce, NodeRoutes: true}, true}, {Pins{Mode: Plan, NodeRoutes: true}, false},
	} {
		raw, err := Document(azure.Role(), c.pins)
		if err != nil {
			t.Fatal(err)
		}
		actions, err := Actions(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range Optional() {
			for _, a := range p.Actions {
				if slices.Contains(actions, a) != c.want {
					t.Errorf("%+v: %s is there: %t", c.pins, a, !c.want)
				}
			}
		}
	}
}
