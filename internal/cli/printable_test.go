package cli

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// TestPlanOfNamesThatPlayWithTheTerminal: what others call their machines is shown, and does
// nothing.
func TestPlanOfNamesThatPlayWithTheTerminal(t *testing.T) {
	estate := strings.Replace(previewtest.SmallShop, "name: web-1,", `name: "we\tb\u009b2J\nregion faked",`, 1)
	r := nephele(t, previewtest.SmallShopManifests, "plan", "-f", "-", "--snapshot", file(t, "estate.yaml", estate))
	if r.code != ExitNo || !strings.Contains(r.stdout, `we\tb\u009b2J\nregion faked`) {
		t.Errorf("%+v", r)
	}
	if all := r.stdout + r.err; strings.ContainsAny(all, "\t\u009b\r") || strings.Contains(all, "\nregion faked") {
		t.Errorf("%q", all)
	}
}
