package cli

import (
	"encoding/json"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
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
		var got analysis.PlanAnswer
		r := planShop(t, strings.Replace(shopManifests, c.from, c.to, 1), "-o", "json")
		if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || len(got.Warnings) != len(got.WarningReasons) {
			t.Fatalf("%s: %v: %+v", name, err, r)
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

// TestPlanWarnsWhoIsShutOut: what closes ssh is a warning, with who and whom; what keeps it open is
// none.
func TestPlanWarnsWhoIsShutOut(t *testing.T) {
	const warning = "closes ssh (tcp 22) to web-1, web-2 from "
	if r := planShop(t, shopManifests); strings.Count(r.stdout, "! warning: ") == 0 || !strings.Contains(r.stdout, warning) || strings.Contains(r.stdout, "remote desktop") {
		t.Errorf("%+v", r)
	}
	if r := planShop(t, shopManifests, "--strict"); r.code != ExitBadInput || !strings.Contains(r.err, "ClosesAccess") {
		t.Errorf("strict: %d %s", r.code, r.err)
	}
	if r := planShop(
		t,
		accountSays("failsafe: [{direction: Ingress, protocol: TCP, port: 22, cidrs: [0.0.0.0/0, '::/0']}]"),
		"--strict",
	); r.code != ExitNo ||
		strings.Contains(r.stdout, warning) {
		t.Errorf("with failsafe: %+v", r)
	}
}
