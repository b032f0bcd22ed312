package cli

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// TestPlanWarnsByWhichGroup: a warning about access that closes names the groups that give it
// today, and machines by their names.
func TestPlanWarnsByWhichGroup(t *testing.T) {
	t.Parallel()
	r := planShop(t, previewtest.SmallShopManifests)
	for _, want := range []string{"! warning: eu-west-1: closes ssh (tcp 22) to web-1, web-2 from the rest of 0.0.0.0/0, web-1, web-2, which sg-", " (web) allows today; somebody may be at work by it now"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is missing in\n%s", want, r.stdout)
		}
	}
}
