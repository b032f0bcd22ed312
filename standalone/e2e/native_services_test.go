package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/native"
)

const nativeEstate = `
accounts:
- id: "111122223333"
  regions:
  - name: eu-west-1
    vpcs:
    - name: shop
      id: vpc-00000001
      cidrs: [10.1.0.0/16]
      groups:
      - {name: app, rules: ["tcp 22 from 10.1.0.0/16"]}
      - {name: web, rules: ["tcp 80 from any"]}
      - {name: db, rules: ["tcp 1-65535 from 10.1.0.0/16"]}
      vms:
      - {name: app-1, ip: 10.1.1.10, groups: [app], tags: {role: app}}
      - {name: job-1, ip: 10.1.1.11, groups: [app], tags: {role: job}}
      targetGroups:
      - {name: web, protocol: HTTP, port: 8080, targets: [app-1]}
      - {name: raw, protocol: TCP, port: 8081, targets: [app-1]}
      services:
      - {kind: database, name: orders, engine: postgres, multiZone: true, groups: [db]}
      - {kind: cache, name: pages, engine: memcached, groups: [db]}
      - {kind: application-load-balancer, name: front, groups: [web], listeners: [HTTP 80 to web]}
      - {kind: network-load-balancer, name: pass, listeners: [TCP 81 to raw]}
`

// TestNativeServices: a policy lets a VM reach a database by its name and the port postgres, and
// nothing else; a failover is followed; a policy on the database guards it, through another
// failover, and gives it back as it was; so does one on a cache; a policy on a load balancer that
// takes no groups is refused with the reason; and a right that is missing is told, while
// everything goes on.
func TestNativeServices(t *testing.T) {
	t.Parallel()
	im := newNativeArena(t, nativeEstate, sim.DefaultEventQueue)
	server := im.server
	database, cache := &cloudv1.CloudNativeService{}, &cloudv1.CloudNativeService{}
	find := func(ctx context.Context) (bool, string) {
		var list cloudv1.CloudNativeServiceList
		err := im.c.client.List(ctx, &list, client.InNamespace(vmNamespace))
		for i := range list.Items {
			switch list.Items[i].Status.CloudName {
			case "orders":
				*database = list.Items[i]
			case "pages":
				*cache = list.Items[i]
			}
		}
		return len(list.Items) == 4 && database.Status.DNSName != "" && len(database.Status.NetworkInterfaces) == 1 && len(cache.Status.NetworkInterfaces) == 1,
			fmt.Sprintf("%+v %v", list.Items, err)
	}
	eventually(t, "the services are imported", find)
	addr := func(s *cloudv1.CloudNativeService) netip.Addr {
		return netip.MustParseAddr(s.Status.NetworkInterfaces[0].IPs[0].Address)
	}
	at := func() netip.Addr { return addr(database) }
	entity := &v1alpha2.ExternalEntity{}
	must(t, im.c.client.Get(t.Context(), client.ObjectKey{Namespace: vmNamespace, Name: cloudv1.ServiceEntityNamePrefix + database.Name}, entity))
	if len(entity.Spec.Ports) != 1 || entity.Spec.Ports[0].Name != "postgres" || entity.Spec.Ports[0].Port != 5432 {
		t.Errorf("%+v", entity.Spec)
	}

	policies := decodePolicies(t, `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: `+vmNamespace+`, name: app-to-db}
spec:
  priority: 5
  tier: application
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: app}}}]
  egress:
  - action: Allow
    to: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-name: orders}}}]
    ports: [{protocol: TCP, port: postgres}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: `+vmNamespace+`, name: on-cache}
spec:
  priority: 7
  tier: application
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-kind: ElastiCacheCluster}}}]
  ingress:
  - {action: Drop, from: [{ipBlock: {cidr: 10.1.1.11/32}}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: `+vmNamespace+`, name: on-db}
spec:
  priority: 6
  tier: application
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-kind: RDSInstance}}}]
  ingress:
  - {action: Drop, from: [{ipBlock: {cidr: 10.1.1.11/32}}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: `+vmNamespace+`, name: on-pass}
spec:
  priority: 8
  tier: application
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-service-name: pass}}}]
  ingress:
  - {action: Drop, from: [{ipBlock: {cidr: 10.1.1.11/32}}]}
`)
	im.create(policies[0])
	allowed := func(from string, to netip.Addr, port int) bool { return im.passes(netip.MustParseAddr(from), to, port) }
	job := true // whether the other VM may reach the database
	reaches := func(what string, database, not netip.Addr) {
		t.Helper()
		eventually(t, what, func(context.Context) (bool, string) {
			got := []bool{allowed("10.1.1.10", database, 5432), allowed("10.1.1.10", database, 22), allowed("10.1.1.10", not, 5432),
				allowed("10.1.1.10", netip.MustParseAddr("10.1.1.11"), 22), allowed("10.1.1.11", database, 5432)}
			return fmt.Sprint(got) == fmt.Sprint([]bool{true, false, false, false, job}), fmt.Sprint(got)
		})
	}
	was := at()
	reaches("app-1 reaches the database and nothing else", was, netip.MustParseAddr("10.1.200.200"))

	// Failover: the database has another address.
	failover := func() {
		t.Helper()
		was = at()
		answer, err := http.Post(server.URL()+"/_sim/failover?kind=database&name=orders", "", nil)
		must(t, err)
		must(t, answer.Body.Close())
		eventually(t, "the database is seen elsewhere", func(ctx context.Context) (bool, string) {
			ok, why := find(ctx)
			return ok && at() != was, why
		})
	}
	failover()
	reaches("app-1 follows the database", at(), was)

	// A policy on the database is enforced there, wherever the database is.
	own := database.Status.SecurityGroupIds
	im.create(policies[2])
	job = false
	reaches("the database is guarded", at(), was)
	eventually(t, "the database says what it had", func(ctx context.Context) (bool, string) {
		ok, why := find(ctx)
		return ok && slices.Equal(database.Status.FormerSecurityGroupIds, own) && !slices.Equal(database.Status.SecurityGroupIds, own) && database.Status.Settable, why
	})
	failover()
	reaches("the database is guarded elsewhere", at(), was)

	// A policy on the cache is enforced there.
	stored := func(kind native.Kind, name string) native.Service {
		r, err := server.World().Region(nativeAccount, nativeRegion)
		must(t, err)
		s, err := r.Services().Get(native.Ref{Kind: kind, Name: name})
		must(t, err)
		return s
	}
	cacheHad := stored(native.Cache, "pages").Groups
	cacheReached := func(what string, fromJob bool) {
		t.Helper()
		eventually(t, what, func(context.Context) (bool, string) {
			got := []bool{allowed("10.1.1.12", addr(cache), 11211), allowed("10.1.1.11", addr(cache), 11211)}
			return got[0] && got[1] == fromJob, fmt.Sprint(got)
		})
	}
	cacheReached("the cache is open to its VPC", true)
	im.create(policies[1])
	cacheReached("the cache is guarded", false)
	must(t, im.c.client.Delete(t.Context(), policies[1]))
	cacheReached("the cache is given back", true)
	givenBack := func(kind native.Kind, name string, had []string) {
		t.Helper()
		eventually(t, "nothing is left on "+name, func(context.Context) (bool, string) {
			s := stored(kind, name)
			return slices.Equal(s.Groups, had) && s.Tags[cloud.TagFormer] == "" && s.Tags[cloud.TagSignature] == "", fmt.Sprintf("%v %v, had %v", s.Groups, s.Tags, had)
		})
	}
	givenBack(native.Cache, "pages", cacheHad)

	// A policy on a load balancer that was made without groups is not enforced, and says so.
	im.create(policies[3])
	eventually(t, "the policy on the load balancer is refused", func(ctx context.Context) (bool, string) {
		p := &v1beta1.NetworkPolicy{}
		err := im.c.client.Get(ctx, client.ObjectKeyFromObject(policies[3]), p)
		text := fmt.Sprintf("%+v", p.Status)
		return err == nil && p.Status.Phase == v1beta1.NetworkPolicyFailed && strings.Contains(text, "is a native service whose security groups cannot be set"), text
	})

	// The policy goes, and the database has its own group, and no tag of ours.
	must(t, im.c.client.Delete(t.Context(), policies[2]))
	job = true
	reaches("the database is given back", at(), was)
	givenBack(native.Database, "orders", own)

	// A right that is missing.
	im.refuse("DescribeDBInstances", "rds:DescribeDBInstances")
	reaches("the database stays known", at(), was)
}
