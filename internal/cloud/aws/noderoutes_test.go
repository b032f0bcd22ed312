package aws_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	policies "github.com/nephele-io/nephele/internal/cloud/aws/rights"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
)

// routeLab is a lab with a route table, the rights to it, and two interfaces.
func routeLab(t *testing.T) (l *lab, table string, nics []cloud.Interface) {
	t.Helper()
	first := newLab(t, sim.Options{})
	made, err := first.region().Routes().CreateRouteTable(network, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	pins := pinned(t)
	pins.RouteTables = []string{made.ID}
	state := first.server.World().State()
	state.Credentials[0].Policy = written(t, pins)
	l = newLab(t, sim.Options{State: state})
	snap, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range snap.Interfaces {
		if n.NetworkID == network && n.VMID != "" {
			nics = append(nics, n)
		}
	}
	if len(nics) < 2 {
		t.Fatalf("%d interfaces", len(nics))
	}
	return l, made.ID, nics
}

func (l *lab) route(op cloud.RouteOp) error {
	return l.provider.Router().Route(l.Context(), l.scope(), op)
}

func (l *lab) routed(op cloud.RouteOp) {
	l.Helper()
	for range 2 { // the second time nothing is left to do
		if err := l.route(op); err != nil {
			l.Fatalf("%s: %v", op, err)
		}
	}
}

func (l *lab) routeTable(id string) cloud.RouteTable {
	l.Helper()
	tables, err := l.provider.Router().RouteTables(l.Context(), l.scope(), []string{id, "rtb-00000000"})
	if err != nil || len(tables) != 1 {
		l.Fatalf("%v, %v", tables, err)
	}
	return tables[0]
}

// TestNodeRoutes does each operation on routes over the wire, twice, with no more than the rights
// that the command prints for them.
func TestNodeRoutes(t *testing.T) {
	t.Parallel()
	l, table, nics := routeLab(t)
	c := netip.MustParsePrefix("10.244.1.0/24")
	put := cloud.RouteOp{Kind: cloud.RouteOpPut, Table: table, Destination: c, Interface: nics[0].ID}
	l.routed(cloud.RouteOp{Kind: cloud.RouteOpClaim, Table: table, Claim: "c"})
	l.routed(put)
	if got := l.routeTable(table); got.NetworkID != network || got.Tags[cloud.TagNodeRoutes] != "c" || !slices.Equal(got.Routes, []cloud.Route{{Destination: c, Interface: nics[0].ID}}) {
		t.Errorf("%+v", got)
	}
	// A removal of a route that leads elsewhere by now removes nothing.
	put.Interface = nics[1].ID
	l.routed(put)
	l.routed(cloud.RouteOp{Kind: cloud.RouteOpDelete, Table: table, Destination: c, Interface: nics[0].ID})
	if got := l.routeTable(table); !slices.Equal(got.Routes, []cloud.Route{{Destination: c, Interface: nics[1].ID}}) {
		t.Errorf("%+v", got)
	}
	l.routed(cloud.RouteOp{Kind: cloud.RouteOpDelete, Table: table, Destination: c, Interface: nics[1].ID})
	if got := l.routeTable(table); len(got.Routes) != 0 {
		t.Errorf("%+v", got)
	}
	for _, claim := range []cloud.RouteOpKind{cloud.RouteOpClaim, cloud.RouteOpUnclaim} {
		if err := l.route(cloud.RouteOp{Kind: claim, Table: table, Claim: "d"}); cloud.ClassOf(err) != cloud.Conflict {
			t.Errorf("%s of a table that is claimed: %v", claim, err)
		}
	}
	l.routed(cloud.RouteOp{Kind: cloud.RouteOpUnclaim, Table: table, Claim: "c"})
	if got := l.routeTable(table); got.Tags != nil {
		t.Errorf("%+v", got)
	}
}

// TestForwarders: interfaces are found by address and by id, once each, and can be told to take
// packets for others.
func TestForwarders(t *testing.T) {
	t.Parallel()
	l, _, nics := routeLab(t)
	for _, forwards := range []bool{true, false} {
		l.routed(cloud.RouteOp{Kind: cloud.RouteOpForward, Interface: nics[0].ID, Forwards: forwards})
		found, err := l.provider.Router().Forwarders(t.Context(), l.scope(), append(slices.Clone(nics[0].PrivateIPs), netip.MustParseAddr("192.0.2.1")), []string{nics[0].ID, nics[1].ID})
		if err != nil || len(found) != 2 {
			t.Fatalf("%v, %v", found, err)
		}
		for _, f := range found {
			if f.ID == nics[0].ID && (f.Forwards != forwards || f.VMID != nics[0].VMID || f.NetworkID != network || !slices.Equal(f.Addresses, nics[0].PrivateIPs)) {
				t.Errorf("%+v", f)
			}
		}
	}
	// One that is gone takes no packets any more.
	newLab(t, sim.Options{}).routed(cloud.RouteOp{Kind: cloud.RouteOpForward, Interface: "eni-00000000", Forwards: false})
}

// TestForeignRoutes: a route to anything but an interface stays, a table that is gone is told, and
// without the rights nothing is written.
func TestForeignRoutes(t *testing.T) {
	t.Parallel()
	l, table, nics := routeLab(t)
	c := netip.MustParsePrefix("10.244.1.0/24")
	if err := l.region().Routes().CreateRoute(simaws.RouteInput{TableID: table, Destination: c.String(), Target: "tgw-12345678"}); err != nil {
		t.Fatal(err)
	}
	if got := l.routeTable(table); !slices.Equal(got.Routes, []cloud.Route{{Destination: c, Other: "tgw-12345678"}}) {
		t.Errorf("%+v", got)
	}
	op := cloud.RouteOp{Kind: cloud.RouteOpPut, Table: table, Destination: c, Interface: nics[0].ID}
	if err := l.route(op); cloud.ClassOf(err) != cloud.Conflict {
		t.Errorf("%v", err)
	}
	l.routed(cloud.RouteOp{Kind: cloud.RouteOpDelete, Table: table, Destination: c, Interface: nics[0].ID})
	if got := l.routeTable(table); len(got.Routes) != 1 {
		t.Errorf("%+v", got)
	}
	op.Table = "rtb-00000000"
	if err := l.route(op); cloud.ClassOf(err) != cloud.NotFound {
		t.Errorf("%v", err)
	}
	narrow := newLabWithRights(t, written(t, policies.Pins{Mode: policies.Plan, RouteTables: []string{table}}))
	made, err := narrow.region().Routes().CreateRouteTable(network, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := narrow.clock.sleep(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	op.Table = made.ID
	if err := narrow.route(op); cloud.ClassOf(err) != cloud.Auth {
		t.Errorf("%v", err)
	}
}
