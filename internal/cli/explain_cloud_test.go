package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

// guarded has a VM of an account with failsafe flows, which a policy isolates, and one that no
// policy selects.
const guarded = `
apiVersion: v1
kind: Namespace
metadata: {name: vms}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {name: shop, namespace: vms}
spec:
  failsafe:
  - {direction: Ingress, protocol: TCP, port: 22, cidrs: [192.0.2.0/24]}
  - {direction: Ingress, protocol: ICMP, cidrs: [192.0.2.0/24]}
  - {direction: Egress, cidrs: [198.51.100.0/24]}
  awsConfig: {region: [eu-west-1], secretRef: {name: s, namespace: vms, key: k}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {name: all, namespace: vms%s}
spec: {accountName: shop, accountNamespace: vms, vmSelector: [{vmMatch: [{matchID: i-0db}]}]}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: VirtualMachine
metadata: {name: i-0db, namespace: vms, labels: {nephe.antrea.io/ces-name: all}%s}
status: {%s}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {name: virtualmachine-i-0db, namespace: vms, labels: {role: db}}
spec: {externalNode: cloud/vms/shop, endpoints: [{ip: 10.0.2.1}]}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {name: virtualmachine-i-0free, namespace: vms}
spec: {externalNode: cloud/vms/shop, endpoints: [{ip: 10.0.2.2}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: db, namespace: vms}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {role: db}}}]
  ingress:
  - {name: none, action: Drop}
  egress:
  - {name: nothing, action: Drop}
`

// TestExplainFailsafe: what an account always allows, policies do not deny, in its direction, for
// its ports and addresses, where any applies.
func TestExplainFailsafe(t *testing.T) {
	manifests := fmt.Sprintf(guarded, "", "", "")
	for question, want := range map[string]string{
		"--from 192.0.2.7 --to vms/virtualmachine-i-0db --port 22":                   "ingress Allow: allowed by failsafe of account vms/shop, before any rule\n",
		"--from 192.0.2.7 --to vms/virtualmachine-i-0db --port 23":                   "ingress Drop: rule",
		"--from 203.0.113.7 --to vms/virtualmachine-i-0db --port 22":                 "ingress Drop: rule",
		"--from 192.0.2.7 --to vms/virtualmachine-i-0db --port 22 --protocol UDP":    "ingress Drop: rule",
		"--from 192.0.2.7 --to vms/virtualmachine-i-0db --protocol ICMP":             "ingress Allow: allowed by failsafe",
		"--from vms/virtualmachine-i-0db --to 198.51.100.1 --port 9 --protocol SCTP": "egress  Allow: allowed by failsafe",
		"--from vms/virtualmachine-i-0db --to 192.0.2.7 --port 22":                   "egress  Drop: rule",
		"--from 192.0.2.7 --to vms/virtualmachine-i-0free --port 22":                 "ingress Native: no policy decides",
	} {
		r := nephele(t, manifests, append([]string{"explain", "-f", "-"}, strings.Fields(question)...)...)
		if passes := !strings.Contains(want, "Drop"); !strings.Contains(r.stdout, want) || passes != (r.code == 0) {
			t.Errorf("%s: %+v\nwant %s", question, r, want)
		}
	}
}

// TestExplainModes: in a mode in which policies are not enforced, they do not decide, but what they
// would decide is told.
func TestExplainModes(t *testing.T) {
	const byVM, bySelector = ", annotations: {nephele.io/break-glass: fire}", ", annotations: {nephele.io/break-glass: smoke}"
	for _, c := range []struct{ selector, vm, status, want string }{
		{"", "", "mode: plan, modeReason: CloudEntitySelector vms/all", "mode plan (CloudEntitySelector vms/all)"},
		{"", "", "mode: released, modeReason: CloudEntitySelector vms/all", "mode released (CloudEntitySelector vms/all)"},
		{"", byVM, "", "break-glass (VirtualMachine vms/i-0db: fire)"},
		{bySelector, "", "", "break-glass (CloudEntitySelector vms/all: smoke)"},
	} {
		manifests := fmt.Sprintf(guarded, c.selector, c.vm, c.status)
		question := []string{"explain", "-f", "-", "--from", "192.0.2.7", "--to", "vms/virtualmachine-i-0db", "--port", "80"}
		r := nephele(t, manifests, question...)
		want := "  ingress Native: not enforced: " + c.want + "; the security groups that the machine holds decide\n          if enforced: Drop: rule"
		if r.code != 0 || !strings.Contains(r.stdout, want) {
			t.Errorf("%+v\nwant %s", r, want)
		}
		var answer analysis.FlowAnswer
		r = nephele(t, manifests, append(question, "-o", "json")...)
		if err := json.Unmarshal([]byte(r.stdout), &answer); err != nil || answer.Ingress.NotEnforced != c.want || answer.Ingress.IfEnforced.Outcome != "Drop" {
			t.Errorf("%v: %s", err, r.stdout)
		}
	}
}
