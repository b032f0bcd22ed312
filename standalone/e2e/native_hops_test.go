package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim/native"
	"github.com/nephele-io/nephele/internal/tier"
)

const hopsEstate = `
accounts:
- id: "111122223333"
  regions:
  - name: eu-west-1
    vpcs:
    - name: shop
      id: vpc-00000001
      cidrs: [10.1.0.0/16]
      groups:
      - {name: app, rules: ["all from 10.1.0.0/16"]}
      - {name: web, rules: ["tcp 80 from any"]}
      - {name: db, rules: ["all from 10.1.0.0/16"]}
      - {name: db2, rules: ["all from 10.1.0.0/16"]}
      vms:
      - {name: app-1, ip: 10.1.1.10, groups: [app], tags: {role: app}}
      - {name: job-1, ip: 10.1.1.11, groups: [app], tags: {role: job}}
      targetGroups:
      - {name: web, protocol: HTTP, port: 8080, targets: [app-1]}
      - {name: raw, protocol: TCP, port: 8081, targets: [app-1]}
      services:
      - {kind: database, name: orders, engine: postgres, groups: [db]}
      - {kind: database-cluster, name: sales, engine: aurora-mysql, members: 2, groups: [db2]}
      - {kind: cache, name: pages, engine: memcached, groups: [db]}
      - {kind: replication-group, name: sessions, engine: redis, members: 2, groups: [db]}
      - {kind: application-load-balancer, name: front, groups: [web], listeners: [HTTP 80 to web]}
      - {kind: network-load-balancer, name: pass, listeners: [TCP 81 to raw]}
      - {kind: gateway-load-balancer, name: probe}
      - {kind: endpoint, name: queue, service: com.amazonaws.eu-west-1.sqs, groups: [db]}
      - {kind: function, name: resize, groups: [app]}
      - {kind: file-system, name: homes, groups: [db]}
`

// hopsPolicies: the application takes traffic from the load balancer in front of it, and from the
// VM of jobs through the one that keeps the client's address, which has to be allowed by address;
// it reaches every store by its kind. Of the stores only the application may have what they offer.
// The last policy is on a function, whose groups cannot be set.
const hopsPolicies = `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: {NS}, name: app}
spec:
  priority: 5
  tier: application
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: app}}}]
  ingress:
  - action: Allow
    from: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-name: front}}}]
    ports: [{protocol: TCP, port: 8080}]
  - action: Allow
    from:
    - {ipBlock: {cidr: 10.1.1.11/32}}
    - {externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-name: pass}}}
    ports: [{protocol: TCP, port: 8081}]
  egress:
  - action: Allow
    to: [{externalEntitySelector: {matchExpressions: [{key: nephe.antrea.io/cloud-service-name, operator: In, values: [orders, sales, pages, sessions]}]}}]
    ports: [{protocol: TCP, port: postgres}, {protocol: TCP, port: mysql}, {protocol: TCP, port: memcached}, {protocol: TCP, port: redis}]
  - action: Allow
    to: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-kind: EFSFileSystem}}}]
    ports: [{protocol: TCP, port: nfs}]
  - action: Allow
    to: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-kind: VPCEndpoint}}}]
    ports: [{protocol: TCP, port: https}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: {NS}, name: stores}
spec:
  priority: 6
  tier: application
  appliedTo:
  - externalEntitySelector:
      matchExpressions:
      - key: nephe.antrea.io/cloud-service-kind
        operator: In
        values: [RDSInstance, RDSCluster, ElastiCacheCluster, ElastiCacheReplicationGroup, VPCEndpoint, EFSFileSystem]
  ingress:
  - action: Allow
    from: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: app}}}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: {NS}, name: front}
spec:
  priority: 7
  tier: application
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-name: front}}}]
  ingress:
  - {action: Drop, from: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-kind: LambdaFunction}}}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: {NS}, name: function}
spec:
  priority: 8
  tier: application
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-kind: LambdaFunction}}}]
  egress:
  - {action: Drop, to: [{ipBlock: {cidr: 10.1.1.11/32}}]}
`

// hopsArena is the estate with every kind of AWS's services, under control.
type hopsArena struct {
	*nativeArena
	// at are the private addresses of each service, by its name in the cloud.
	at map[string][]netip.Addr
}

// TestNativeServiceHops goes over all hops of an estate with every kind of AWS's services: client
// to load balancers, with the client's address kept and not, from these to the VM behind them with
// their health checks, VM to each store and back, and a function. Verdicts are the simulator's. A
// right that is withdrawn for one service leaves all others at work; and in the end every service
// is as it was.
func TestNativeServiceHops(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestServiceFaults, TestServiceRightIsMissing (realize), TestThroughBalancersIsWhatTheCloudDoes (cli); TestNativeServices")
	a := &hopsArena{nativeArena: newNativeArena(t, hopsEstate, "")}
	before := a.services()
	eventuallyNil(t, "every service is imported with its addresses", func(ctx context.Context) error { return a.find(ctx) })
	if err := a.hops(false); err == nil {
		t.Fatal("the hops are as wanted before there is a policy, so this shows nothing")
	}
	policies := decodePolicies(t, strings.ReplaceAll(hopsPolicies, "{NS}", vmNamespace))
	for _, p := range policies {
		a.create(p)
	}
	eventuallyNil(t, "every hop is as the policies say", func(context.Context) error { return a.hops(false) })
	eventually(t, "the policy on the function says why it is not enforced", func(ctx context.Context) (bool, string) {
		s, err := serviceNamed(ctx, a.c.client, vmNamespace, "resize")
		return err == nil && len(s.Status.Policies) == 1 && s.Status.Policies[0].Phase == cloudv1.PolicyPhaseFailed &&
			strings.Contains(s.Status.Policies[0].Message, "is a native service whose security groups cannot be set"), fmt.Sprintf("%v %+v", err, s.Status)
	})

	// Without the right to read caches everything stays as it is, and all others go on.
	a.refuse("DescribeCacheClusters", "elasticache:DescribeCacheClusters")
	must(t, a.hops(false))
	must(t, a.c.client.Delete(t.Context(), policies[2]))
	eventuallyNil(t, "the load balancer is given back, and nothing else", func(context.Context) error { return a.hops(true) })
	a.server.Faults().Clear()

	for _, p := range []client.Object{policies[0], policies[1], policies[3]} {
		must(t, a.c.client.Delete(t.Context(), p))
	}
	eventually(t, "every service is as it was", func(context.Context) (bool, string) {
		diff := cmp.Diff(before, a.services(), cmpopts.EquateComparable(netip.Addr{}))
		return diff == "", diff
	})
}

// services are all native services as the cloud has them, but for when they changed.
func (a *hopsArena) services() []native.Service {
	r, err := a.server.World().Region(nativeAccount, nativeRegion)
	must(a.t, err)
	all := r.Services().List(native.Kinds()...)
	for i := range all {
		all[i].Busy = time.Time{}
		if len(all[i].Tags) == 0 {
			all[i].Tags = nil
		}
	}
	return all
}

// find reads the addresses of the services; it is nil when all are there.
func (a *hopsArena) find(ctx context.Context) error {
	var list cloudv1.CloudNativeServiceList
	if err := a.c.client.List(ctx, &list, client.InNamespace(vmNamespace)); err != nil {
		return err
	}
	a.at = map[string][]netip.Addr{}
	kinds := map[cloudv1.NativeServiceKind]bool{}
	for i := range list.Items {
		s := &list.Items[i].Status
		for _, n := range s.NetworkInterfaces {
			for _, ip := range n.IPs {
				a.at[s.CloudName] = append(a.at[s.CloudName], netip.MustParseAddr(ip.Address))
			}
		}
		if len(a.at[s.CloudName]) > 0 {
			kinds[s.Kind] = true
		}
	}
	want := []cloudv1.NativeServiceKind{
		cloudv1.NativeServiceRDSInstance, cloudv1.NativeServiceRDSCluster, cloudv1.NativeServiceElastiCacheCluster, cloudv1.NativeServiceElastiCacheReplicationGroup,
		cloudv1.NativeServiceApplicationLoadBalancer, cloudv1.NativeServiceNetworkLoadBalancer, cloudv1.NativeServiceGatewayLoadBalancer,
		cloudv1.NativeServiceVPCEndpoint, cloudv1.NativeServiceEFSFileSystem, cloudv1.NativeServiceLambdaFunction,
	}
	for _, k := range want {
		if !kinds[k] {
			return fmt.Errorf("no %s with an address among %v", k, a.at)
		}
	}
	return nil
}

// hops is nil if each hop is as the policies say, with the one on the load balancer or without.
func (a *hopsArena) hops(open bool) error {
	app, job, function := netip.MustParseAddr("10.1.1.10"), netip.MustParseAddr("10.1.1.11"), a.at["resize"][0]
	var all []error
	say := func(what string, got, want bool) {
		if got != want {
			all = append(all, fmt.Errorf("%s: %t", what, got))
		}
	}
	ports := map[string]int{"orders": 5432, "sales": 3306, "pages": 11211, "sessions": 6379}
	for _, s := range a.services() {
		if s.Kind == native.FileSystem {
			ports[s.Name] = 2049
		}
		if s.Kind == native.Endpoint {
			ports[s.Name] = 443
		}
	}
	for name, port := range ports {
		for _, to := range a.at[name] {
			what := fmt.Sprintf("%s at %s:%d", name, to, port)
			say("app -> "+what, a.passes(app, to, port), true)
			say("app -> "+what+"+1", a.passes(app, to, port+1), false)
			say("job -> "+what, a.passes(job, to, port), false)
			say("function -> "+what, a.passes(function, to, port), false)
			say("back: "+name+" -> app", a.passes(to, app, 22), false)
		}
	}
	for _, x := range []struct {
		from         netip.Addr
		front        string
		port         int
		enters, ends bool
	}{
		{job, "front", 80, true, true}, {function, "front", 80, open, true}, // the VM sees the balancer
		{job, "pass", 81, true, true}, {function, "pass", 81, true, false}, // the VM sees the client
	} {
		for _, front := range a.at[x.front] {
			p, found, err := a.server.World().Through(a.flow(x.from, front, x.port))
			must(a.t, err)
			if !found || len(p.Targets) != 1 {
				a.t.Fatalf("%s at %s: %t %+v", x.front, front, found, p)
			}
			what := fmt.Sprintf("%s -> %s at %s", x.from, x.front, front)
			say(what, p.Entry.Allowed, x.enters)
			say(what+" -> app", p.Targets[0].Verdict.Allowed, x.ends)
			say("health checks of "+what, p.Targets[0].Health.Allowed, true)
		}
	}
	say("job -> app", a.passes(job, app, 8080), false)
	say("function -> job, which nothing filters", a.passes(function, job, 22), true)
	for _, gateway := range a.at["probe"] {
		say("the gateway load balancer -> app", a.passes(gateway, app, 8080), false)
	}
	return errors.Join(all...)
}
