package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
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

// TestFailsafe: policies do not deny what an account always allows, in its direction, for its ports
// and addresses, on machines that a policy applies to.
func TestFailsafe(t *testing.T) {
	answers(t, fmt.Sprintf(guarded, "", "", ""), map[string]asked{
		"its port": {"", "192.0.2.7 > vms/virtualmachine-i-0db TCP 22",
			"192.0.2.7 > VM vms/i-0db: Allow; out Allow none; in Allow by failsafe of account vms/shop"},
		"another port": {"", "192.0.2.7 > vms/virtualmachine-i-0db TCP 23",
			"192.0.2.7 > VM vms/i-0db: Drop; out Allow none; in Drop by AntreaNetworkPolicy vms/db In[0] none at 250/5"},
		"another address": {"", "203.0.113.7 > vms/virtualmachine-i-0db TCP 22",
			"203.0.113.7 > VM vms/i-0db: Drop; out Allow none; in Drop by AntreaNetworkPolicy vms/db In[0] none at 250/5"},
		"another protocol": {"", "192.0.2.7 > vms/virtualmachine-i-0db UDP 22",
			"192.0.2.7 > VM vms/i-0db: Drop; out Allow none; in Drop by AntreaNetworkPolicy vms/db In[0] none at 250/5"},
		"a protocol": {"", "192.0.2.7 > vms/virtualmachine-i-0db ICMP",
			"192.0.2.7 > VM vms/i-0db type 8/0: Allow; out Allow none; in Allow by failsafe of account vms/shop"},
		"all protocols": {"", "vms/virtualmachine-i-0db > 198.51.100.1 SCTP 9",
			"VM vms/i-0db > 198.51.100.1: Allow; out Allow by failsafe of account vms/shop; in Allow none"},
		"another direction": {"", "vms/virtualmachine-i-0db > 192.0.2.7 TCP 22",
			"VM vms/i-0db > 192.0.2.7: Drop; out Drop by AntreaNetworkPolicy vms/db Out[0] nothing at 250/5; in Allow none"},
		"no policy": {"", "192.0.2.7 > vms/virtualmachine-i-0free TCP 22",
			"192.0.2.7 > VM vms/i-0free: Native; out Allow none; in Native native"},
	})
}

// TestModes: in a mode in which policies are not enforced, they do not decide, but the answer has
// what they would decide.
func TestModes(t *testing.T) {
	const byVM, bySelector = ", annotations: {nephele.io/break-glass: fire}", ", annotations: {nephele.io/break-glass: smoke}"
	for _, c := range []struct{ selector, vm, status, want string }{
		{"", "", "mode: plan, modeReason: CloudEntitySelector vms/all", "mode plan (CloudEntitySelector vms/all)"},
		{"", "", "mode: released, modeReason: CloudEntitySelector vms/all", "mode released (CloudEntitySelector vms/all)"},
		{"", byVM, "", "break-glass (VirtualMachine vms/i-0db: fire)"},
		{bySelector, "", "", "break-glass (CloudEntitySelector vms/all: smoke)"},
	} {
		computed := preview.Compute(previewtest.Inputs(t, fmt.Sprintf(guarded, c.selector, c.vm, c.status)))
		got, err := computed.Computed.Answer(parse(t, "192.0.2.7 > vms/virtualmachine-i-0db TCP 80"))
		if err != nil {
			t.Fatal(err)
		}
		if in := got.Ingress; in.Outcome != "Native" || in.NotEnforced != c.want || in.IfEnforced == nil || in.IfEnforced.Outcome != "Drop" || in.IfEnforced.DecidedBy.Name != "none" ||
			got.Verdict != "Native" || got.Wanted != "Drop" {
			t.Errorf("want %s\n%s", c.want, previewtest.JSON(got))
		}
	}
}

// TestForeignBreakGlass: break-glass in a namespace that may not release suspends no policy.
func TestForeignBreakGlass(t *testing.T) {
	const byVM, bySelector = ", annotations: {nephele.io/break-glass: fire}", ", annotations: {nephele.io/break-glass: smoke}"
	foreign := func(selector, vm, more string) string {
		s := fmt.Sprintf(guarded, selector, vm, "")
		s = strings.Replace(s, "metadata: {name: shop, namespace: vms}\nspec:\n", "metadata: {name: shop, namespace: owner}\nspec:\n"+more, 1)
		return strings.NewReplacer("accountNamespace: vms", "accountNamespace: owner", "cloud/vms/shop", "cloud/owner/shop").Replace(s)
	}
	for name, c := range map[string]struct {
		manifests string
		suspended bool
	}{
		"VM":                        {foreign("", byVM, ""), false},
		"selector":                  {foreign(bySelector, "", ""), false},
		"VM that may release":       {foreign("", byVM, "  releaseNamespaces: [vms]\n"), true},
		"selector that may release": {foreign(bySelector, "", "  releaseNamespaces: [vms]\n"), true},
		"of an unknown account":     {strings.ReplaceAll(foreign("", byVM, ""), "name: shop, namespace: owner", "name: other, namespace: owner"), false},
		"account of a namespace":    {strings.ReplaceAll(fmt.Sprintf(guarded, "", byVM, ""), "name: shop, namespace", "name: other, namespace"), true},
	} {
		answer, err := preview.Compute(previewtest.Inputs(t, c.manifests)).Computed.Answer(parse(t, "203.0.113.7 > vms/virtualmachine-i-0db TCP 80"))
		if err != nil || (answer.Ingress.NotEnforced != "") != c.suspended {
			t.Errorf("%s: %v: %s", name, err, previewtest.JSON(answer))
		}
	}
}
