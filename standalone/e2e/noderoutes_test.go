package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim/aws"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// routesToNodes: while the account asks for it, the podCIDR of a Node is in the account's route
// table, and then everything is as before; what cannot be a wish is refused with the field's name;
// and an author who may not list Nodes is refused.
func (s *sharedAccount) routesToNodes(account *cloudv1.CloudProviderAccount, mallory client.Client) {
	s.t.Helper()
	s.must(s.c.client.Get(s.t.Context(), client.ObjectKeyFromObject(account), account))
	region, err := s.server.World().Region(account.Status.CloudAccountID, account.Spec.AWSConfig.Region[0])
	s.must(err)
	nics, err := region.NetworkInterfaces()
	s.must(err)
	at := slices.IndexFunc(nics, func(n aws.NetworkInterface) bool {
		return n.Attachment != nil && n.Attachment.InstanceID != "" && n.SourceDestCheck
	})
	if at < 0 {
		s.t.Fatal("no instance checks addresses")
	}
	nic := nics[at]
	table, err := region.Routes().CreateRouteTable(nic.VPCID, nil, "")
	s.must(err)

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}, Spec: corev1.NodeSpec{
		PodCIDR: "10.244.1.0/24", PodCIDRs: []string{"10.244.1.0/24"}, ProviderID: "aws:///us-west-2a/" + nic.Attachment.InstanceID,
	}}
	s.must(s.c.client.Create(s.t.Context(), node))
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nic.PrivateIPs[0].Addr.String()}}
	s.must(s.c.client.Status().Update(s.t.Context(), node))

	wish := func(cidr, table string) string {
		return fmt.Sprintf(`{"spec":{"awsConfig":{"nodeRoutes":{"clusterCIDRs":[%q],"routeTables":[%q]}}}}`, cidr, table)
	}
	for text, field := range map[string]string{
		wish("10.244.0.1/16", table.ID): "clusterCIDRs", wish("0.0.0.0/0", table.ID): "clusterCIDRs", wish("pods", table.ID): "clusterCIDRs",
		wish("10.244.0.0/16", "vpc-1"): "routeTables",
	} {
		if err := s.c.client.Patch(s.t.Context(), account.DeepCopy(), client.RawPatch(mergePatch, []byte(text))); !apierrors.IsInvalid(err) {
			s.t.Errorf("%s: %v", field, err)
		}
	}
	stranger := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "evil", Name: "routes"}, Spec: *account.Spec.DeepCopy()}
	stranger.Spec.AWSConfig.SecretRef.Namespace = "evil"
	stranger.Spec.AWSConfig.NodeRoutes = &cloudv1.NodeRoutes{ClusterCIDRs: []string{"10.244.0.0/16"}, RouteTables: []string{table.ID}}
	if err := mallory.Create(s.t.Context(), stranger); !apierrors.IsForbidden(err) {
		s.t.Errorf("an author who may not list Nodes: %v", err)
	}

	routed := func(what string, want bool) {
		s.t.Helper()
		eventually(s.t, what, func(context.Context) (bool, string) {
			tables, err := region.Routes().RouteTables(table.ID)
			if err != nil {
				return false, err.Error()
			}
			now, err := region.NetworkInterfaces(nic.ID)
			if err != nil {
				return false, err.Error()
			}
			leads := slices.ContainsFunc(tables[0].Routes, func(r aws.Route) bool {
				return r.Destination == netip.MustParsePrefix("10.244.1.0/24") && r.Target == nic.ID
			})
			return leads == want && now[0].SourceDestCheck != want && (len(tables[0].Tags) > 0) == want, fmt.Sprintf("%+v %+v", tables[0], now[0])
		})
	}
	s.patch(account, wish("10.244.0.0/16", table.ID))
	routed("the Node's Pods are routed", true)
	s.says(account, cloudv1.ConditionNodeRoutes, cloudv1.ReasonOK, "1 routes lead to Pods of the cluster's 1 Nodes")
	s.patch(account, `{"spec":{"awsConfig":{"nodeRoutes":null}}}`)
	routed("the routes are taken back", false)
	s.must(s.c.client.Delete(s.t.Context(), node))
}

// routesToNodes: while the account of Azure asks for it, what one Node's subnet sends to Pods of
// another Node arrives there, and then everything is as before.
func (a *azureArena) routesToNodes(t *testing.T) {
	sender, nic := a.nics["ops"], a.nics["web"]
	table := azureShop + "routeTables/nodes"
	must(t, a.server.World().ChangeAzure("", "", "by hand", func(c *simazure.Cloud, now time.Time) ([]string, error) {
		p := c.Principals()[0]
		p.Assignments = append(slices.Clone(p.Assignments), simazure.Assignment{Scope: strings.TrimSuffix(azureShop, "/providers/Microsoft.Network/"), Role: simazure.Role{
			Name: "Nephele Routes", Actions: []string{"Microsoft.Network/routeTables/routes/write", "Microsoft.Network/routeTables/routes/delete"},
		}})
		c.SetPrincipal(p)
		p.Assignments = nil
		at, _ := document.ParseID(table)
		_, err := c.Put(simazure.Write{By: &p, Now: now}, at, map[string]any{"location": azureRegion})
		return nil, err
	}))
	a.byHand(azureShop+"virtualNetworks/shop", func(doc map[string]any) {
		p, _ := doc["properties"].(map[string]any)
		subnets, _ := p["subnets"].([]any)
		of, _ := subnets[0].(map[string]any)["properties"].(map[string]any)
		of["routeTable"] = map[string]any{"id": table}
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "azure-worker"}, Spec: corev1.NodeSpec{
		PodCIDR: "10.244.1.0/24", PodCIDRs: []string{"10.244.1.0/24"},
		ProviderID: "azure:///subscriptions/" + azureSubscriptionID + "/resourceGroups/shop/providers/Microsoft.Compute/virtualMachines/web",
	}}
	must(t, a.c.client.Create(t.Context(), node))
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.1.11"}}
	must(t, a.c.client.Status().Update(t.Context(), node))
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ownerNS, Name: "azure"}}
	patch := func(text string) error {
		return a.c.client.Patch(t.Context(), account, client.RawPatch(mergePatch, []byte(text)))
	}
	if err := patch(`{"spec":{"azureConfig":{"nodeRoutes":{"clusterCIDRs":["10.244.0.0/16"],"routeTables":["nodes"]}}}}`); !apierrors.IsInvalid(err) {
		t.Errorf("a table without its id: %v", err)
	}
	arrives := func(what string, want bool) {
		t.Helper()
		eventually(t, what, func(context.Context) (bool, string) {
			var v simazure.Verdict
			var by string
			var err error
			a.server.World().ReadAzure(func(c *simazure.Cloud, _ time.Time) {
				v, by, err = c.Verdicts().Led(simazure.Packet{
					NIC: sender, Src: netip.MustParseAddr("10.1.1.13"), Dst: netip.MustParseAddr("10.244.1.7"), Protocol: 6, Port: 80,
				})
			})
			return err == nil && (v.Allowed && by == nic) == want, fmt.Sprintf("%+v by %s, %v", v, by, err)
		})
	}
	arrives("no route leads to Pods", false)
	must(t, patch(fmt.Sprintf(`{"spec":{"azureConfig":{"nodeRoutes":{"clusterCIDRs":["10.244.0.0/16"],"routeTables":[%q]}}}}`, table)))
	arrives("the Node's Pods are routed", true)
	eventually(t, "the account says so", func(ctx context.Context) (bool, string) {
		err := a.c.client.Get(ctx, client.ObjectKeyFromObject(account), account)
		c := meta.FindStatusCondition(account.Status.Conditions, cloudv1.ConditionNodeRoutes)
		return err == nil && c != nil && c.Reason == cloudv1.ReasonOK, fmt.Sprintf("%v %+v", err, c)
	})
	must(t, patch(`{"spec":{"azureConfig":{"nodeRoutes":null}}}`))
	arrives("the routes are taken back", false)
	eventually(t, "nothing of ours is left", func(context.Context) (bool, string) {
		all := a.resources()
		routes, _ := all[strings.ToLower(table)].Properties["routes"].([]any)
		return len(routes) == 0 && len(all[strings.ToLower(table)].Tags) == 0 && all[strings.ToLower(nic)].Properties["enableIPForwarding"] == false, fmt.Sprintf("%+v", all[strings.ToLower(table)])
	})
	must(t, a.c.client.Delete(t.Context(), node))
}
