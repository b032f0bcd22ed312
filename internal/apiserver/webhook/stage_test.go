package webhook_test

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/apiserver/webhook"
)

// TestStage: a stage that nobody knows is refused, as its author believes that the policy is not
// enforced; staging what is in force gives a warning about what that means. What was stored with a
// wrong stage can be changed and deleted.
func TestStage(t *testing.T) {
	const stored = "{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {name: p, namespace: ns, ANNOTATIONS}, spec: " +
		"{priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop}]}}"
	policy := func(stage string) string {
		if stage == "" {
			return strings.Replace(stored, ", ANNOTATIONS", "", 1)
		}
		return strings.Replace(stored, "ANNOTATIONS", "annotations: {nephele.io/stage: "+stage+"}", 1)
	}
	handlers := webhook.Handlers(view(t, false), view(t, true))
	for name, c := range map[string]struct {
		object, old string
		refused     string
		warned      string
	}{
		"not staged":                {object: policy("")},
		"created staged":            {object: policy("plan"), warned: "is staged: it is not enforced until"},
		"staged later":              {object: policy("plan"), old: policy(""), warned: "was in force and is staged now"},
		"staged as before":          {object: policy("plan"), old: policy("plan"), warned: "is staged: it is not enforced until"},
		"not staged any more":       {object: policy(""), old: policy("plan")},
		"a slip":                    {object: policy("planned"), refused: `metadata.annotations[nephele.io/stage]: invalid value "planned": want plan, or no such annotation`},
		"a slip later":              {object: policy("Plan"), old: policy(""), refused: `invalid value "Plan"`},
		"a slip that is there":      {object: policy("Plan"), old: policy("Plan")},
		"a slip in place of a slip": {object: policy("PLAN"), old: policy("Plan"), refused: `invalid value "PLAN"`},
	} {
		operation := "CREATE"
		if c.old != "" {
			operation = "UPDATE"
		}
		r := ask(t, handlers, asked{path: "/validate/annp", operation: operation, object: c.object, old: c.old, namespace: "ns"})
		if r.Allowed != (c.refused == "") || !r.Allowed && !strings.Contains(r.Result.Message, c.refused) {
			t.Errorf("%s: allowed %v, %+v", name, r.Allowed, r.Result)
		}
		if got := strings.Join(r.Warnings, "; "); (c.warned == "") != (got == "") || !strings.Contains(got, c.warned) {
			t.Errorf("%s: warned %q, want %q", name, got, c.warned)
		}
	}
}
