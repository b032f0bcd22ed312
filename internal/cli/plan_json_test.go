package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

// TestPlanJSONRoundTrip: what is printed is read back into the documented fields without loss.
func TestPlanJSONRoundTrip(t *testing.T) {
	manifests := accountSays("maxPerWave: 1\n  failsafe: [{direction: Ingress, protocol: TCP, port: 22, cidrs: [192.0.2.0/24]}]")
	manifests = strings.Replace(manifests, "action: Allow", "action: Reject", 1) + `---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: nobody, namespace: vms}
spec:
  priority: 6
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: none}}}]
  ingress:
  - {name: all, action: Drop}
`
	r := planShop(t, manifests, "-o", "json")
	var got analysis.PlanAnswer
	decoder := json.NewDecoder(strings.NewReader(r.stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatalf("%v: %s%s", err, r.stdout, r.err)
	}
	again, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if string(again)+"\n" != r.stdout {
		t.Errorf("read back and printed again it is\n%s\nit was\n%s", again, r.stdout)
	}
	a := got.Accounts[0]
	if a.Wave == nil || len(a.Failsafe) != 1 || len(a.Warnings) != 2 || len(got.Warnings) != 1 || len(a.Plan.Steps) != int(a.Plan.Summary.Steps) ||
		len(a.Quotas) == 0 || len(a.Reachability) == 0 || len(a.Policies) == 0 {
		t.Errorf("%s", r.stdout)
	}
	if i := slices.IndexFunc(a.Reachability, func(c analysis.ReachChange) bool { return c.From.Rest }); i < 0 {
		t.Errorf("no range has a rest: %+v", a.Reachability)
	}
	if strings.Contains(r.stdout, "null") {
		t.Errorf("a list is null:\n%s", r.stdout)
	}
}
