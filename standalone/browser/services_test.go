package browser

import (
	"context"
	"fmt"
	"testing"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/native"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// services makes a database, two load balancers in front of VMs, and an interface of nobody.
func (p *place) services(r *world.Region, vpc, subnet, group string) {
	t := p.t
	var vms []native.Target
	for _, name := range []string{"web-1", "web-2"} {
		vms = append(vms, native.Target{ID: p.vms[name].Attachment.InstanceID})
	}
	at := native.Service{Account: cloudAccount, Region: region, VPCID: vpc, Subnets: []string{subnet}, Nodes: []native.Node{{SubnetID: subnet}}}
	database := at
	database.Kind, database.Name, database.Engine, database.Groups, database.Tags = native.Database, "orders", "postgres", []string{group}, map[string]string{"team": hostile}
	_, err := r.Services().Create(database)
	must(t, err)
	for kind, name := range map[native.Kind]string{native.AppBalancer: "front", native.NetBalancer: "pass"} {
		protocol := map[native.Kind]string{native.AppBalancer: "HTTPS", native.NetBalancer: "TCP"}[kind]
		target := name + "/" + native.Hex(name)
		must(t, r.Services().PutTargetGroup(native.TargetGroup{
			Name: target, Account: cloudAccount, Region: region, VPCID: vpc, Type: "instance", Protocol: protocol, Port: 443, HealthPort: 8080, Targets: vms,
		}))
		balancer := at
		balancer.Kind, balancer.Name = kind, native.BalancerName(kind, cloudAccount, region, name)
		balancer.Listeners = []native.Listener{{ID: native.Hex(name, "443"), Protocol: protocol, Port: 443, Target: target}}
		if kind == native.AppBalancer {
			balancer.Groups = []string{group}
		}
		_, err := r.Services().Create(balancer)
		must(t, err)
	}
	_, err = r.Interfaces().CreateNetworkInterface(aws.InterfaceSpec{SubnetID: subnet, GroupIDs: []string{group}, Description: hostile}, aws.Tags{"Name": "spare"}, "")
	must(t, err)
}

// selectServices imports them, and applies a policy to the database that VMs of the application may
// use, and to the load balancer whose groups cannot be set.
func (p *place) selectServices() {
	p.apply(servicesSetting)
	p.wait("the policies on services are told", func(ctx context.Context) (bool, string) {
		var list cloudv1.CloudNativeServiceList
		must(p.t, p.client.List(ctx, &list))
		told := map[string]string{}
		for i := range list.Items {
			s := &list.Items[i].Status
			for _, on := range s.Policies {
				told[s.CloudName] = string(on.Phase)
			}
		}
		return len(list.Items) == 3 && told["orders"] == "Realized" && told["pass"] == "Failed", fmt.Sprint(told)
	})
}

// playServices shows them in all places where VMs are.
func (p *place) playServices(t *testing.T) {
	p.selectServices()
	p.play(t, "services", p.console(t, "", true), nil)
	t.Run("released alone", func(t *testing.T) {
		onlyLong(t, "an emergency releases a VM by the same dialog; TestReleaseOfService (internal/cloud/inventory)")
		p.play(t, "database", p.console(t, "", true), nil)
	})
}

const servicesSetting = `apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {name: services, namespace: shop}
spec:
  accountName: cloud
  accountNamespace: shop
  nativeSelector: [{kind: RDSInstance}, {kind: ApplicationLoadBalancer}, {kind: NetworkLoadBalancer}]
  interfaceSelector: [{interfaceMatch: [{matchName: spare}]}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: on-services, namespace: shop}
spec:
  tier: application
  priority: 15
  appliedTo:
  - externalEntitySelector:
      matchExpressions: [{key: nephe.antrea.io/cloud-service-name, operator: In, values: [orders, pass]}]
  ingress:
  - name: postgres
    action: Allow
    from: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: app}}}]
    ports: [{protocol: TCP, port: 5432}]`
