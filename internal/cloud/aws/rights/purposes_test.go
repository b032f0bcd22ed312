package rights

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestPurposes: each statement of a policy with everything has one purpose, and each purpose has a
// statement.
func TestPurposes(t *testing.T) {
	policy, err := Document(Pins{Mode: Enforce, Services: true, FlowLogs: []string{"acme-flow-logs", "acme-more/prod"}})
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, raw := range statements(t, policy) {
		var s struct{ Sid string }
		if err := json.Unmarshal([]byte(raw), &s); err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, p := range Purposes() {
			prefix, several := strings.CutSuffix(p.Right, "*")
			if s.Sid == p.Right || several && strings.HasPrefix(s.Sid, prefix) {
				found = append(found, p.Right)
				used[p.Right] = true
			}
		}
		if len(found) != 1 {
			t.Errorf("statement %s has the purposes %q, want one", s.Sid, found)
		}
	}
	for _, p := range Purposes() {
		if !used[p.Right] {
			t.Errorf("no statement is called %s", p.Right)
		}
	}
}
