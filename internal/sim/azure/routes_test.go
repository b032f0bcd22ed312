package azure_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
	"github.com/nephele-io/nephele/internal/sim/effect"
)

// routed is an estate of two subnets with a Node each, and a route table of the first.
type routed struct {
	*testing.T
	c           *azure.Cloud
	by          azure.Principal
	now         time.Time
	one, two    string
	table, vnet string
}

func newRouted(t *testing.T, options ...func(*azure.Settings)) *routed {
	t.Helper()
	b := build.New(tenant, subscription, "westeurope")
	r := &routed{T: t, by: azure.Principal{Tenant: tenant}, now: time.Unix(1000, 0)}
	r.vnet = b.Network("rg", "a", []string{"10.1.0.0/16"}, []string{"one", "10.1.1.0/24"}, []string{"two", "10.1.2.0/24"})
	guard := b.SecurityGroup("rg", "guard", build.Rule("no", "Inbound", 100, "Deny", "Tcp", "10.244.1.9/32", "", "22"))
	_, r.one = b.Machine("rg", "one", r.vnet+"/subnets/one", "10.1.1.4", "")
	_, r.two = b.Machine("rg", "two", r.vnet+"/subnets/two", "10.1.2.4", guard)
	r.table = b.RouteTable("rg", "nodes", r.vnet+"/subnets/one")
	settings := azure.Settings{}
	for _, f := range options {
		f(&settings)
	}
	n := 0
	var err error
	if r.c, err = azure.New(b.State, settings, func() string { n++; return build.GUIDOf(fmt.Sprint(n)) }); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *routed) put(id string, doc map[string]any) error {
	r.Helper()
	at, ok := document.ParseID(id)
	if !ok {
		r.Fatal(id)
	}
	_, err := r.c.Put(azure.Write{By: &r.by, Now: r.now}, at, doc)
	return err
}

func (r *routed) get(id string) map[string]any {
	r.Helper()
	at, _ := document.ParseID(id)
	doc, err := r.c.Get(&r.by, at)
	if err != nil {
		r.Fatal(err)
	}
	return doc
}

func (r *routed) forwards(nic string, on bool) {
	r.Helper()
	doc := r.get(nic)
	doc["properties"].(map[string]any)["enableIPForwarding"] = on
	if err := r.put(nic, doc); err != nil {
		r.Fatal(err)
	}
}

func routeDocument(prefix, kind, hop string) map[string]any {
	p := map[string]any{"addressPrefix": prefix, "nextHopType": kind}
	if hop != "" {
		p["nextHopIpAddress"] = hop
	}
	return map[string]any{"properties": p}
}

// led follows a packet from the first Node and says what becomes of it.
func (r *routed) led(src, dst string, port int) string {
	r.Helper()
	v, nic, err := r.c.Verdicts().Led(azure.Packet{NIC: r.one, Src: addr(src), Dst: addr(dst), Protocol: 6, Port: port})
	if err != nil {
		return err.Error()
	}
	if nic != "" && v.Allowed {
		return "taken by " + nic[strings.LastIndexByte(nic, '/')+1:]
	}
	return v.Reason
}

// TestLed: what an interface sends goes where the route of the longest prefix leads, if both
// interfaces forward what is not theirs and the security groups let it through.
func TestLed(t *testing.T) {
	r := newRouted(t)
	expect := func(want string, port int) {
		t.Helper()
		if got := r.led("10.244.1.9", "10.244.2.5", port); got != want {
			t.Errorf("port %d: %q, want %q", port, got, want)
		}
	}
	expect("dropped: one-nic (10.1.1.4) has no IP forwarding, and sends from 10.244.1.9", 80)
	r.forwards(r.one, true)
	expect("", 80) // it leaves the network, to nobody
	if err := r.put(r.table+"/routes/pods", routeDocument("10.244.0.0/16", "None", "")); err != nil {
		t.Fatal(err)
	}
	expect("dropped: the route pods leads nowhere", 80)
	if err := r.put(r.table+"/routes/two", routeDocument("10.244.2.0/24", "VirtualAppliance", "10.1.2.77")); err != nil {
		t.Fatal(err)
	}
	expect("dropped: the route two leads to 10.1.2.77, which no interface has", 80)
	if err := r.put(r.table+"/routes/two", routeDocument("10.244.2.0/24", "VirtualAppliance", "10.1.2.4")); err != nil {
		t.Fatal(err)
	}
	expect("dropped: the route two leads to two-nic (10.1.2.4), which has no IP forwarding", 80)
	r.forwards(r.two, true)
	expect("dropped: DenyAllInBound of guard, inbound of two-nic (10.1.2.4)", 80) // no tag holds Pods there
	doc := r.get(r.vnet)
	for _, s := range doc["properties"].(map[string]any)["subnets"].([]any) {
		s.(map[string]any)["properties"].(map[string]any)["routeTable"] = map[string]any{"id": r.table}
	}
	if err := r.put(r.vnet, doc); err != nil {
		t.Fatal(err)
	}
	expect("taken by two-nic", 80)
	expect("dropped: no of guard, inbound of two-nic (10.1.2.4)", 22)
	for dst, want := range map[string]string{"10.1.2.4": "taken by two-nic", "10.1.9.9": "dropped: no interface has 10.1.9.9", "10.244.9.1": "dropped: the route pods leads nowhere"} {
		if got := r.led("10.1.1.4", dst, 80); got != want {
			t.Errorf("to %s: %q, want %q", dst, got, want)
		}
	}
}

// TestRouteTables: what the cloud refuses of a route table, and what it shows.
func TestRouteTables(t *testing.T) {
	r := newRouted(t)
	code := func(err error) string {
		var e *document.Error
		if !errors.As(err, &e) {
			return fmt.Sprint(err)
		}
		if len(e.Details) > 0 {
			return e.Code + "/" + e.Details[0].Code
		}
		return e.Code
	}
	if err := r.put(r.table+"/routes/good", routeDocument("10.9.0.0/24", "VirtualAppliance", "10.1.2.4")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		doc  map[string]any
		want string
	}{
		"same":      {routeDocument("10.9.0.0/24", "Internet", ""), "RouteConflict"},
		"host-bits": {routeDocument("10.8.0.1/24", "Internet", ""), "InvalidCIDRNotation"},
		"text":      {routeDocument("10.8.0", "Internet", ""), "InvalidAddressPrefixFormat"},
		"kind":      {routeDocument("10.8.0.0/24", "Appliance", "10.1.2.4"), "InvalidRequestFormat/InvalidJson"},
		"no-hop":    {routeDocument("10.8.0.0/24", "VirtualAppliance", ""), "InvalidIPAddressFormat"},
		"a-hop":     {routeDocument("10.8.0.0/24", "VnetLocal", "10.1.2.4"), "RouteNextHopIpAddressNotAllowed"},
		"family":    {routeDocument("fd00::/64", "VirtualAppliance", "10.1.2.4"), "RouteNextHopIpAddressFamilyMismatch"},
		"-name":     {routeDocument("10.8.0.0/24", "Internet", ""), "InvalidResourceName"},
		"a-tag":     {routeDocument("AzureMonitor", "Internet", ""), "<nil>"},
	} {
		if got := code(r.put(r.table+"/routes/"+name, c.doc)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	doc := r.get(r.table)["properties"].(map[string]any)
	if subnets := fmt.Sprint(doc["subnets"]); len(doc["routes"].([]any)) != 2 || !strings.Contains(subnets, "/subnets/one") {
		t.Errorf("%v", doc)
	}
	at, _ := document.ParseID(r.table)
	if _, err := r.c.Delete(azure.Write{By: &r.by, Now: r.now}, at); code(err) != "InUseRouteTableCannotBeDeleted" {
		t.Error(err)
	}
	if err := r.c.SetLimits(subscription, azure.Limits{RoutesPerTable: 2, RouteTables: 1}); err != nil {
		t.Fatal(err)
	}
	if got := code(r.put(r.table+"/routes/more", routeDocument("10.7.0.0/24", "Internet", ""))); got != "RouteCountLimitReached" {
		t.Error(got)
	}
	if got := code(r.put(r.table+"-2", map[string]any{"location": "westeurope"})); got != "RouteTableCountLimitReached" {
		t.Error(got)
	}
}

// TestRoutesTakeTime: a route comes into force at each interface within the bound, and not at once.
func TestRoutesTakeTime(t *testing.T) {
	now := time.Unix(1000, 0)
	late := false
	for seed := range uint64(20) {
		now = time.Unix(1000, 0)
		log := effect.New(effect.Delay{Bound: 10 * time.Second, Seed: seed}, func() time.Time { return now })
		r := newRouted(t, func(s *azure.Settings) { s.Effects = log })
		if err := r.put(r.table+"/routes/none", routeDocument("10.244.0.0/16", "None", "")); err != nil {
			t.Fatal(err)
		}
		late = late || r.led("10.1.1.4", "10.244.2.5", 80) == ""
		now = now.Add(11 * time.Second)
		if got := r.led("10.1.1.4", "10.244.2.5", 80); !strings.Contains(got, "leads nowhere") {
			t.Errorf("seed %d: %s", seed, got)
		}
	}
	if !late {
		t.Error("it was in force at once everywhere")
	}
}
