package azure_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	config "github.com/nephele-io/nephele/config/azure"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	"github.com/nephele-io/nephele/internal/cloud/azure/rights"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// TestPlanRole: the role for plans, as the command prints it for a resource group, reads all that
// the whole role reads, and changes nothing.
func TestPlanRole(t *testing.T) {
	raw, err := rights.Document(config.Role(), rights.Pins{Mode: rights.Plan, Subscription: subscription, Groups: []string{"shop"}})
	if err != nil {
		t.Fatal(err)
	}
	role, err := simazure.ParseRole(raw)
	if err != nil {
		t.Fatal(err)
	}
	if len(role.AssignableScopes) != 1 {
		t.Fatalf("assignable at %q", role.AssignableScopes)
	}
	ctx := t.Context()
	l := newLab(t, nil)
	l.change(func(c *simazure.Cloud) {
		p := c.Principals()[0]
		p.Assignments = []simazure.Assignment{{Scope: role.AssignableScopes[0], Role: role}}
		c.SetPrincipal(p)
	})
	a := l.account()
	if s := l.observe(a); len(s.Interfaces) != 2 || len(s.Groups) != 2 {
		t.Errorf("%d interfaces, %d groups", len(s.Interfaces), len(s.Groups))
	}
	if err := a.SetInterfaceGroups(ctx, l.dbNIC, l.nsg, nil); cloud.ClassOf(err) != cloud.Auth {
		t.Errorf("the groups of an interface: %v", err)
	}
	if err := a.Tag(ctx, []string{l.vnet}, map[string]string{cloud.TagClaim: "c"}); cloud.ClassOf(err) != cloud.Auth {
		t.Errorf("a tag: %v", err)
	}
}

// TestRole: the role of config/azure, assigned to a resource group, is enough, and does not reach
// further.
func TestRole(t *testing.T) {
	raw, err := os.ReadFile("../../../config/azure/role.json")
	if err != nil {
		t.Fatal(err)
	}
	role, err := simazure.ParseRole(raw)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	var other string
	l := newLab(t, func(b *build.Builder) { other = b.SecurityGroup("other", "nsg-other") })
	l.change(func(c *simazure.Cloud) {
		p := c.Principals()[0]
		p.Assignments = []simazure.Assignment{{Scope: "/subscriptions/" + subscription + "/resourceGroups/shop", Role: role}}
		c.SetPrincipal(p)
	})
	a := l.account()
	s := l.observe(a)
	if len(s.Interfaces) != 2 || len(s.Groups) != 2 {
		t.Errorf("%d interfaces, %d groups", len(s.Interfaces), len(s.Groups))
	}
	if err := a.SetInterfaceGroups(ctx, l.dbNIC, l.nsg, []string{l.asg}); err != nil {
		t.Error(err)
	}
	if err := a.Tag(ctx, []string{l.vnet}, map[string]string{cloud.TagClaim: "c"}); err != nil {
		t.Error(err)
	}
	if err := a.SetInterfaceGroups(ctx, l.dbNIC, other, nil); cloud.ClassOf(err) != cloud.Auth {
		t.Errorf("a group of another resource group: %v", err)
	}
	if err := a.Tag(ctx, []string{other}, map[string]string{cloud.TagClaim: "c"}); cloud.ClassOf(err) != cloud.Auth {
		t.Errorf("a tag in another resource group: %v", err)
	}
}

// TestNetworksOfPinnedRole: with a role for single resource groups, the marks of the networks there
// are read as they are at that moment; the marks of others are not reported.
func TestNetworksOfPinnedRole(t *testing.T) {
	raw, err := rights.Document(config.Role(), rights.Pins{Mode: rights.Plan, Subscription: subscription, Groups: []string{"shop"}})
	if err != nil {
		t.Fatal(err)
	}
	role, err := simazure.ParseRole(raw)
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t, func(b *build.Builder) { b.Network("other", "vnet-other", []string{"10.7.0.0/16"}) })
	l.change(func(c *simazure.Cloud) {
		p := c.Principals()[0]
		p.Assignments = []simazure.Assignment{{Scope: role.AssignableScopes[0], Role: role}}
		c.SetPrincipal(p)
		c.Set(simazure.Settings{Lag: time.Hour})
		at, _ := document.ParseID(l.vnet)
		p.Assignments = nil
		if _, err := c.UpdateTags(simazure.Write{By: &p, Now: l.now}, at, simazure.TagsMerge, map[string]string{"nephele.io_instance": "mark"}); err != nil {
			t.Error(err)
		}
	})
	all, err := l.account().Networks(t.Context(), inRegion)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d networks: %v", len(all), err)
	}
	for _, n := range all {
		if n.ID == strings.ToLower(l.vnet) && n.Tags[cloud.TagInstance] != "mark" {
			t.Errorf("the mark is not seen: %v", n.Tags)
		}
	}
}

// TestPeerKeepsItsGroup: an interface that is only a peer keeps its own network security group, and
// becomes a member by all its configurations; the groups of others that it has stay.
func TestPeerKeepsItsGroup(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, func(b *build.Builder) {
		for i := range b.State.Resources {
			if r := &b.State.Resources[i]; strings.HasSuffix(r.ID, "/web-1-nic") {
				list := r.Properties["ipConfigurations"].([]any)
				r.Properties["ipConfigurations"] = append(list, map[string]any{"name": "ipconfig2", "properties": map[string]any{"primary": false,
					"privateIPAddress": "10.1.1.5", "privateIPAllocationMethod": "Static", "privateIPAddressVersion": "IPv4", "subnet": map[string]any{"id": l0vnet(b) + "/subnets/web"},
					"applicationSecurityGroups": list[0].(map[string]any)["properties"].(map[string]any)["applicationSecurityGroups"]}})
			}
		}
	})
	a := l.account(func(c *azure.Config) { c.Cluster = "test" })
	before := l.document(l.webNIC)
	find := func(s *cloud.Snapshot) cloud.Interface {
		return s.Interfaces[slices.IndexFunc(s.Interfaces, func(i cloud.Interface) bool { return i.ID == strings.ToLower(l.webNIC) })]
	}
	own := find(l.observe(a)).GroupIDs
	group, err := a.Apply(ctx, inRegion, cloud.Op{Kind: cloud.OpCreateGroup, Group: cloud.GroupSpec{NetworkID: strings.ToLower(l.vnet), Name: cloud.NamePrefix + "peers",
		Tags: map[string]string{cloud.TagCluster: "test", cloud.TagKind: cloud.KindClass, cloud.TagAccount: "shop/azure", cloud.TagClass: "c1"}}})
	if err != nil {
		t.Fatal(err)
	}
	set := func(groups ...string) {
		t.Helper()
		if _, err := a.Apply(ctx, inRegion, cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: strings.ToLower(l.webNIC), GroupIDs: groups}); err != nil {
			t.Fatal(err)
		}
	}
	set(append(slices.Clone(own), group)...)
	doc := strings.ToLower(l.document(l.webNIC))
	if !strings.Contains(doc, "/networksecuritygroups/nsg-web") || strings.Count(doc, "/applicationsecuritygroups/nephele-peers") != 2 ||
		strings.Count(doc, "/applicationsecuritygroups/asg-web") != 2 {
		t.Errorf("%s", doc)
	}
	if got := find(l.observe(a)).GroupIDs; len(got) != 2 || !slices.Contains(got, group) {
		t.Errorf("groups %v", got)
	}
	set(own...)
	if after := l.document(l.webNIC); !strings.EqualFold(after, before) {
		t.Errorf("not as it was:\n%s\n%s", before, after)
	}
}
