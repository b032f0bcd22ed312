package cli

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// accountSays adds a line to the specification of the account.
func accountSays(line string) string {
	return strings.Replace(previewtest.SmallShopManifests, "spec:\n  awsConfig", "spec:\n  "+line+"\n  awsConfig", 1)
}

// planShop plans for the shop.
func planShop(t *testing.T, manifests string, flags ...string) ran {
	t.Helper()
	return nephele(t, manifests, append([]string{"plan", "-f", "-", "--snapshot", file(t, "estate.yaml", previewtest.SmallShop)}, flags...)...)
}
