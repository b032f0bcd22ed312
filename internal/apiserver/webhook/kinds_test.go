package webhook

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/nephele-io/nephele/internal/kinds"
)

// TestHooksOfKinds: every kind that the table says is judged has a webhook that refuses, and every
// webhook is about a kind of the table.
func TestHooksOfKinds(t *testing.T) {
	judged := map[string]bool{}
	for _, h := range Hooks() {
		k, known := kinds.FindResource(h.Group, h.Resource)
		if !known || !k.Is(kinds.Admitted) || k.Version != h.Version || k.Namespaced != (h.Scope == admissionregistrationv1.NamespacedScope) {
			t.Errorf("%s is about %s.%s (%s, %s), and the table says otherwise", h.Name, h.Resource, h.Group, h.Version, h.Scope)
		}
		if !h.Mutating {
			judged[h.Group+" "+h.Resource] = true
		}
	}
	for _, k := range kinds.Of(kinds.Admitted) {
		if !judged[k.Group+" "+k.Resource] {
			t.Errorf("no webhook judges %s.%s", k.Resource, k.Group)
		}
	}
}
