package azure_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	config "github.com/nephele-io/nephele/config/azure"
	"github.com/nephele-io/nephele/internal/cloud"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
	"github.com/nephele-io/nephele/internal/sim/calls"
)

// relays puts load balancers and application gateways into the network of a lab, with web-1 behind
// each.
func relays(b *build.Builder) {
	gates := b.Network("shop", "vnet-g", []string{"10.8.0.0/16"}, []string{"gate", "10.8.1.0/28"}, []string{"wide", "10.8.2.0/23"}, []string{"both", "10.8.4.0/28"})
	subnet := "/subscriptions/" + subscription + "/resourceGroups/shop/providers/Microsoft.Network/virtualNetworks/vnet-a/subnets/web"
	nic := ""
	for _, r := range b.State.Resources {
		if strings.HasSuffix(r.ID, "/web-1-nic") {
			nic = r.ID
		}
	}
	sql := build.Listening{Protocol: "Tcp", Port: 1433, To: 11433, Probe: 59999, Pool: "sql"}
	all := build.Listening{Protocol: "All", Pool: "all"}
	inside := b.Balancer("shop", "inside", subnet, "10.1.1.200", map[string]string{"team": "shop"}, sql, all)
	outside := b.Balancer("shop", "outside", "", b.PublicAddress("shop", "pip", "203.0.113.5"), nil, build.Listening{Protocol: "Udp", Port: 53, To: 53, Pool: "dns", Hosts: []string{"10.1.1.77"}})
	web := []build.Listening{{Protocol: "Https", Port: 443, To: 8080, Probe: 8081, Pool: "web"}, {Protocol: "Http", Port: 80, To: 8080, Pool: "old"}}
	front := b.Gateway("shop", "front", gates+"/subnets/gate", "10.8.1.9", nil, web...)
	b.Gateway("shop", "wide", gates+"/subnets/wide", "10.8.2.9", nil, web[0])
	b.Gateway("shop", "one", gates+"/subnets/both", "10.8.4.9", nil, web[0])
	b.Gateway("shop", "other", gates+"/subnets/both", "10.8.4.10", nil, web[0])
	b.Behind(nic, inside+"/backendAddressPools/sql", false)
	b.Behind(nic, outside+"/backendAddressPools/dns", false)
	b.Behind(nic, front+"/backendAddressPools/web", true)
}

// handsOn is what a service listens at and hands on, in short.
func handsOn(s *cloud.Service) (out []string) {
	for _, l := range s.Listeners {
		text := fmt.Sprintf("%s %d at %v:", cloud.ProtocolName(l.Protocol), l.Port, l.Addrs)
		for _, g := range l.Groups {
			text += fmt.Sprintf(" %s preserved %t", g.Name, g.Preserved)
			for _, t := range g.Targets {
				text += fmt.Sprintf(" %s:%d/%d", t.Addr, t.Port, t.HealthPort)
			}
			text += g.Unknown
		}
		out = append(out, text)
	}
	return out
}

// TestBalancersAndGateways: load balancers are their front ends, and gateways the addresses of
// their subnet, where these are theirs alone; both with ports, listeners and targets. A right that
// is missing for one kind is told, and leaves the others as they are.
func TestBalancersAndGateways(t *testing.T) {
	t.Parallel()
	l := newLab(t, relays)
	shown, err := l.account().Show(cloud.ServiceKinds()).Observe(t.Context(), inRegion)
	if err != nil || len(shown.ServiceFaults) > 0 {
		t.Fatalf("%v %+v", err, shown.ServiceFaults)
	}
	by := map[string]*cloud.Service{}
	for i := range shown.Services {
		by[shown.Services[i].Name] = &shown.Services[i]
	}
	inside, outside, front := by["inside"], by["outside"], by["front"]
	if len(by) != 6 || inside == nil || outside == nil || front == nil {
		t.Fatalf("%q", inShort(shown))
	}
	for name, c := range map[string]struct{ got, want []string }{
		"inside":       {handsOn(inside), []string{"tcp 0 at [10.1.1.200]: all preserved true", "tcp 1433 at [10.1.1.200]: sql preserved true 10.1.1.4:11433/59999", "udp 0 at [10.1.1.200]: all preserved true"}},
		"outside":      {handsOn(outside), []string{"udp 53 at [203.0.113.5]: dns preserved true 10.1.1.4:53/0 10.1.1.77:53/0"}},
		"front":        {handsOn(front), []string{"tcp 80 at [10.8.1.9]: old preserved false", "tcp 443 at [10.8.1.9]: web preserved false 10.1.1.4:8080/8081"}},
		"all in short": {inShort(shown)[3:], []string{"LoadBalancer inside [10.1.1.200] [{tcp 6 1433} {tcp-1433 6 1433}] map[team:shop]", "LoadBalancer outside [] [{udp 17 53} {udp-53 17 53}] map[]"}},
	} {
		if c.got = slices.DeleteFunc(c.got, func(s string) bool { return strings.HasPrefix(s, "ApplicationGateway") }); !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
	if want := netip.MustParseAddr("10.8.1.4"); len(front.Private) != 11 || front.Private[0] != want || front.Private[10] != netip.MustParseAddr("10.8.1.14") {
		t.Errorf("the gateway has %v", front.Private)
	}
	for name, why := range map[string]string{"wide": "more than 256", "one": "several application gateways", "other": "several application gateways"} {
		if s := by[name]; len(s.Private)+len(s.Public)+len(s.Interfaces) > 0 || !strings.Contains(s.Ambiguous, why) {
			t.Errorf("%+v", s)
		}
	}
	for i := range shown.Interfaces {
		if n := &shown.Interfaces[i]; i > 0 && shown.Interfaces[i-1].ID >= n.ID || slices.Contains(inside.Interfaces, n.ID) && (!n.Managed || n.SubnetID != "" || n.NetworkID != inside.NetworkID) {
			t.Errorf("%+v", n)
		}
	}
	// Nobody asks: nothing is shown, and no interface stands for it.
	if plain := l.observe(l.account()); len(plain.Services) > 0 || len(plain.Interfaces) != 2 {
		t.Errorf("%d interfaces", len(plain.Interfaces))
	}
	// Without the right for one kind the others are as they were, and that is said.
	for kind, right := range map[cloud.ServiceKind]string{cloud.LoadBalancer: "Microsoft.Network/loadBalancers/read", cloud.ApplicationGateway: "Microsoft.Network/applicationGateways/read"} {
		l := newLab(t, func(b *build.Builder) {
			relays(b)
			b.State.Principals[0].Assignments = []simazure.Assignment{{Scope: "/subscriptions/" + subscription, Role: simazure.Role{
				Name: "less", Actions: []string{"*/read"}, NotActions: []string{right},
			}}}
		})
		less, err := l.account().Show(cloud.ServiceKinds()).Observe(t.Context(), inRegion)
		if err != nil {
			t.Fatal(err)
		}
		if len(less.ServiceFaults) != 1 || less.ServiceFaults[0].Right != right || cloud.ClassOf(less.ServiceFaults[0].Err) != cloud.Auth {
			t.Errorf("%s: %+v", kind, less.ServiceFaults)
		}
		want := slices.DeleteFunc(inShort(shown), func(s string) bool { return strings.HasPrefix(s, string(kind)+" ") })
		if got := inShort(less); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}

// TestWithdrawnRight: when the right to read a kind is withdrawn, what interfaces are behind stays
// as it was last told, which is said; what is deleted then goes, others are read anew, and of two
// gateways in a subnet the one that stays has no address after as before.
func TestWithdrawnRight(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(b *build.Builder) {
		relays(b)
		for _, r := range b.State.Resources {
			if strings.HasSuffix(r.ID, "/db-1-nic") {
				b.Behind(r.ID, "/subscriptions/"+subscription+"/resourceGroups/shop/providers/Microsoft.Network/applicationGateways/one/backendAddressPools/web", true)
			}
		}
	})
	may := func(not ...string) {
		l.change(func(c *simazure.Cloud) {
			p := c.Principals()[0]
			p.Assignments = []simazure.Assignment{{Scope: "/subscriptions/" + subscription, Role: simazure.Role{Name: "less", Actions: []string{"*/read"}, NotActions: not}}}
			c.SetPrincipal(p)
		})
	}
	account := l.account()
	read := func() *cloud.Snapshot {
		s, err := account.Show(cloud.ServiceKinds()).Observe(t.Context(), inRegion)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const balancers, gateways = "Microsoft.Network/loadBalancers/read", "Microsoft.Network/applicationGateways/read"
	may()
	before := read()
	behind := func(s string) bool { return !strings.Contains(s, " wide ") && !strings.Contains(s, " other ") }
	want := slices.DeleteFunc(inShort(before), func(s string) bool { return !behind(s) })
	may(balancers, gateways)
	for range 2 { // what was kept is kept again
		less := read()
		if got := inShort(less); !slices.Equal(got, want) || len(got) != 4 {
			t.Errorf("%q, want %q", got, want)
		}
		if len(less.ServiceFaults) != 2 {
			t.Errorf("%+v", less.ServiceFaults)
		}
		for i := range less.Services {
			s := &less.Services[i]
			then := before.Services[slices.IndexFunc(before.Services, func(o cloud.Service) bool { return o.ID == s.ID })]
			if s.Ambiguous != then.Ambiguous || !slices.Equal(handsOn(s), handsOn(&then)) || !slices.Equal(s.Interfaces, then.Interfaces) {
				t.Errorf("%+v, want %+v", s, then)
			}
			for _, id := range s.Interfaces {
				if !slices.ContainsFunc(less.Interfaces, func(n cloud.Interface) bool { return n.ID == id && n.Front }) {
					t.Errorf("%s is not there", id)
				}
			}
		}
	}
	// What nothing is behind any more is not kept: it may have been deleted.
	l.change(func(c *simazure.Cloud) {
		p := c.Principals()[0]
		p.Assignments = []simazure.Assignment{{Scope: "/subscriptions/" + subscription, Role: simazure.Role{Name: "all", Actions: []string{"*"}}}}
		at, _ := document.ParseID(l.webNIC)
		doc, err := c.Get(&p, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range doc["properties"].(map[string]any)["ipConfigurations"].([]any) {
			of := x.(map[string]any)["properties"].(map[string]any)
			delete(of, "loadBalancerBackendAddressPools")
			delete(of, "applicationGatewayBackendAddressPools")
		}
		if _, err := c.Put(simazure.Write{By: &p, Now: l.now}, at, doc); err != nil {
			t.Fatal(err)
		}
	})
	if got := inShort(read()); len(got) != 1 || !strings.HasPrefix(got[0], "ApplicationGateway one ") {
		t.Errorf("%q", got)
	}
	may()
	if s := read(); len(s.ServiceFaults) > 0 || !slices.Equal(inShort(s), inShort(before)) {
		t.Errorf("%q %+v", inShort(s), s.ServiceFaults)
	}
}

// TestServicesThatCannotBeReadFailTheRegion: a region whose services cannot be read stays as it was
// known. Without them a policy would neither admit nor drop what comes from a balancer.
func TestServicesThatCannotBeReadFailTheRegion(t *testing.T) {
	t.Parallel()
	l := newLab(t, relays)
	failed := false
	l.faults.Add(calls.Fault{Action: graphRead, Code: "InternalServerError", Times: -1, Match: func(c calls.Call) bool {
		asks := strings.Contains(strings.ToLower(fmt.Sprint(c.Params)), "microsoft.network/loadbalancers")
		failed = failed || asks
		return asks
	}})
	if snap, err := l.account().Show(cloud.ServiceKinds()).Observe(t.Context(), inRegion); err == nil || !failed {
		t.Errorf("asked %t, read %+v", failed, snap)
	}
}

// TestRoleBehindBalancers: the published role is enough to exchange the groups of an interface that
// is behind load balancers and gateways, which stays behind them.
func TestRoleBehindBalancers(t *testing.T) {
	t.Parallel()
	role, err := simazure.ParseRole(config.Role())
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t, relays)
	l.change(func(c *simazure.Cloud) {
		p := c.Principals()[0]
		p.Assignments = []simazure.Assignment{{Scope: "/subscriptions/" + subscription + "/resourceGroups/shop", Role: role}}
		c.SetPrincipal(p)
	})
	a := l.account()
	if err := a.SetInterfaceGroups(t.Context(), l.webNIC, l.nsg, []string{l.asg}); err != nil {
		t.Fatal(err)
	}
	shown, err := a.Show([]cloud.ServiceKind{cloud.LoadBalancer, cloud.ApplicationGateway}).Observe(t.Context(), inRegion)
	if err != nil {
		t.Fatal(err)
	}
	var behind int
	for i := range shown.Services {
		behind += strings.Count(strings.Join(handsOn(&shown.Services[i]), " "), "10.1.1.4:")
	}
	if behind != 3 {
		t.Errorf("it is behind %d, want 3", behind)
	}
}
