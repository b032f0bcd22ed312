package preview_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// TestPlanWarnsOfPolicies: what the webhooks warn of, plan warns of before anything is applied,
// with a reason each.
func TestPlanWarnsOfPolicies(t *testing.T) {
	for name, c := range map[string]struct{ from, to, reason, warning string }{
		"host bits":       {"10.0.0.0/8", "10.1.2.3/8", "HostBits", `spec.ingress[0].from[0].ipBlock.cidr: invalid value "10.1.2.3/8": want 10.0.0.0/8, which it means, or 10.1.2.3/32 for the one address`},
		"ssh for all":     {"10.0.0.0/8}}], ports: [{port: 80}]", "0.0.0.0/0}}], ports: [{port: 22}]", "OpensManagement", `spec.ingress[0]: got ssh (tcp 22) from anywhere in the Internet, want the blocks of the administrators of the machines`},
		"all for all":     {"10.0.0.0/8", "'::/0'", "OpensToInternet", `spec.ingress[0]: got an Allow rule for the whole Internet, want blocks or groups of the clients that need it, unless it is meant for everybody`},
		"IPv4 alone":      {"action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8", "action: Drop, from: [{ipBlock: {cidr: 0.0.0.0/0", "OneFamily", `spec.ingress[0]: got a Drop rule for IPv4 alone, want the block ::/0 in it as well, or in a rule of its own: IPv6 passes`},
		"a group":         {"{ipBlock: {cidr: 10.0.0.0/8}}", "{group: offices}", "NoSuchGroup", `spec.ingress[0].from[0].group: invalid value "offices": want a group that exists; there is none`},
		"peers":           {"{ipBlock: {cidr: 10.0.0.0/8}}", "{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: wbe}}}", "PeerNobody", `nephe.antrea.io/tag-app is never "wbe"; did you mean web?`},
		"what it selects": {"tag-app: web", "tag-app: wbe", "SelectsNobody", `spec.appliedTo[0].externalEntitySelector: got a selector of nobody, want labels that some ExternalEntity has; nephe.antrea.io/tag-app is never "wbe"; did you mean web?`},
	} {
		got := previewtest.Answer(t, previewtest.SmallShop, strings.Replace(previewtest.SmallShopManifests, c.from, c.to, 1))
		if len(got.Warnings) != len(got.WarningReasons) {
			t.Fatalf("%s: %s", name, previewtest.JSON(got))
		}
		found := false
		for i, w := range got.Warnings {
			found = found || strings.HasPrefix(w, "AntreaNetworkPolicy vms/web: ") && strings.HasSuffix(w, c.warning) && string(got.WarningReasons[i]) == c.reason
		}
		if !found {
			t.Errorf("%s: %q %q", name, got.Warnings, got.WarningReasons)
		}
	}
}

// TestPlanWarnsOfShadows: a warning names the rules that leave another one nothing, and the rule
// that a Pass skips; of rules that matter there is none.
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
		got := previewtest.Answer(t, previewtest.SmallShop, previewtest.SmallShopManifests+c.more)
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
