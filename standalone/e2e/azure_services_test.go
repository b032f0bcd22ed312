package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
)

// azureServicesPolicies: a client reaches a VM through a load balancer and through a gateway only,
// by their names and ports, and the VM a database by its private endpoint. The last one is on the
// endpoint itself, which has no group that could be set.
const azureServicesPolicies = `
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {namespace: ns-a, name: services}
spec: {accountNamespace: ns-a, accountName: azure, nativeSelector: [{vpcMatch: {matchID: "{VNET}"}}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: ns-a, name: web}
spec:
  priority: 6
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: web}}}]
  ingress:
  - action: Allow
    from:
    - {externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: ops}}}
    - {externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-kind: ApplicationGateway}}}
    ports: [{protocol: TCP, port: 8080}]
  egress:
  - action: Allow
    to: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-name: orders}}}]
    ports: [{protocol: TCP, port: sqlserver}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: ns-a, name: ops}
spec:
  priority: 7
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: ops}}}]
  egress:
  - action: Allow
    to: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-name: front}}}]
    ports: [{protocol: TCP, port: tcp}]
  - action: Allow
    to: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-name: gate}}}]
    ports: [{protocol: TCP, port: http}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: ns-a, name: on-orders}
spec:
  priority: 8
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-name: orders}}}]
  ingress:
  - {action: Drop, from: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: ops}}}]}
`

// latePolicy changes what the client's own group says.
const latePolicy = `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: ns-a, name: late}
spec:
  priority: 9
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: ops}}}]
  ingress:
  - {action: Drop, from: [{ipBlock: {cidr: 203.0.113.7/32}}]}
`

// TestAzureServices goes over all hops of an estate with every kind of Azure's services: client to
// load balancer and gateway, both of these to the VM behind them with their health checks, and VM
// to a database behind a private endpoint, which moves. A right that is withdrawn is told, and
// changes nothing; a policy on what cannot be set says why; and everything is given back.
func TestAzureServices(t *testing.T) {
	t.Parallel()
	a := newAzureArena(t, func(a *azureArena, b *build.Builder, vnet string) {
		_, a.nics["orders"] = b.Endpoint("shop", "orders", vnet+"/subnets/links", "10.1.4.4", "sqlServer", nil)
		front := b.Balancer("shop", "front", vnet+"/subnets/fronts", "10.1.3.10", nil, build.Listening{Protocol: "Tcp", Port: 80, To: 8080, Probe: 8081, Pool: "web"})
		gate := b.Gateway("shop", "gate", vnet+"/subnets/gate", "10.1.2.20", nil, build.Listening{Protocol: "Http", Port: 80, To: 8080, Probe: 8080, Pool: "web"})
		b.Behind(a.nics["web"], front+"/backendAddressPools/web", false)
		b.Behind(a.nics["web"], gate+"/backendAddressPools/web", true)
	})
	if err := a.hops(); err == nil {
		t.Fatal("the hops are as wanted before there is a policy, so this shows nothing")
	}
	objects := a.objectsOf(azureServicesPolicies)
	for _, o := range objects {
		a.create(o)
	}
	eventuallyNil(t, "every hop is as the policies say", func(context.Context) error { return a.hops() })
	a.servicesRead(t, metav1.ConditionTrue, "")
	eventually(t, "the policy on the endpoint says why it is not enforced", func(ctx context.Context) (bool, string) {
		s, err := a.service(ctx, "orders")
		return err == nil && len(s.Status.Policies) == 1 && s.Status.Policies[0].Phase == cloudv1.PolicyPhaseFailed &&
			strings.Contains(s.Status.Policies[0].Message, "private endpoint"), fmt.Sprintf("%v %+v", err, s.Status)
	})

	// The endpoint moves, and the VM follows; its old address is nobody's.
	a.byHand(a.nics["orders"], func(doc map[string]any) {
		p, _ := doc["properties"].(map[string]any)
		for _, c := range p["ipConfigurations"].([]any) {
			at := c.(map[string]any)["properties"].(map[string]any)
			at["privateIPAddress"], at["privateIPAllocationMethod"] = "10.1.4.9", "Static"
		}
	})
	eventually(t, "the endpoint's new address is known", func(ctx context.Context) (bool, string) {
		s, err := a.service(ctx, "orders")
		return err == nil && s.Status.Addresses == "10.1.4.9", fmt.Sprintf("%v %+v", err, s.Status)
	})
	eventuallyNil(t, "the VM follows the endpoint", func(context.Context) error { return a.hops() })

	// Without the right to read load balancers everything stays as it is.
	a.withdraw(t, "Microsoft.Network/loadBalancers/read")
	a.servicesRead(t, metav1.ConditionFalse, "Microsoft.Network/loadBalancers/read")
	must(t, a.hops())
	// A new process has never read them, and knows them none the less.
	a.restart()
	must(t, a.c.client.Delete(t.Context(), objects[3]))
	eventually(t, "the new process is at work", func(ctx context.Context) (bool, string) {
		s, err := a.service(ctx, "orders")
		return err == nil && len(s.Status.Policies) == 0, fmt.Sprintf("%v %+v", err, s.Status)
	})
	late := a.objectsOf(latePolicy)[0]
	a.create(late)
	eventually(t, "the new process has planned and written", func(ctx context.Context) (bool, string) {
		realized, all, err := a.realizedOn(ctx, "ops", "late")
		return realized && !a.passes("203.0.113.7", "ops", 22), fmt.Sprintf("%v %+v", err, all)
	})
	must(t, a.hops())
	for name, at := range map[string]string{"front": "10.1.3.10", "gate": "10.1.2."} {
		if s, err := a.service(t.Context(), name); err != nil || !strings.HasPrefix(s.Status.Addresses, at) {
			t.Errorf("%s: %v %+v", name, err, s.Status)
		}
	}
	a.withdraw(t)
	a.servicesRead(t, metav1.ConditionTrue, "")
	must(t, a.hops())

	for _, o := range slices.Concat(objects[1:3], []*unstructured.Unstructured{late}, a.objectsOf(azureOwner)[3:]) {
		must(t, a.c.client.Delete(t.Context(), o))
	}
	a.givenBack(t)
}

// hops is nil if each hop is as the policies say.
func (a *azureArena) hops() error {
	var all []error
	say := func(what string, got, want bool) {
		if got != want {
			all = append(all, fmt.Errorf("%s: %t", what, got))
		}
	}
	for _, f := range []struct {
		from, front string
		passes      bool
	}{
		{"ops", "10.1.3.10", true}, {"db", "10.1.3.10", false}, // the VM sees the client
		{"ops", "10.1.2.20", true}, {"db", "10.1.2.20", true}, // the VM sees the gateway
	} {
		p, health := a.through(f.from, f.front)
		say(f.from+" -> "+f.front+" -> web passes", p, f.passes)
		say("health checks of "+f.front, health, true)
	}
	say("ops -> web", a.passes("ops", "web", 8080), false)
	say("db -> web", a.passes("db", "web", 8080), false)
	say("web -> orders:1433", a.passes("web", "orders", 1433), true)
	say("web -> orders:1434", a.passes("web", "orders", 1434), false)
	say("web -> db", a.passes("web", "db", 5432), false)
	return errors.Join(all...)
}

// through asks the simulator whether a flow to port 80 of a front end comes to a target, and
// whether the health checks do.
func (a *azureArena) through(from, front string) (passes, health bool) {
	a.t.Helper()
	var p simazure.Passage
	var found bool
	var err error
	a.server.World().ReadAzure(func(c *simazure.Cloud, _ time.Time) {
		p, found, err = c.Verdicts().Through(simazure.Flow{Src: simazure.End{NIC: a.nics[from]}, Dst: simazure.End{Addr: netip.MustParseAddr(front)}, Protocol: 6, Port: 80})
	})
	must(a.t, err)
	if !found || !p.Listens || len(p.Targets) != 1 || p.Targets[0].Health == nil {
		a.t.Fatalf("%s: %t %+v", front, found, p)
	}
	return p.Entry.Allowed && p.Targets[0].Verdict.Allowed, p.Targets[0].Health.Allowed
}

// service is a native service by its name in the cloud.
func (a *azureArena) service(ctx context.Context, name string) (cloudv1.CloudNativeService, error) {
	return serviceNamed(ctx, a.c.client, ownerNS, name)
}

// realizedOn reports whether a policy is realized on a VM, and what is told of all that are on it.
func (a *azureArena) realizedOn(ctx context.Context, vm, policy string) (bool, []cloudv1.AppliedPolicy, error) {
	var all cloudv1.VirtualMachineList
	if err := a.c.client.List(ctx, &all, client.InNamespace(ownerNS)); err != nil {
		return false, nil, err
	}
	for _, v := range all.Items {
		if v.Status.CloudName == vm {
			return slices.ContainsFunc(v.Status.Policies, func(p cloudv1.AppliedPolicy) bool {
				return p.Name == policy && p.Phase == cloudv1.PolicyPhaseRealized
			}), v.Status.Policies, nil
		}
	}
	return false, nil, fmt.Errorf("there is no %s among %d VMs", vm, len(all.Items))
}

// withdraw takes actions out of the role, and gives back all others.
func (a *azureArena) withdraw(t *testing.T, actions ...string) {
	t.Helper()
	must(t, a.server.World().ChangeAzure("", "", "by hand", func(c *simazure.Cloud, _ time.Time) ([]string, error) {
		p := c.Principals()[0]
		p.Assignments = slices.Clone(p.Assignments)
		p.Assignments[0].Role.NotActions = actions
		c.SetPrincipal(p)
		return nil, nil
	}))
}

// servicesRead waits for the condition of the account.
func (a *azureArena) servicesRead(t *testing.T, want metav1.ConditionStatus, names string) {
	t.Helper()
	eventually(t, "ServicesRead is "+string(want), func(ctx context.Context) (bool, string) {
		var account cloudv1.CloudProviderAccount
		err := a.c.client.Get(ctx, client.ObjectKey{Namespace: ownerNS, Name: "azure"}, &account)
		c := meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionServicesRead)
		return err == nil && c != nil && c.Status == want && strings.Contains(c.Message, names), fmt.Sprintf("%v %+v", err, c)
	})
}
