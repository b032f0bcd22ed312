package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
)

// TestRulesWithTraffic prints what rules have decided beside what they are good for, and nothing of
// it where that was not asked.
func TestRulesWithTraffic(t *testing.T) {
	none, some, last := int64(0), int64(12), metav1.NewMicroTime(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	rows := []v1alpha1.RuleUse{
		{Rule: v1alpha1.Rule{Policy: v1alpha1.Policy{Type: "AntreaNetworkPolicy", Namespace: "shop", Name: "db"}, Direction: "In", Name: "web", Action: "Allow"}, Use: "Used", Endpoints: 3, Connections: &some, Last: &last},
		{Rule: v1alpha1.Rule{Policy: v1alpha1.Policy{Type: "K8sNetworkPolicy", Namespace: "shop", Name: "all"}, Direction: "In"}, Use: "Used", Connections: &some, Last: &last, Together: true},
		{Rule: v1alpha1.Rule{Policy: v1alpha1.Policy{Type: "AntreaNetworkPolicy", Namespace: "shop", Name: "db"}, Direction: "In", Name: "backup", Action: "Allow"}, Use: "Used", Connections: &none},
	}
	var out bytes.Buffer
	if err := runUses(&out, rows, true, "table"); !errors.Is(err, terminal.ErrNo) {
		t.Error(err)
	}
	for i, want := range []string{"CONNECTIONS LAST", "12 01-02 03:04:05", "12 by all its rules 01-02 03:04:05", "0 -"} {
		if line := strings.Join(strings.Fields(strings.Split(out.String(), "\n")[i]), " "); !strings.HasSuffix(line, want) {
			t.Errorf("%q, want ...%q", line, want)
		}
	}
	out.Reset()
	for i := range rows {
		rows[i].Connections, rows[i].Last = nil, nil
	}
	if err := runUses(&out, rows, false, "table"); err != nil || strings.Contains(out.String(), "CONNECTIONS") {
		t.Errorf("%s, %v", &out, err)
	}
	for args, want := range map[string]string{
		"rules --since 1h --of shop/db":          "--since is about all rules: leave out --of",
		"rules --since yesterday":                "--since \"yesterday\": want how long ago",
		"rules --since 1h --unused -f testdata/": "--since asks the controller what agents have seen",
	} {
		if r := nephele(t, "", strings.Fields(args)...); r.code == 0 || !strings.Contains(r.err, want) {
			t.Errorf("%s: %d %s, want %q", args, r.code, r.err, want)
		}
	}
}
