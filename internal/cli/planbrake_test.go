package cli

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

// TestPlanTellsWhatWaits: a plan that the controller would hold says so, with the command, and
// takes the account's brake, its confirmation and the modes into account.
func TestPlanTellsWhatWaits(t *testing.T) {
	estate, manifests := manyShops(t, 40)
	plan := func(m string, flags ...string) string {
		t.Helper()
		r := nephele(t, m, append([]string{"plan", "-f", "-", "--snapshot", estate}, flags...)...)
		if r.code != ExitNo {
			t.Fatalf("%+v", r)
		}
		return r.stdout
	}
	says := func(line string) string {
		return strings.Replace(manifests, "spec:\n  awsConfig", "spec:\n  "+line+"\n  awsConfig", 1)
	}
	text := plan(manifests)
	found := regexp.MustCompile(`! waits for a confirmation: 42 of the 42 interfaces of VMs would newly come under control.* Nothing is wrong.*` +
		`(kubectl annotate cloudprovideraccount a -n vms nephele\.io/confirm=([0-9a-f]{16}) --overwrite)`).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("%s", text)
	}
	var got analysis.PlanAnswer
	if err := json.Unmarshal([]byte(plan(manifests, "-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	b := got.Accounts[0].Brake
	if b == nil || b.Command != found[1] || b.Hash != found[2] || b.Confirmed || b.OnceEnforced || b.Guarded != 42 || b.Released != 0 || b.All != 42 || b.Controlled != 0 ||
		b.Percent != 50 || b.Interfaces != 20 {
		t.Errorf("%+v", b)
	}
	for name, c := range map[string]struct{ manifests, want, not string }{
		"never":           {says("brake: {percent: 100}"), "Plan: ", "confirm"},
		"many":            {says("brake: {interfaces: 43}"), "Plan: ", "confirm"},
		"confirmed":       {strings.Replace(manifests, "{name: a, ", "{name: a, annotations: {nephele.io/confirm: "+found[2]+"}, ", 1), "# is large, and confirmed: " + found[2], "waits"},
		"another account": {strings.Replace(manifests, "{name: a, ", "{name: a, annotations: {nephele.io/confirm: 0123456789abcdef}, ", 1), "! waits for", "and confirmed"},
		"mode plan":       {says("mode: plan"), "# once the VMs in mode plan are enforced: 42 of the 42 interfaces", "! waits for"},
	} {
		if got := plan(c.manifests); !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%s: %.1500s", name, got)
		}
	}
}
