package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/sim/aws"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/world"
)

const azureManifests = `
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {name: azure, namespace: vms}
spec: {azureConfig: {secretRef: {name: azure, namespace: vms, key: credentials}, region: [westeurope]}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {name: all, namespace: vms}
spec: {accountName: azure, accountNamespace: vms, vmSelector: [{vmMatch: [{matchName: web-1}]}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: ssh, namespace: vms}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-vm-name: web-1}}}]
  ingress:
  - {name: ssh, action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 22}]}
`

// TestPlanOfAnAzureSnapshot: a plan is made from an answer of Resource Graph alone, and what cannot
// be is refused.
func TestPlanOfAnAzureSnapshot(t *testing.T) {
	const subscription = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
	b := build.New("11111111-2222-4333-8444-555555555555", subscription, "westeurope")
	b.Principal("nephele", "secret")
	nsg := b.SecurityGroup("shop", "nsg-web", build.Rule("https", "Inbound", 100, "Allow", "Tcp", "Internet", "", "443"))
	b.Machine("shop", "web-1", b.Network("shop", "vnet-a", []string{"10.1.0.0/16"}, []string{"web", "10.1.1.0/24"})+"/subnets/web", "10.1.1.4", nsg)
	w, err := world.New(aws.State{Azure: &b.State}, world.Options{Clock: time.Now, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	w.ReadAzure(func(c *simazure.Cloud, _ time.Time) {
		p := c.Principals()[0]
		rows, _ = c.GraphRows(&p, "resources", nil)
	})
	raw, err := json.Marshal(map[string]any{"data": rows, "count": len(rows), "total_records": len(rows)})
	if err != nil {
		t.Fatal(err)
	}
	snapshot := file(t, "graph.json", string(raw))
	r := nephele(t, azureManifests, "plan", "-f", "-", "--snapshot", snapshot)
	for _, want := range []string{"account vms/azure\n", "region westeurope\n", "  + security group ", "ingress tcp 22 from 10.0.0.0/8"} {
		if r.code != ExitNo || !strings.Contains(r.stdout, want) {
			t.Errorf("exit %d, no %q in\n%s%s", r.code, want, r.stdout, r.err)
		}
	}
	secret := func(id string) string {
		return "\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: azure, namespace: vms}\nstringData: {credentials: '{\"subscriptionId\": \"" + id + "\"}'}\n"
	}
	if r := nephele(t, azureManifests+secret(subscription), "plan", "-f", "-", "--snapshot", snapshot); r.code != ExitNo {
		t.Errorf("with its Secret: exit %d, %s", r.code, r.err)
	}
	for _, c := range []struct{ manifests, snapshot, want string }{
		{azureManifests + secret("11111111-bbbb-4ccc-8ddd-eeeeeeeeeeee"), snapshot, "it has the subscriptions " + subscription + ", and the account's Secret names 11111111-"},
		{azureManifests + "---" + previewtest.HybridManifests, snapshot, "a snapshot is of one cloud"},
		{azureManifests, file(t, "vms.json", `{"Reservations": []}`), "no answer of Resource Graph"},
		{azureManifests, snapshot + ".none", "no such file"},
		{strings.ReplaceAll(azureManifests, "[westeurope]", "[northeurope]"), snapshot, "there is nothing of the region northeurope; there is of westeurope"},
	} {
		if r := nephele(t, c.manifests, "plan", "-f", "-", "--snapshot", c.snapshot); r.code != ExitBadInput || !strings.Contains(r.err, c.want) {
			t.Errorf("exit %d, %s; want %s", r.code, r.err, c.want)
		}
	}
}
