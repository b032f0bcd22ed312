package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// TestFromGroupsTellsWhatIsLeftOut: what a policy cannot say is not in it, and told.
func TestFromGroupsTellsWhatIsLeftOut(t *testing.T) {
	const text = `
accounts:
- id: "111122223333"
  alias: prod
  regions:
  - name: eu-west-1
    vpcs:
    - name: v0
      cidrs: [10.1.0.0/16]
      groups:
      - {name: g, rules: [tcp 22 from 10.0.0.0/8, 47 from 10.1.0.0/16]}
      vms:
      - {name: m, ip: 10.1.0.10, groups: [g], tags: {app: web}}
`
	path := file(t, "estate.yaml", text)
	r := nephele(
		t,
		"",
		"policy",
		"from-groups",
		"-f",
		file(t, "account.yaml", strings.Replace(previewtest.ShopAccount, ", {vpcMatch: {matchName: v1}}, {vpcMatch: {matchName: v2}}", "", 1)),
		"--snapshot",
		path,
	)
	if r.code != ExitNo || !strings.Contains(r.err, "left out: NetworkPolicy shop/from-sg-") || !strings.Contains(r.err, `"ingress gre from 10.1.0.0/16"`) ||
		!strings.Contains(r.err, "policies cannot name this traffic") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if !strings.Contains(r.stdout, "in-tcp-22") || strings.Count(r.stdout, "action: Allow") != 2 {
		t.Errorf("the policy:\n%s", r.stdout)
	}
	again := nephele(t, "", "policy", "compute", "-f", file(t, "made.yaml", r.stdout))
	if again.code != ExitDone {
		t.Errorf("the policy is refused: %s", again.err)
	}
	if r := nephele(
		t,
		"",
		"policy",
		"from-groups",
		"-f",
		filepath.Join(t.TempDir(), "none.yaml"),
	); r.code != ExitBadInput ||
		!strings.Contains(r.err, "-f and --snapshot are both needed") {
		t.Errorf("without a snapshot: exit %d: %s", r.code, r.err)
	}
}
