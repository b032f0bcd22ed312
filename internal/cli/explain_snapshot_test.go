package cli

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// TestExplainSnapshot: what is not enforced is printed as such, with what the groups of the account
// do in its place.
func TestExplainSnapshot(t *testing.T) {
	manifests := file(t, "half.yaml", previewtest.HybridManifests+previewtest.HalfDone)
	r := nephele(t, "", "explain", "-f", manifests, "--snapshot", previewtest.HybridCloud, "--from", "203.0.113.7", "--to", "vms/i-075dc46a9bc347264", "--port", "22")
	if r.code != ExitDone {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	for _, want := range []string{
		"203.0.113.7 -> VM vms/CVP Server Test, TCP port 22: Allow\n  if everything were enforced: Drop\n",
		"  ingress Allow: AntreaNetworkPolicy vms/sees is refused on this VM, not enforced; today allowed by sg-331ad04e (Arista Demo): ingress tcp 22 from 0.0.0.0/0\n",
		`AntreaNetworkPolicy vms/sees: the ingress rule "http": security groups do not see layer 7 protocols`,
		"if enforced: Drop: no rule allows it, and the direction is isolated by AntreaNetworkPolicy vms/sees",
		"the destination has no public address",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
}
