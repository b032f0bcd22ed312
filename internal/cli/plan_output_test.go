package cli

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// TestPlanWarnsOfMistakes: a name that nobody has changes nothing, and is told.
func TestPlanWarnsOfMistakes(t *testing.T) {
	for name, c := range map[string]struct{ manifests, warning string }{
		"an account": {strings.Replace(previewtest.SmallShopManifests, "accountName: a\n", "accountName: aa\n", 1),
			"CloudEntitySelector vms/sel: there is no CloudProviderAccount vms/aa, so it selects nothing; there is vms/a"},
		"no VM": {strings.Replace(previewtest.SmallShopManifests, "{matchID: i-0000000000000001a}, {matchID: i-0000000000000002a}", "{matchID: i-0000000000000003a}", 1),
			"CloudEntitySelector vms/sel: spec.vmSelector[0] selects no VM (account vms/a)"},
		"nobody": {strings.Replace(previewtest.SmallShopManifests, "tag-app: web", "tag-app: wbe", 1),
			"AntreaNetworkPolicy vms/web: it selects nobody: no VM and no Pod is in its appliedTo; spec.appliedTo[0].externalEntitySelector: got a selector of nobody, want labels that some ExternalEntity has; " +
				`nephe.antrea.io/tag-app is never "wbe"; did you mean web?`},
	} {
		r := planShop(t, c.manifests)
		if r.code != ExitDone || !strings.Contains(r.stdout, "  ! warning: "+c.warning+"\n") {
			t.Errorf("%s: %+v", name, r)
		}
		if r := planShop(t, c.manifests, "--strict"); r.code != ExitBadInput || !strings.Contains(r.err, "error: --strict: ") || !strings.Contains(r.stdout, c.warning) {
			t.Errorf("%s, strict: %+v", name, r)
		}
	}
	if r := planShop(
		t,
		accountSays("failsafe: [{direction: Ingress, protocol: TCP, port: 22, cidrs: [0.0.0.0/0, '::/0']}]"),
		"--strict",
	); r.code != ExitNo ||
		strings.Contains(r.stdout, "warning") {
		t.Errorf("no mistake: %+v", r)
	}
}
