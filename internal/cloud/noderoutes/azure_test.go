package noderoutes

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	"github.com/nephele-io/nephele/internal/sim/arm"
	"github.com/nephele-io/nephele/internal/sim/aws"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	simworld "github.com/nephele-io/nephele/internal/sim/world"
)

// TestPacketsArriveOnAzure: while an account asks for it, what a Node of another subnet sends to a
// Pod arrives at the Pod's Node, over the wire of Azure; and then all is as before.
func TestPacketsArriveOnAzure(t *testing.T) {
	const tenant, subscription, secret = "11111111-2222-4333-8444-555555555555", "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee", "secret"
	b := build.New(tenant, subscription, "westeurope")
	id := b.Principal("nephele", secret)
	vnet := b.Network("g", "net", []string{"10.1.0.0/16"}, []string{"one", "10.1.1.0/24"}, []string{"two", "10.1.2.0/24"})
	machine, nic := b.Machine("g", "a", vnet+"/subnets/one", "10.1.1.4", "")
	_, sender := b.Machine("g", "b", vnet+"/subnets/two", "10.1.2.4", "")
	table := b.RouteTable("g", "nodes", vnet+"/subnets/one", vnet+"/subnets/two")
	now := time.Unix(1_800_000_000, 0)
	world, err := simworld.New(aws.State{Azure: &b.State}, simworld.Options{Clock: func() time.Time { return now }, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(arm.NewHandler(arm.Config{World: world, Clock: func() time.Time { return now }}))
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	provider, err := azure.New(azure.Config{
		Credential: cloudv1.AzureCredential{SubscriptionID: subscription, TenantID: tenant, ClientID: id, ClientKey: secret}, Account: "ops/azure", Now: func() time.Time { return now },
		Cloud: &cloudv1.AzureCloud{Authority: server.URL, ResourceManager: server.URL, Audience: "https://management.azure.com", CABundle: string(ca)},
	})
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(cloudv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "azure"}, Spec: cloudv1.CloudProviderAccountSpec{
		AzureConfig: &cloudv1.CloudProviderAccountAzureConfig{Region: []string{"westeurope"},
			NodeRoutes: &cloudv1.AzureNodeRoutes{ClusterCIDRs: []string{"10.244.0.0/16"}, RouteTables: []string{table}}},
	}}
	n := node("a", "", "10.1.1.4", "10.244.1.0/24")
	n.Spec.ProviderID = "azure://" + machine
	kube := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(account).WithObjects(account, n).Build()
	loop := New(Options{Client: kube, Cluster: "us", Provider: func(string) (cloud.Provider, bool) { return provider, true }, Events: events.NewFakeRecorder(10),
		Clock: clocktesting.NewFakeClock(now), Log: logr.Discard()})
	round := func() (arrives bool, condition, left string) {
		t.Helper()
		loop.round(t.Context())
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(account), account); err != nil {
			t.Fatal(err)
		}
		if c := conditionOf(account); c != nil {
			condition = c.Reason + ": " + c.Message
		}
		world.ReadAzure(func(c *simazure.Cloud, _ time.Time) {
			v, by, err := c.Verdicts().Led(simazure.Packet{NIC: sender, Src: netip.MustParseAddr("10.1.2.4"), Dst: netip.MustParseAddr("10.244.1.7"), Protocol: 6, Port: 80})
			if err != nil {
				t.Fatal(err)
			}
			arrives = v.Allowed && by == nic
			for _, r := range c.State().Resources {
				if routes, _ := r.Properties["routes"].([]any); len(routes) > 0 || strings.Contains(fmt.Sprint(r.Tags), "nephele") || r.Properties["enableIPForwarding"] == true {
					left += r.ID + " "
				}
			}
		})
		return arrives, condition, left
	}
	for range 2 {
		if arrives, condition, _ := round(); !arrives || condition != "OK: 1 routes lead to Pods of the cluster's 1 Nodes" {
			t.Errorf("it arrives: %t, %s", arrives, condition)
		}
	}
	account.Spec.AzureConfig.NodeRoutes = nil
	if err := kube.Update(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	if arrives, condition, left := round(); arrives || condition != "" || left != "" || account.Status.NodeRoutes != nil {
		t.Errorf("it arrives: %t, %s, left %s %+v", arrives, condition, left, account.Status.NodeRoutes)
	}
}
