package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

const (
	azureTenantID       = "11111111-2222-4333-8444-555555555555"
	azureSubscriptionID = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
	azureRegion         = "westeurope"
	azureShop           = "/subscriptions/" + azureSubscriptionID + "/resourceGroups/shop/providers/Microsoft.Network/"
)

// azureOwner is what the owner has in Kubernetes: the account, what it imports, and a policy.
const azureOwner = `
apiVersion: v1
kind: Secret
metadata: {namespace: ns-a, name: azure}
stringData:
  credentials: '{"subscriptionId": "{SUBSCRIPTION}", "tenantId": "{TENANT}", "clientId": "{CLIENT}", "clientKey": "secret"}'
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {namespace: ns-a, name: azure}
spec:
  pollIntervalInSeconds: 30
  deletionPolicy: Release
  azureConfig:
    region: [westeurope]
    cloud: {authority: "{URL}", resourceManager: "{URL}", audience: "https://management.azure.com", caBundle: {CA}}
    secretRef: {namespace: ns-a, name: azure, key: credentials}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {namespace: ns-a, name: azure}
spec: {accountNamespace: ns-a, accountName: azure, vmSelector: [{vpcMatch: {matchID: "{VNET}"}}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: ns-a, name: databases}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: db}}}]
  ingress:
  - action: Allow
    from: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: web}}}]
    ports: [{protocol: TCP, port: 5432}]
`

// azureArena is a control plane with an account of Azure that is the owner's, and a tenant who may
// do everything in a Namespace of her own.
type azureArena struct {
	*arena
	server *sim.Server
	words  *strings.Replacer
	nics   map[string]string
}

// newAzureArena starts the control plane. more may add to the resource group shop, in whose network
// vnet is a subnet for each kind of service.
func newAzureArena(t *testing.T, more func(a *azureArena, b *build.Builder, vnet string)) *azureArena {
	t.Helper()
	b := build.New(azureTenantID, azureSubscriptionID, azureRegion)
	raw, err := os.ReadFile("../../config/azure/role.json")
	must(t, err)
	role, err := simazure.ParseRole(raw)
	must(t, err)
	client := b.Principal("nephele", "secret", simazure.Assignment{Scope: "/subscriptions/" + azureSubscriptionID + "/resourceGroups/shop", Role: role})
	everything := build.Rule("all", "Inbound", 100, "Allow", "", "", "", "")
	own := b.SecurityGroup("shop", "nsg-own", everything)
	b.SecurityGroup("shop", "nsg-bad", everything)
	vnet := b.Network("shop", "shop", []string{"10.1.0.0/16"}, []string{"all", "10.1.1.0/24"},
		[]string{"gate", "10.1.2.0/26"}, []string{"fronts", "10.1.3.0/24"}, []string{"links", "10.1.4.0/24"})
	a := &azureArena{nics: map[string]string{}}
	for i, name := range []string{"web", "db", "ops"} {
		machine, nic := b.Machine("shop", name, vnet+"/subnets/all", fmt.Sprintf("10.1.1.%d", 11+i), own)
		a.nics[name] = nic
		for k := range b.State.Resources {
			if b.State.Resources[k].ID == machine {
				b.State.Resources[k].Tags = map[string]string{"role": name}
			}
		}
	}
	if more != nil {
		more(a, b, vnet)
	}
	b.State.ServiceTags = map[string][]netip.Prefix{"Sql.WestEurope": {netip.MustParsePrefix("198.51.100.0/25")}}
	a.server, err = sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: aws.State{Azure: &b.State}})
	must(t, err)
	t.Cleanup(func() {
		if err := a.server.Close(); err != nil {
			t.Error(err)
		}
	})
	at, err := url.Parse(a.server.AzureURL())
	must(t, err)
	a.arena = &arena{tenants: &tenants{t: t}, c: newCluster(t, "--allowed-endpoints="+at.Host)}
	a.admin, err = clientcmd.BuildConfigFromFlags("", filepath.Join(a.c.dir, "kubeconfig"))
	must(t, err)
	a.roles()
	a.words = strings.NewReplacer("{SUBSCRIPTION}", azureSubscriptionID, "{TENANT}", azureTenantID, "{CLIENT}", client, "{VNET}", vnet,
		"{URL}", a.server.AzureURL(), "{CA}", fmt.Sprintf("%q", a.server.AzureCertificate()))
	for _, o := range a.objectsOf(azureOwner) {
		a.create(o)
	}
	return a
}

// objectsOf are the objects of manifests.
func (a *azureArena) objectsOf(text string) (out []*unstructured.Unstructured) {
	a.t.Helper()
	for _, doc := range strings.Split(a.words.Replace(text), "\n---\n") {
		o := &unstructured.Unstructured{}
		must(a.t, yaml.Unmarshal([]byte(doc), &o.Object))
		out = append(out, o)
	}
	return out
}

// passes asks the simulator.
func (a *azureArena) passes(from, to string, port int) bool {
	a.t.Helper()
	src := simazure.End{NIC: a.nics[from]}
	if src.NIC == "" {
		src.Addr = netip.MustParseAddr(from)
	}
	var v simazure.Verdict
	var err error
	a.server.World().ReadAzure(func(c *simazure.Cloud, _ time.Time) {
		v, err = c.Verdicts().Allowed(simazure.Flow{Src: src, Dst: simazure.End{NIC: a.nics[to]}, Protocol: 6, Port: port})
	})
	must(a.t, err)
	return v.Allowed
}

// wrong is nil if the cloud does what the policy says, and nothing else.
func (a *azureArena) wrong() error {
	var all []error
	for _, f := range []struct {
		from, to string
		port     int
		passes   bool
	}{
		{"web", "db", 5432, true}, {"web", "db", 22, false}, {"ops", "db", 5432, false}, {"203.0.113.7", "db", 5432, false},
		{"db", "web", 80, true}, {"ops", "web", 22, true}, {"203.0.113.7", "ops", 22, true},
	} {
		if got := a.passes(f.from, f.to, f.port); got != f.passes {
			all = append(all, fmt.Errorf("%s -> %s:%d passes: %t", f.from, f.to, f.port, got))
		}
	}
	return errors.Join(all...)
}

func (a *azureArena) enforced(t *testing.T, what string) {
	t.Helper()
	if err := soon(t, func(context.Context) error { return a.wrong() }); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// byHand changes a resource as somebody with all rights in the subscription.
func (a *azureArena) byHand(id string, change func(doc map[string]any)) {
	a.t.Helper()
	at, ok := document.ParseID(id)
	if !ok {
		a.t.Fatalf("%s is no id", id)
	}
	must(a.t, a.server.World().ChangeAzure("", "", "by hand", func(c *simazure.Cloud, now time.Time) ([]string, error) {
		p := c.Principals()[0]
		p.Assignments = nil
		doc, err := c.Get(&p, at)
		if err != nil {
			return nil, err
		}
		change(doc)
		_, err = c.Put(simazure.Write{By: &p, Now: now}, at, doc)
		return nil, err
	}))
}

// resources are all there are, by id in lower case.
func (a *azureArena) resources() map[string]simazure.Resource {
	out := map[string]simazure.Resource{}
	a.server.World().ReadAzure(func(c *simazure.Cloud, _ time.Time) {
		for _, r := range c.State().Resources {
			out[strings.ToLower(r.ID)] = r
		}
	})
	return out
}

// groupOf is the network security group that an interface holds.
func (a *azureArena) groupOf(vm string) string {
	g, _ := a.resources()[strings.ToLower(a.nics[vm])].Properties["networkSecurityGroup"].(map[string]any)
	id, _ := g["id"].(string)
	return strings.ToLower(id)
}

// TestAzure goes the way of an account of Azure with "nephele up": import, policy, verdict, a
// change by hand, attacks of somebody with rights in one Namespace and of somebody with rights in
// the subscription, and release.
func TestAzure(t *testing.T) {
	t.Parallel()
	a := newAzureArena(t, nil)
	a.enforced(t, "the policy")
	eventually(t, "status of the policy", func(ctx context.Context) (bool, string) {
		var p v1beta1.NetworkPolicy
		err := a.c.client.Get(ctx, client.ObjectKey{Namespace: ownerNS, Name: "databases"}, &p)
		return err == nil && p.Status.Phase == v1beta1.NetworkPolicyRealized, fmt.Sprintf("%v %+v", err, p.Status)
	})
	group := a.groupOf("db")
	if !strings.Contains(group, "/nephele-") || !strings.HasSuffix(a.groupOf("ops"), "/nsg-own") {
		t.Fatalf("db holds %s, ops %s", group, a.groupOf("ops"))
	}

	t.Run("a service tag", a.serviceTag)
	t.Run("routes to Nodes", a.routesToNodes)
	t.Run("a change by hand", func(t *testing.T) {
		a.byHand(group, func(doc map[string]any) {
			p, _ := doc["properties"].(map[string]any)
			rules, _ := p["securityRules"].([]any)
			p["securityRules"] = slices.DeleteFunc(rules, func(r any) bool { return strings.HasSuffix(fmt.Sprint(r.(map[string]any)["name"]), "deny") })
		})
		if a.wrong() == nil {
			t.Fatal("the change opens nothing, so this shows nothing")
		}
		a.enforced(t, "it is put right")
	})
	t.Run("forged tags", func(t *testing.T) {
		before := a.resources()[strings.ToLower(a.nics["db"])].Tags
		a.byHand(a.nics["db"], func(doc map[string]any) {
			tags, _ := doc["tags"].(map[string]any)
			for k, v := range tags {
				tags[k] = strings.ReplaceAll(fmt.Sprint(v), "nsg-own", "nsg-bad")
			}
		})
		// Another one's group, with the tags of ours.
		tags := map[string]any{}
		for k, v := range a.resources()[group].Tags {
			tags[k] = v
		}
		a.byHand(azureShop+"networkSecurityGroups/nsg-bad", func(doc map[string]any) { doc["tags"] = tags })
		eventually(t, "the record is as it was", func(context.Context) (bool, string) {
			now := a.resources()[strings.ToLower(a.nics["db"])].Tags
			for k, v := range now {
				if strings.Contains(v, "nsg-bad") {
					return false, k + "=" + v
				}
			}
			return len(now) == len(before), fmt.Sprint(now)
		})
		if _, there := a.resources()[strings.ToLower(azureShop+"networkSecurityGroups/nsg-bad")]; !there {
			t.Error("somebody else's group was deleted")
		}
		a.enforced(t, "the policy holds on")
	})
	t.Run("a tenant", func(t *testing.T) {
		who := a.as(mallory)
		tr := newTrap(t)
		// What belongs to the owner cannot be used from another Namespace.
		foreign := a.objectsOf(strings.ReplaceAll(azureOwner, "metadata: {namespace: ns-a", "metadata: {namespace: ns-b"))
		for _, o := range foreign[1:3] { // the account with the owner's Secret, a selector of the owner's account
			if err := who.Create(t.Context(), o); err == nil {
				t.Errorf("%s with what is the owner's is taken", o.GetKind())
			}
		}
		// Nor from an object of the owner.
		for _, o := range a.objectsOf(azureOwner) {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"annotations": {"nephele.io/x": "y"}}}`))
			if err := who.Patch(t.Context(), o, patch); err == nil {
				t.Errorf("the owner's %s is changed", o.GetKind())
			}
		}
		// An account of her own, with places that nobody has allowed.
		must(t, who.Create(t.Context(), keysOfNobody(foreign[0])))
		var made []*unstructured.Unstructured
		for i, fields := range []map[string]string{
			{"authority": "https://127.0.0.1:" + tr.port}, {"resourceManager": "https://127.0.0.1:" + tr.port},
			{"authority": "https://localhost:" + tr.port, "resourceManager": "https://localhost:" + tr.port},
			{"resourceManager": "https://169.254.169.254"}, {"authority": "https://[::1]:" + tr.port},
		} {
			o := foreign[1].DeepCopy()
			o.SetName(fmt.Sprintf("bad-%d", i))
			set(o, attackerNS, "spec", "azureConfig", "secretRef", "namespace")
			for k, v := range fields {
				set(o, v, "spec", "azureConfig", "cloud", k)
			}
			must(t, who.Create(t.Context(), o))
			made = append(made, o)
		}
		a.notGranted(t, "--allowed-endpoints", made...)
		tr.untouched(t, "endpoints of Azure")
		must(t, a.wrong())
	})

	must(t, a.c.client.Delete(t.Context(), a.objectsOf(azureOwner)[3]))
	a.givenBack(t)
}

// givenBack waits until every VM holds its own group again, and nothing of ours is left.
func (a *azureArena) givenBack(t *testing.T) {
	t.Helper()
	eventually(t, "the VMs are given back", func(context.Context) (bool, string) {
		for _, vm := range []string{"web", "db", "ops"} {
			if g := a.groupOf(vm); !strings.HasSuffix(g, "/nsg-own") {
				return false, vm + " holds " + g
			}
		}
		for id := range a.resources() {
			if strings.Contains(id, "/nephele-") {
				return false, id + " is left"
			}
		}
		return true, ""
	})
}

// taggedPolicy lets the addresses of a service tag to the database, by their Group.
const taggedPolicy = `
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {namespace: ns-a, name: from-sql}
spec:
  priority: 6
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: db}}}]
  ingress:
  - action: Allow
    from: [{group: GROUP}]
    ports: [{protocol: TCP, port: 5432}]
`

// serviceTag lets a service tag be a peer: without the right, which the role has in the resource
// group only, the account says so; with it the tag becomes a Group, whose addresses come through,
// and no others. With the selector it goes.
func (a *azureArena) serviceTag(t *testing.T) {
	selector := a.objectsOf(`
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {namespace: ns-a, name: tags}
spec: {accountNamespace: ns-a, accountName: azure, nativeSelector: [{kind: ServiceTag, serviceMatch: [{matchName: Sql.WestEurope}]}]}
`)[0]
	a.create(selector)
	const right = "Microsoft.Network/locations/serviceTags/read"
	eventually(t, "the right is missing, and named", func(ctx context.Context) (bool, string) {
		var account cloudv1.CloudProviderAccount
		err := a.c.client.Get(ctx, client.ObjectKey{Namespace: ownerNS, Name: "azure"}, &account)
		c := meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionServicesRead)
		return err == nil && c != nil && c.Reason == cloudv1.ReasonNotPermitted && strings.Contains(c.Message, right), fmt.Sprintf("%v %+v", err, c)
	})
	must(t, a.wrong())
	must(t, a.server.World().ChangeAzure("", "", "by hand", func(c *simazure.Cloud, _ time.Time) ([]string, error) {
		p := c.Principals()[0]
		p.Assignments = append(slices.Clone(p.Assignments), simazure.Assignment{
			Scope: "/subscriptions/" + azureSubscriptionID, Role: simazure.Role{Name: "Nephele Service Tags", Actions: []string{right}},
		})
		c.SetPrincipal(p)
		return nil, nil
	}))
	var group string
	eventually(t, "the service tag is imported", func(ctx context.Context) (bool, string) {
		var all cloudv1.CloudNativeServiceList
		err := a.c.client.List(ctx, &all, client.InNamespace(ownerNS))
		if err != nil || len(all.Items) != 1 {
			return false, fmt.Sprintf("%v %+v", err, all.Items)
		}
		group = all.Items[0].Status.Group
		return group != "" && slices.Equal(all.Items[0].Status.Cidrs, []string{"198.51.100.0/25"}), fmt.Sprintf("%+v", all.Items[0].Status)
	})
	policy := a.objectsOf(strings.ReplaceAll(taggedPolicy, "GROUP", group))[0]
	a.create(policy)
	flows := func(open bool) error {
		if got := a.passes("198.51.100.9", "db", 5432); got != open {
			return fmt.Errorf("an address of the service tag passes: %t", got)
		}
		if a.passes("198.51.100.9", "db", 22) || a.passes("198.51.100.129", "db", 5432) {
			return errors.New("something else passes")
		}
		return a.wrong()
	}
	eventuallyNil(t, "the service tag's addresses pass, and no others", func(context.Context) error { return flows(true) })
	// Somebody empties the Group: it is put right.
	var g v1beta1.Group
	must(t, a.c.client.Get(t.Context(), client.ObjectKey{Namespace: ownerNS, Name: group}, &g))
	must(t, a.c.client.Patch(t.Context(), &g, client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"ipBlocks": [{"cidr": "0.0.0.0/0"}]}}`))))
	eventually(t, "the Group is put right", func(ctx context.Context) (bool, string) {
		err := a.c.client.Get(ctx, client.ObjectKey{Namespace: ownerNS, Name: group}, &g)
		return err == nil && len(g.Spec.IPBlocks) == 1 && g.Spec.IPBlocks[0].CIDR == "198.51.100.0/25", fmt.Sprintf("%v %+v", err, g.Spec)
	})
	eventuallyNil(t, "its flows, too", func(context.Context) error { return flows(true) })
	must(t, a.c.client.Delete(t.Context(), policy))
	must(t, a.c.client.Delete(t.Context(), selector))
	eventually(t, "the Group is gone", func(ctx context.Context) (bool, string) {
		err := a.c.client.Get(ctx, client.ObjectKey{Namespace: ownerNS, Name: group}, &g)
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	eventuallyNil(t, "and what it has let in", func(context.Context) error { return flows(false) })
}

// keysOfNobody is the tenant's Secret: keys of nobody.
func keysOfNobody(o *unstructured.Unstructured) *unstructured.Unstructured {
	set(o, `{"subscriptionId": "`+azureSubscriptionID+`", "tenantId": "`+azureTenantID+`", "clientId": "99999999-8888-4777-8666-555555555555", "clientKey": "x"}`, "stringData", "credentials")
	return o
}
