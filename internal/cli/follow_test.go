package cli

import (
	"encoding/json"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// TestPlanTellsOfDependents: what dependents of a group lose is refused or reported, as the account
// wants it.
func TestPlanTellsOfDependents(t *testing.T) {
	estate := strings.Replace(previewtest.SmallShop, "      groups:\n", "      groups:\n      - {name: database, rules: [\"tcp 5432 from web\"]}\n", 1)
	estate = strings.Replace(estate, "      vms:\n", "      vms:\n      - {name: db-1, ip: 10.1.9.9, groups: [database]}\n", 1)
	run := func(manifests string, flags ...string) ran {
		return nephele(t, manifests, append([]string{"plan", "-f", "-", "--snapshot", file(t, "estate.yaml", estate)}, flags...)...)
	}
	if r := run(previewtest.SmallShopManifests); !strings.Contains(r.stdout, "spec.dependents") {
		t.Fatalf("not refused: %s %s", r.stdout, r.err)
	}
	cut := accountSays("dependents: Cut")
	if r := run(cut); !strings.Contains(r.stdout, "! loses flows: ") || strings.Contains(r.stdout, "spec.dependents") {
		t.Errorf("%s %s", r.stdout, r.err)
	}
	var got analysis.PlanAnswer
	if r := run(cut, "-o", "json"); json.Unmarshal([]byte(r.stdout), &got) != nil || len(got.Accounts) != 1 || len(got.Accounts[0].Cuts) != 1 {
		t.Errorf("%s", r.stdout)
	}
}
