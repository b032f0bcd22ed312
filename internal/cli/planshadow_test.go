package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/preview"
)

// TestPlanWarnsOfShadows: a rule that others leave nothing is told with these, a Pass with whom it
// skips; rules that matter are not told.
func TestPlanWarnsOfShadows(t *testing.T) {
	t.Parallel()
	policy := func(kind, name, tier, rules string) string {
		return `---
apiVersion: crd.antrea.io/v1beta1
kind: ` + kind + `
metadata: {` + name + `}
spec:
  tier: ` + tier + `
  priority: 1
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: web}}}]
  ingress:
` + rules
	}
	const web = `AntreaNetworkPolicy vms/web: the rule "web" never matches: before it comes `
	for name, c := range map[string]struct {
		more string
		want []string
	}{
		"nothing":         {"", nil},
		"something else":  {policy("NetworkPolicy", "name: ssh, namespace: vms", "application", "  - {name: ssh, action: Allow, ports: [{port: 22}]}\n"), nil},
		"a part is taken": {policy("NetworkPolicy", "name: some, namespace: vms", "securityops", "  - {name: some, action: Drop, from: [{ipBlock: {cidr: 10.1.0.0/16}}]}\n"), nil},
		"all is taken": {policy("ClusterNetworkPolicy", "name: closed", "emergency", "  - {name: all, action: Drop}\n"),
			[]string{"NeverMatches " + web + "closed all"}},
		"all is passed": {policy("ClusterNetworkPolicy", "name: through", "securityops", "  - {name: all, action: Pass, from: [{ipBlock: {cidr: 10.0.0.0/8}}]}\n"),
			[]string{"NeverMatches " + web + "through all",
				`TakesPrecedence AntreaClusterNetworkPolicy through: the rule "all" (Pass) skips the rule "web" (Allow) of AntreaNetworkPolicy vms/web on vm/`}},
	} {
		var got analysis.PlanAnswer
		r := planShop(t, shopManifests+c.more, "-o", "json")
		if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
			t.Fatalf("%s: %v: %+v", name, err, r)
		}
		var found []string
		for i, w := range got.Warnings {
			if reason := preview.WarningReason(got.WarningReasons[i]); reason == preview.WarnNeverMatches || reason == preview.WarnTakesPrecedence {
				found = append(found, string(reason)+" "+w)
			}
		}
		if !slices.EqualFunc(found, c.want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, found, c.want)
		}
	}
}

// TestPlanWarnsByWhichGroup: who is shut out is told with the groups that let him in today, and who
// comes from another machine by its name.
func TestPlanWarnsByWhichGroup(t *testing.T) {
	t.Parallel()
	r := planShop(t, shopManifests)
	for _, want := range []string{"! warning: eu-west-1: closes ssh (tcp 22) to web-1, web-2 from the rest of 0.0.0.0/0, web-1, web-2, which sg-", " (web) allows today; somebody may be at work by it now"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is missing in\n%s", want, r.stdout)
		}
	}
}
