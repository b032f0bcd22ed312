package azure_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	config "github.com/nephele-io/nephele/config/azure"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	"github.com/nephele-io/nephele/internal/cloud/azure/rights"
	"github.com/nephele-io/nephele/internal/cloud/azure/routing"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
	"github.com/nephele-io/nephele/internal/sim/calls"
)

// routeLab is a lab with a route table of both subnets of vnet-a, an instance of a scale set, and
// no more rights than the command prints for one resource group.
type routeLab struct {
	*lab
	router     cloud.Router
	table, set string
	webNIC     string
	dbNIC      string
}

func newRouteLab(t *testing.T) *routeLab {
	t.Helper()
	l := &routeLab{}
	l.lab = newLab(t, func(b *build.Builder) {
		vnet := l0vnet(b)
		l.table = strings.ToLower(b.RouteTable("shop", "nodes", vnet+"/subnets/web", vnet+"/subnets/db"))
		l.set = strings.ToLower(b.ScaleSet("shop", "pool", vnet+"/subnets/db", "", "10.1.2.9")[0])
		for i := range b.State.Resources { // the second interface has both families
			if r := &b.State.Resources[i]; r.ID == vnet {
				subnet := r.Properties["subnets"].([]any)[1].(map[string]any)["properties"].(map[string]any)
				subnet["addressPrefixes"] = []any{"fd00:1::/64"}
			}
			if r := &b.State.Resources[i]; strings.HasSuffix(r.ID, "/db-1-nic") {
				list := r.Properties["ipConfigurations"].([]any)
				r.Properties["ipConfigurations"] = append(list, map[string]any{"name": "v6", "properties": map[string]any{"primary": false,
					"privateIPAddress": "fd00:1::4", "privateIPAllocationMethod": "Static", "privateIPAddressVersion": "IPv6", "subnet": map[string]any{"id": vnet + "/subnets/db"}}})
			}
		}
	})
	l.webNIC, l.dbNIC = strings.ToLower(l.lab.webNIC), strings.ToLower(l.lab.dbNIC)
	raw, err := rights.Document(config.Role(), rights.Pins{Mode: rights.Enforce, Subscription: subscription, Groups: []string{"shop"}, NodeRoutes: true})
	if err != nil {
		t.Fatal(err)
	}
	l.limit(raw)
	l.router = l.account().Router()
	return l
}

// limit gives the account a role, and no more.
func (l *routeLab) limit(role []byte) {
	l.t.Helper()
	r, err := simazure.ParseRole(role)
	if err != nil {
		l.t.Fatal(err)
	}
	l.change(func(c *simazure.Cloud) {
		p := c.Principals()[0]
		p.Assignments = []simazure.Assignment{{Scope: "/subscriptions/" + subscription + "/resourceGroups/shop", Role: r}}
		c.SetPrincipal(p)
	})
}

// routed does an operation twice: the second time nothing is left to do, and nothing is written.
func (l *routeLab) routed(op cloud.RouteOp) {
	l.t.Helper()
	for again := range 2 {
		before := l.writes()
		if err := l.router.Route(l.t.Context(), inRegion, op); err != nil {
			l.t.Fatalf("%s: %v", op, err)
		}
		if wrote := l.writes() - before; again == 1 && wrote > 0 {
			l.t.Errorf("%s: the second time writes %d times", op, wrote)
		}
	}
}

func (l *routeLab) writes() (n int) {
	for _, c := range l.journal.Calls(0) {
		if strings.HasSuffix(c.Action, "/write") || strings.HasSuffix(c.Action, "/delete") {
			n++
		}
	}
	return n
}

func (l *routeLab) now() cloud.RouteTable {
	l.t.Helper()
	tables, err := l.router.RouteTables(l.t.Context(), inRegion, []string{l.table, l.table + "-not"})
	if err != nil || len(tables) != 1 {
		l.t.Fatalf("%v, %v", tables, err)
	}
	return tables[0]
}

// byHand changes the route table as somebody with all rights.
func (l *routeLab) byHand(change func(properties map[string]any)) error {
	l.t.Helper()
	var refused error
	l.change(func(c *simazure.Cloud) {
		at, _ := document.ParseID(l.table)
		p := c.Principals()[0]
		p.Assignments = nil
		doc, err := c.Get(&p, at)
		if err != nil {
			l.t.Fatal(err)
		}
		change(doc["properties"].(map[string]any))
		_, refused = c.Put(simazure.Write{By: &p, Now: l.lab.now}, at, doc)
	})
	return refused
}

func route(name, prefix, hop string) map[string]any {
	return map[string]any{"name": name, "properties": map[string]any{"addressPrefix": prefix, "nextHopType": "VirtualAppliance", "nextHopIpAddress": hop}}
}

// TestNodeRoutes does each operation on routes over the wire, twice, in both families, with no more
// than the rights that the command prints for them.
func TestNodeRoutes(t *testing.T) {
	t.Parallel()
	l := newRouteLab(t)
	v4, v6 := netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:244:1::/64")
	l.routed(cloud.RouteOp{Kind: cloud.RouteOpClaim, Table: l.table, Claim: "c"})
	l.routed(cloud.RouteOp{Kind: cloud.RouteOpPut, Table: l.table, Destination: v4, Interface: l.webNIC})
	l.routed(cloud.RouteOp{Kind: cloud.RouteOpPut, Table: l.table, Destination: v6, Interface: l.dbNIC})
	got := l.now()
	if got.ID != l.table || got.NetworkID != strings.ToLower(l.vnet) || got.Tags[cloud.TagNodeRoutes] != "c" ||
		!slices.Equal(got.Routes, []cloud.Route{{Destination: v4, Interface: l.webNIC}, {Destination: v6, Interface: l.dbNIC}}) {
		t.Errorf("%+v", got)
	}
	if err := l.router.Route(t.Context(), inRegion, cloud.RouteOp{Kind: cloud.RouteOpPut, Table: l.table, Destination: v6, Interface: l.webNIC}); cloud.ClassOf(err) != cloud.Terminal {
		t.Errorf("an interface without an address of the family: %v", err)
	}
	// A removal of a route that leads elsewhere by now removes nothing.
	l.routed(cloud.RouteOp{Kind: cloud.RouteOpPut, Table: l.table, Destination: v4, Interface: l.dbNIC})
	l.routed(cloud.RouteOp{Kind: cloud.RouteOpDelete, Table: l.table, Destination: v4, Interface: l.webNIC})
	if got := l.now(); len(got.Routes) != 2 || got.Routes[0].Interface != l.dbNIC {
		t.Errorf("%+v", got)
	}
	// An instance of a scale set takes packets as its model says.
	l.routed(cloud.RouteOp{Kind: cloud.RouteOpPut, Table: l.table, Destination: v4, Interface: l.set})
	if got := l.now(); got.Routes[0].Interface != l.set {
		t.Errorf("%+v", got)
	}
	if err := l.router.Route(t.Context(), inRegion, cloud.RouteOp{Kind: cloud.RouteOpForward, Interface: l.set, Forwards: true}); cloud.ClassOf(err) != cloud.Terminal ||
		!strings.Contains(err.Error(), "enableIPForwarding") {
		t.Errorf("%v", err)
	}
	for nic, c := range map[string]netip.Prefix{l.set: v4, l.dbNIC: v6} {
		l.routed(cloud.RouteOp{Kind: cloud.RouteOpDelete, Table: l.table, Destination: c, Interface: nic})
	}
	for _, kind := range []cloud.RouteOpKind{cloud.RouteOpClaim, cloud.RouteOpUnclaim} {
		if err := l.router.Route(t.Context(), inRegion, cloud.RouteOp{Kind: kind, Table: l.table, Claim: "d"}); cloud.ClassOf(err) != cloud.Conflict {
			t.Errorf("%s of a table that is claimed: %v", kind, err)
		}
	}
	l.routed(cloud.RouteOp{Kind: cloud.RouteOpUnclaim, Table: l.table, Claim: "c"})
	if got := l.now(); len(got.Routes) != 0 || got.Tags != nil {
		t.Errorf("%+v", got)
	}
}

// TestForwarders: interfaces are found by address and by id, as they are at that moment, and can be
// told to take packets for others; nothing else of them changes.
func TestForwarders(t *testing.T) {
	t.Parallel()
	l := newRouteLab(t)
	l.change(func(c *simazure.Cloud) { c.Set(simazure.Settings{Lag: time.Hour}) })
	before := l.document(l.dbNIC)
	for _, forwards := range []bool{true, false} {
		l.routed(cloud.RouteOp{Kind: cloud.RouteOpForward, Interface: l.dbNIC, Forwards: forwards})
		found, err := l.router.Forwarders(t.Context(), inRegion, []netip.Addr{netip.MustParseAddr("fd00:1::4"), netip.MustParseAddr("10.1.2.9")}, []string{l.webNIC})
		if err != nil || len(found) != 3 {
			t.Fatalf("%v, %v", found, err)
		}
		at := slices.IndexFunc(found, func(f cloud.Forwarder) bool { return f.ID == l.dbNIC })
		if at < 0 || found[at].Forwards != forwards || found[at].VMID != strings.ToLower(l.db) || found[at].NetworkID != strings.ToLower(l.vnet) ||
			fmt.Sprint(found[at].Addresses) != "[10.1.2.4 fd00:1::4]" {
			t.Errorf("%+v", found)
		}
	}
	if after := l.document(l.dbNIC); after != before {
		t.Errorf("not as it was:\n%s\n%s", before, after)
	}
	// One that is gone takes no packets any more.
	l.routed(cloud.RouteOp{Kind: cloud.RouteOpForward, Interface: l.dbNIC + "-not"})
}

// TestForeignRoutes: a route of another name stays, whatever it leads to; a route of ours whose
// address no interface has can be removed; a table that is full, busy or gone, and missing rights,
// are told as what they are.
func TestForeignRoutes(t *testing.T) {
	t.Parallel()
	l := newRouteLab(t)
	foreign, lost := netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("10.244.2.0/24")
	if err := l.byHand(func(p map[string]any) {
		p["routes"] = []any{route("worker-1", foreign.String(), "10.1.1.4"), route(routing.Name(lost), lost.String(), "10.1.1.99")}
	}); err != nil {
		t.Fatal(err)
	}
	want := []cloud.Route{{Destination: foreign, Other: "10.1.1.4 (route worker-1)"}, {Destination: lost, Interface: "10.1.1.99"}}
	if got := l.now(); !slices.Equal(got.Routes, want) {
		t.Errorf("%+v", got)
	}
	put := cloud.RouteOp{Kind: cloud.RouteOpPut, Table: l.table, Destination: foreign, Interface: l.webNIC}
	if err := l.router.Route(t.Context(), inRegion, put); cloud.ClassOf(err) != cloud.Conflict {
		t.Errorf("%v", err)
	}
	l.routed(cloud.RouteOp{Kind: cloud.RouteOpDelete, Table: l.table, Destination: foreign, Interface: l.webNIC})
	l.routed(cloud.RouteOp{Kind: cloud.RouteOpDelete, Table: l.table, Destination: lost, Interface: "10.1.1.99"})
	if got := l.now(); !slices.Equal(got.Routes, want[:1]) {
		t.Errorf("%+v", got)
	}
	put.Destination = lost
	l.change(func(c *simazure.Cloud) {
		if err := c.SetLimits(subscription, simazure.Limits{RoutesPerTable: 1}); err != nil {
			t.Fatal(err)
		}
	})
	if err := l.router.Route(t.Context(), inRegion, put); cloud.ClassOf(err) != cloud.Quota {
		t.Errorf("a full table: %v", err)
	}
	l.faults.Add(calls.Fault{Action: "Microsoft.Network/routeTables/routes/write", Times: 1, Code: "AnotherOperationInProgress", Status: 409})
	if err := l.router.Route(t.Context(), inRegion, put); cloud.ClassOf(err) != cloud.Conflict {
		t.Errorf("a busy table: %v", err)
	}
	l.limit(config.Role())
	if err := l.router.Route(t.Context(), inRegion, put); cloud.ClassOf(err) != cloud.Auth {
		t.Errorf("without the rights: %v", err)
	}
	put.Table += "-not"
	if err := l.router.Route(t.Context(), inRegion, put); cloud.ClassOf(err) != cloud.NotFound {
		t.Errorf("%v", err)
	}
	put.Table = strings.Replace(l.table, subscription, "bbbbbbbb-bbbb-4ccc-8ddd-eeeeeeeeeeee", 1)
	if err := l.router.Route(t.Context(), inRegion, put); cloud.ClassOf(err) != cloud.Terminal {
		t.Errorf("a table of another subscription: %v", err)
	}
}

// TestTablesOfNoNetwork: a table that no subnet uses, or that subnets of two networks use, is of no
// network.
func TestTablesOfNoNetwork(t *testing.T) {
	t.Parallel()
	var unused, shared string
	l := newLab(t, func(b *build.Builder) {
		vnet := l0vnet(b)
		unused = b.RouteTable("shop", "unused")
		shared = b.RouteTable("shop", "shared", vnet+"/subnets/web", strings.Replace(vnet, "vnet-a", "vnet-b", 1)+"/subnets/far")
	})
	tables, err := l.account().Router().RouteTables(t.Context(), inRegion, []string{unused, shared})
	if err != nil || len(tables) != 2 || tables[0].NetworkID != "" || tables[1].NetworkID != "" {
		t.Errorf("%+v, %v", tables, err)
	}
	elsewhere := cloud.Scope{Account: "shop/azure", Region: "eastus"}
	if tables, err := l.account(func(*azure.Config) {}).Router().RouteTables(t.Context(), elsewhere, []string{unused}); err != nil || len(tables) != 0 {
		t.Errorf("in another region: %+v, %v", tables, err)
	}
}
