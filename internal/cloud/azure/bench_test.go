package azure_test

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	"github.com/nephele-io/nephele/internal/sim/arm"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// BenchmarkImportServices reads a subscription of 1,000 services: 700 private endpoints, 250 load
// balancers and 50 application gateways, each of these in a subnet of its own.
func BenchmarkImportServices(b *testing.B) {
	made := build.New(tenantID, subscription, region)
	client := made.Principal("nephele", secret)
	subnets := [][]string{{"web", "10.1.0.0/17"}}
	for i := range 50 {
		subnets = append(subnets, []string{fmt.Sprint("gate", i), fmt.Sprintf("10.1.%d.%d/28", 128+i/16, i%16*16)})
	}
	network := made.Network("shop", "net", []string{"10.1.0.0/16"}, subnets...)
	for i := range 700 {
		made.Endpoint("shop", fmt.Sprint("endpoint", i), network+"/subnets/web", fmt.Sprintf("10.1.%d.%d", 1+i/200, 10+i%200), "sqlServer", nil)
	}
	for i := range 250 {
		made.Balancer("shop", fmt.Sprint("balancer", i), network+"/subnets/web", fmt.Sprintf("10.1.%d.%d", 40+i/200, 10+i%200), nil,
			build.Listening{Protocol: "Tcp", Port: 1433, To: 1433, Probe: 59999, Pool: "sql"})
	}
	for i := range 50 {
		made.Gateway("shop", fmt.Sprint("gateway", i), fmt.Sprintf("%s/subnets/gate%d", network, i), fmt.Sprintf("10.1.%d.%d", 128+i/16, i%16*16+9), nil,
			build.Listening{Protocol: "Https", Port: 443, To: 8080, Probe: 8081, Pool: "web"})
	}
	w, err := world.New(aws.State{Azure: &made.State}, world.Options{Clock: time.Now, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewTLSServer(arm.NewHandler(arm.Config{World: w, Clock: time.Now}))
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for b.Loop() {
		a, err := azure.New(azure.Config{
			Credential: v1alpha1.AzureCredential{SubscriptionID: subscription, TenantID: tenantID, ClientID: client, ClientKey: secret}, Account: "shop/azure",
			Cloud: &v1alpha1.AzureCloud{Authority: server.URL, ResourceManager: server.URL, Audience: "https://management.azure.com", CABundle: string(ca)}, Now: time.Now,
		})
		if err != nil {
			b.Fatal(err)
		}
		snap, err := a.Show(cloud.ServiceKinds()).Observe(b.Context(), inRegion)
		if err != nil || len(snap.Services) != 1000 || len(snap.ServiceFaults) > 0 {
			b.Fatalf("%v: %d services, %+v", err, len(snap.Services), snap.ServiceFaults)
		}
		for i := range snap.Services {
			if s := &snap.Services[i]; len(s.Private) == 0 || len(s.Ports) == 0 {
				b.Fatalf("%s has %v and %v", s.ID, s.Private, s.Ports)
			}
		}
	}
}
