package azure_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// nic is the interface of an id as the account shows it.
func (l *lab) nic(a *azure.Account, id string) (*cloud.Snapshot, *cloud.Interface) {
	l.t.Helper()
	s := l.observe(a)
	n := s.Interface(strings.ToLower(id))
	if n == nil {
		l.t.Fatalf("there is no interface %s", id)
	}
	return s, n
}

// takeOver records what the interface of the web server holds, gives it a group of ours, and
// returns what it held, as the port has it.
func (l *lab) takeOver(a *azure.Account) string {
	l.t.Helper()
	ctx := l.t.Context()
	_, n := l.nic(a, l.webNIC)
	former := n.GroupIDs[0]
	if err := a.Tag(ctx, []string{n.ID}, map[string]string{cloud.TagFormer: former[:100], cloud.TagFormer + ".1": former[100:]}); err != nil {
		l.t.Fatal(err)
	}
	if err := a.SetInterfaceGroups(ctx, n.ID, l.subnetNSG, []string{l.asg}); err != nil {
		l.t.Fatal(err)
	}
	return former
}

// release gives an interface back what it held.
func (l *lab) release(a *azure.Account, former string) error {
	_, err := a.Apply(l.t.Context(), inRegion, cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: strings.ToLower(l.webNIC), GroupIDs: []string{former}})
	if err == nil {
		err = a.Untag(l.t.Context(), []string{strings.ToLower(l.webNIC)}, []string{cloud.TagFormer, cloud.TagFormer + ".1"})
	}
	return err
}

func (l *lab) deleteGroup(id string) {
	l.t.Helper()
	l.change(func(c *simazure.Cloud) {
		at, _ := document.ParseID(id)
		p := c.Principals()[0]
		if _, err := c.Delete(simazure.Write{By: &p, Now: l.now}, at); err != nil {
			l.t.Fatal(err)
		}
	})
}

// TestIDsComeBackAsTheyWereWritten: the reference of an interface is given back in the case that it
// had, also by a process that has never seen it, while the port knows it in lower case only.
func TestIDsComeBackAsTheyWereWritten(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		l := newLab(t, nil)
		a := l.account()
		before := l.document(l.webNIC)
		former := l.takeOver(a)
		if former != strings.ToLower(former) {
			t.Fatalf("%s is not in lower case", former)
		}
		if restarted {
			a = l.account()
		}
		s, n := l.nic(a, l.webNIC)
		if got := cloud.FormerGroups(n.Tags); !slices.Equal(got, []string{former}) || s.Group(former) == nil {
			t.Fatalf("it remembers %v, want %s", got, former)
		}
		// The record is written once more while the interface holds another group.
		if err := a.Tag(t.Context(), []string{n.ID}, map[string]string{cloud.TagFormer: former[:90], cloud.TagFormer + ".1": former[90:]}); err != nil {
			t.Fatal(err)
		}
		if err := l.release(a, former); err != nil {
			t.Fatal(err)
		}
		if after := l.document(l.webNIC); after != before {
			t.Errorf("not as it was:\n%s\n%s", before, after)
		}
	}
}

// TestFormerGroupDeleted: in place of a group that its owner has deleted the default rules count;
// it is told to be deleted; and the interface is given back without a group.
func TestFormerGroupDeleted(t *testing.T) {
	l := newLab(t, nil)
	a := l.account()
	former := l.takeOver(a)
	l.deleteGroup(l.nsg)
	s, _ := l.nic(a, l.webNIC)
	g := s.Group(former)
	if g == nil || !g.Deleted || g.Name != "nsg-web" || !g.View {
		t.Fatalf("%+v", g)
	}
	inside, internet := netip.MustParseAddr("10.1.9.9"), netip.MustParseAddr("198.51.100.7")
	if !says(g.Rules, tagged(), cloud.Ingress, cloud.TCP, 22, inside) || !says(g.Rules, tagged(), cloud.Egress, cloud.TCP, 443, internet) || says(g.Rules, tagged(), cloud.Ingress, cloud.TCP, 443, internet) {
		t.Errorf("%v: want the default rules", g.Rules)
	}
	if err := l.release(a, former); err != nil {
		t.Fatal(err)
	}
	if doc := l.document(l.webNIC); strings.Contains(doc, "networkSecurityGroup\"") || !strings.Contains(doc, "asg-web") {
		t.Errorf("want no network security group, and the application security group: %s", doc)
	}
}

// TestFormerGroupMadeAnew counts at once, and is given back.
func TestFormerGroupMadeAnew(t *testing.T) {
	l := newLab(t, nil)
	a := l.account()
	former := l.takeOver(a)
	l.deleteGroup(l.nsg)
	l.nic(a, l.webNIC)
	l.change(func(c *simazure.Cloud) {
		at, _ := document.ParseID(l.nsg)
		p := c.Principals()[0]
		body := map[string]any{"location": region, "properties": map[string]any{"securityRules": []any{build.Rule("ssh", "Inbound", 100, "Allow", "Tcp", "192.0.2.0/24", "", "22")}}}
		if _, err := c.Put(simazure.Write{By: &p, Now: l.now}, at, body); err != nil {
			t.Fatal(err)
		}
	})
	s, _ := l.nic(a, l.webNIC)
	if g := s.Group(former); g == nil || g.Deleted || !slices.ContainsFunc(g.Rules, func(r cloud.Rule) bool { return strings.Contains(r.String(), "192.0.2.0/24") }) {
		t.Errorf("%+v", g)
	}
	if err := l.release(a, former); err != nil {
		t.Fatal(err)
	}
	if doc := l.document(l.webNIC); !strings.Contains(strings.ToLower(doc), "/nsg-web") {
		t.Error(doc)
	}
}

// TestBasicAddressKeepsItsGuard: without a group an address of the Basic kind would be open to
// everybody, so the interface stays as it is, in words that say what helps.
func TestBasicAddressKeepsItsGuard(t *testing.T) {
	l := newLab(t, nil)
	l.change(func(c *simazure.Cloud) {
		p := c.Principals()[0]
		public := strings.Replace(l.nsg, "networkSecurityGroups/nsg-web", "publicIPAddresses/web-ip", 1)
		at, ok := document.ParseID(public)
		if !ok {
			t.Fatal(public)
		}
		body := map[string]any{"location": region, "sku": map[string]any{"name": "Basic"}, "properties": map[string]any{"publicIPAllocationMethod": "Static"}}
		if _, err := c.Put(simazure.Write{By: &p, Now: l.now}, at, body); err != nil {
			t.Fatal(err)
		}
		nic, _ := document.ParseID(l.webNIC)
		doc, err := c.Get(&p, nic)
		if err != nil {
			t.Fatal(err)
		}
		first := doc["properties"].(map[string]any)["ipConfigurations"].([]any)[0].(map[string]any)["properties"].(map[string]any)
		first["publicIPAddress"] = map[string]any{"id": public}
		if _, err := c.Put(simazure.Write{By: &p, Now: l.now}, nic, doc); err != nil {
			t.Fatal(err)
		}
	})
	l.now = l.now.Add(time.Minute)
	a := l.account()
	former := l.takeOver(a)
	l.deleteGroup(l.nsg)
	l.nic(a, l.webNIC)
	err := l.release(a, former)
	if cloud.ClassOf(err) != cloud.Terminal || !strings.Contains(err.Error(), "its address web-ip of the Basic kind would be open to everybody: create a group of this name in the resource group shop") {
		t.Errorf("%v", err)
	}
	if doc := l.document(l.webNIC); !strings.Contains(strings.ToLower(doc), "/nsg-subnet") {
		t.Errorf("it was given back: %s", doc)
	}
}
