package cli

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// TestPlanWarnsOfClosedAccess: what closes ssh is a warning that names both ends; what keeps it
// open is none.
func TestPlanWarnsOfClosedAccess(t *testing.T) {
	const warning = "closes ssh (tcp 22) to web-1, web-2 from "
	if r := planShop(t, previewtest.SmallShopManifests); strings.Count(r.stdout, "! warning: ") == 0 || !strings.Contains(r.stdout, warning) || strings.Contains(r.stdout, "remote desktop") {
		t.Errorf("%+v", r)
	}
	if r := planShop(t, previewtest.SmallShopManifests, "--strict"); r.code != ExitBadInput || !strings.Contains(r.err, "ClosesAccess") {
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
