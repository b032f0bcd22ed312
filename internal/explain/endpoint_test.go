package explain_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
)

// TestPolicyNamesPrivateEndpoint: a policy of a VM in Azure names a database by its labels and its
// port by its name; the plan that follows lets through what it says and nothing else, as the
// simulator sees it and as explain tells it; a policy on the endpoint is refused with the reason.
func TestPolicyNamesPrivateEndpoint(t *testing.T) {
	t.Parallel()
	const subscription, tenant = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
	b := build.New(tenant, subscription, "westeurope")
	client := b.Principal("nephele", "secret")
	vnet := b.Network("shop", "shop", []string{"10.1.0.0/16"}, []string{"all", "10.1.1.0/24"})
	_, nic := b.Machine("shop", "app", vnet+"/subnets/all", "10.1.1.11", "")
	_, sql := b.Endpoint("shop", "orders", vnet+"/subnets/all", "10.1.1.21", "sqlServer", map[string]string{"team": "shop"})
	_, blob := b.Endpoint("shop", "pages", vnet+"/subnets/all", "10.1.1.22", "blob", nil)
	server, err := sim.Start(t.Context(), sim.Options{State: aws.State{Azure: &b.State}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	account, err := azure.New(azure.Config{
		Credential: cloudv1alpha1.AzureCredential{SubscriptionID: subscription, TenantID: tenant, ClientID: client, ClientKey: "secret"}, Account: "vms/a", Cluster: "test",
		Cloud: &cloudv1alpha1.AzureCloud{Authority: server.AzureURL(), ResourceManager: server.AzureURL(), Audience: "https://management.azure.com", CABundle: string(server.AzureCertificate())},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &previewtest.World{Server: server, Provider: account}
	want := func() {
		t.Helper()
		w.Planner = previewtest.Planner(t, account, previewtest.Imports("azureConfig: {region: [westeurope]", "{vmMatch: [{matchName: app}]}", "{kind: PrivateEndpoint}", `---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: app-to-orders, namespace: vms}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: app}}}]
  egress:
  - action: Allow
    to: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-name: orders}}}]
    ports: [{protocol: TCP, port: sqlserver}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: on-orders, namespace: vms}
spec:
  priority: 6
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-name: orders}}}]
  ingress: [{action: Drop}]
`))
	}
	want()
	made, err := w.Planner.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answer := w.Planner.Answer(made)
	refused := ""
	for _, r := range answer.Accounts[0].Refusals {
		refused += r.Policy + ": " + r.Message + "\n"
	}
	if !strings.Contains(refused, "on-orders") || strings.Contains(refused, "app-to-orders") {
		t.Errorf("refused: %s", refused)
	}
	want()
	w.Perform(t, -1)
	want()
	c, err := w.Planner.ReadAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		nic, to, port string
		passes        bool
	}{{sql, "10.1.1.21", "1433", true}, {sql, "10.1.1.21", "443", false}, {blob, "10.1.1.22", "443", false}, {blob, "10.1.1.22", "1433", false}} {
		got, err := c.Computed.Answer(explain.Question{From: "vms/app", To: x.to, Protocol: "TCP", Port: x.port})
		if err != nil {
			t.Fatal(err)
		}
		flow := simazure.Flow{Src: simazure.End{NIC: nic}, Dst: simazure.End{Addr: netip.MustParseAddr(x.to)}, Protocol: 6, Port: map[string]int{"1433": 1433, "443": 443}[x.port]}
		var truth simazure.Verdict
		server.World().ReadAzure(func(c *simazure.Cloud, _ time.Time) { truth, err = c.Verdicts().Allowed(flow) })
		if err != nil || truth.Allowed != x.passes || (got.Verdict == "Allow") != x.passes {
			t.Errorf("%s port %s: want %t, the simulator says %+v (%v)\n%s", x.to, x.port, x.passes, truth, err, previewtest.JSON(got))
		}
	}
}
