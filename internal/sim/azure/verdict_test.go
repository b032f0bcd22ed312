package azure_test

import (
	"net/netip"
	"strconv"
	"testing"

	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
)

const (
	tenant       = "11111111-2222-4333-8444-555555555555"
	subscription = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func estate(t *testing.T, b *build.Builder) *azure.Cloud {
	t.Helper()
	n := 0
	c, err := azure.New(b.State, azure.Settings{}, func() string { n++; return build.GUIDOf(string(rune(n))) })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAllowed decides flows between two networks, with and without groups, on both sides of a group
// of a subnet.
func TestAllowed(t *testing.T) {
	b := build.New(tenant, subscription, "westeurope")
	web := b.SecurityGroup(
		"rg",
		"web",
		build.Rule("https", "Inbound", 100, "Allow", "Tcp", "Internet", "", "443"),
		build.Rule("no-ssh", "Inbound", 200, "Deny", "Tcp", "", "", "22"),
		build.Rule("no-dns", "Outbound", 100, "Deny", "*", "", "AzurePlatformDNS", ""),
	)
	guard := b.SecurityGroup(
		"rg",
		"guard",
		build.Rule("late", "Inbound", 4000, "Deny", "*", "", "", ""),
		build.Rule("web", "Inbound", 300, "Allow", "Tcp", "10.1.1.0/24", "", "5432"),
		build.Rule("hole", "Inbound", 250, "Deny", "Tcp", "10.1.1.5/32", "", "5000-5999"),
	)
	asg := b.ApplicationGroup("rg", "asg-web")
	byGroup := map[string]any{"name": "members", "properties": map[string]any{
		"direction": "Inbound", "priority": 100, "access": "Allow", "protocol": "Icmp", "sourcePortRange": "*", "destinationPortRange": "*",
		"sourceApplicationSecurityGroups": []any{map[string]any{"id": asg}}, "destinationAddressPrefix": "*",
	}}
	closed := b.SecurityGroup("rg", "closed", byGroup, build.Rule("none", "Inbound", 200, "Deny", "*", "", "", ""))
	a := b.Network("rg", "a", []string{"10.1.0.0/16"}, []string{"web", "10.1.1.0/24"}, []string{"db", "10.1.2.0/24", guard})
	peer := b.Network("rg", "b", []string{"10.2.0.0/16"}, []string{"s", "10.2.0.0/24"})
	alone := b.Network("rg", "c", []string{"10.3.0.0/16"}, []string{"s", "10.3.0.0/24"})
	b.Peer(a, peer)
	_, web1 := b.Machine("rg", "web1", a+"/subnets/web", "10.1.1.4", web, asg)
	_, web2 := b.Machine("rg", "web2", a+"/subnets/web", "10.1.1.5", "")
	_, db := b.Machine("rg", "db", a+"/subnets/db", "10.1.2.4", "")
	_, shut := b.Machine("rg", "shut", a+"/subnets/web", "10.1.1.6", closed)
	_, far := b.Machine("rg", "far", peer+"/subnets/s", "10.2.0.4", web)
	_, lone := b.Machine("rg", "lone", alone+"/subnets/s", "10.3.0.4", "")
	c := estate(t, b)
	nic := func(id string) azure.End { return azure.End{NIC: id} }
	ip := func(s string) azure.End { return azure.End{Addr: addr(s)} }
	for _, k := range []struct {
		name     string
		src, dst azure.End
		proto    int
		port     int
		want     bool
	}{
		{"the internet to 443", ip("203.0.113.7"), nic(web1), 6, 443, true},
		{"the internet to 80", ip("203.0.113.7"), nic(web1), 6, 80, false},
		{"the network to 80, by the default rules", nic(web2), nic(web1), 6, 80, true},
		{"the network to 22", nic(web2), nic(web1), 6, 22, false},
		{"a peered network", nic(far), nic(web1), 6, 80, true},
		{"443 is for the internet, yet a peer comes by the default rules", nic(far), nic(web1), 6, 443, true},
		{"an address of a network that is not connected", ip("10.3.0.4"), nic(far), 6, 80, false},
		{"the subnet's group lets web in", nic(web1), nic(db), 6, 5432, true},
		{"the deny before it", nic(web2), nic(db), 6, 5432, false},
		{"all else stops at the subnet", nic(web1), nic(db), 6, 80, false},
		{"ICMP has no ports", nic(web1), nic(db), 1, 0, false},
		{"outbound without a group", nic(db), nic(web2), 132, 0, true},
		{"members of an application group", nic(web1), nic(shut), 1, 0, true},
		{"members, another protocol", nic(web1), nic(shut), 6, 80, false},
		{"others", nic(web2), nic(shut), 1, 0, false},
		{"no group at all", ip("203.0.113.7"), nic(lone), 6, 22, true},
		{"out to the internet", nic(web1), ip("203.0.113.7"), 17, 53, true},
		{"out to the platform is denied by its own tag only", nic(web1), ip("168.63.129.16"), 17, 53, false},
		{"the metadata service", nic(web1), ip("169.254.169.254"), 6, 80, true},
		{"probes of load balancers", ip("168.63.129.16"), nic(web1), 6, 80, true},
		{"one interface", nic(shut), nic(shut), 6, 22, true},
	} {
		v, err := c.Verdicts().Allowed(azure.Flow{Src: k.src, Dst: k.dst, Protocol: k.proto, Port: k.port})
		if err != nil || v.Allowed != k.want {
			t.Errorf("%s: %v %q %v", k.name, v.Allowed, v.Reason, err)
		}
	}
	for name, f := range map[string]azure.Flow{
		"not connected":  {Src: nic(lone), Dst: nic(web1)},
		"outside":        {Src: ip("1.1.1.1"), Dst: ip("2.2.2.2")},
		"other families": {Src: ip("2001:db8::1"), Dst: nic(web1)},
		"unknown":        {Src: nic("/nobody"), Dst: nic(web1)},
	} {
		if v, err := c.Verdicts().Allowed(f); err == nil {
			t.Errorf("%s: decided %v", name, v)
		}
	}
}

// TestStandardAddress: a Standard public address is closed until a security group opens it.
func TestStandardAddress(t *testing.T) {
	b := build.New(tenant, subscription, "westeurope")
	a := b.Network("rg", "a", []string{"10.1.0.0/16"}, []string{"web", "10.1.1.0/24"})
	_, nic := b.Machine("rg", "web1", a+"/subnets/web", "10.1.1.4", "")
	public := b.Add("rg", "Microsoft.Network/publicIPAddresses", "pip", map[string]any{"ipAddress": "198.51.100.7"}, nil)
	for i := range b.State.Resources {
		r := &b.State.Resources[i]
		switch r.ID {
		case nic:
			r.Properties["ipConfigurations"].([]any)[0].(map[string]any)["properties"].(map[string]any)["publicIPAddress"] = map[string]any{"id": public}
		case public:
			r.Extra = map[string]any{"sku": map[string]any{"name": "Standard"}}
		}
	}
	flow := azure.Flow{Src: azure.End{Addr: addr("203.0.113.7")}, Dst: azure.End{Addr: addr("198.51.100.7")}, Protocol: 6, Port: 443}
	if v, err := estate(t, b).Verdicts().Allowed(flow); err != nil || v.Allowed {
		t.Errorf("without a group: %+v %v", v, err)
	}
	for i := range b.State.Resources {
		if r := &b.State.Resources[i]; r.ID == public {
			r.Extra = map[string]any{"sku": map[string]any{"name": "Basic"}}
		}
	}
	if v, err := estate(t, b).Verdicts().Allowed(flow); err != nil || !v.Allowed {
		t.Errorf("a Basic address: %+v %v", v, err)
	}
}

// TestRulesOfEmptyGroups: where a subscription is said to be like that, a rule of two application
// security groups is ignored as a whole while one of them has no member. A rule of one group means
// nobody then, as ever.
func TestRulesOfEmptyGroups(t *testing.T) {
	for _, voids := range []bool{false, true} {
		b := build.New(tenant, subscription, "westeurope")
		b.State.Subscriptions[0].EmptyGroupsVoidRules = voids
		used, empty := b.ApplicationGroup("rg", "used"), b.ApplicationGroup("rg", "empty")
		rule := func(name string, priority, port int, groups ...string) map[string]any {
			var refs []any
			for _, g := range groups {
				refs = append(refs, map[string]any{"id": g})
			}
			return map[string]any{"name": name, "properties": map[string]any{
				"direction": "Inbound", "priority": priority, "access": "Allow", "protocol": "Tcp", "sourcePortRange": "*", "destinationPortRange": strconv.Itoa(port),
				"sourceApplicationSecurityGroups": refs, "destinationAddressPrefix": "*",
			}}
		}
		guard := b.SecurityGroup("rg", "guard", rule("both", 100, 80, used, empty), rule("one", 110, 81, used), rule("nobody", 120, 82, empty),
			build.Rule("none", "Inbound", 200, "Deny", "*", "", "", ""))
		vnet := b.Network("rg", "a", []string{"10.1.0.0/16"}, []string{"web", "10.1.1.0/24"})
		_, from := b.Machine("rg", "web", vnet+"/subnets/web", "10.1.1.4", "", used)
		_, to := b.Machine("rg", "db", vnet+"/subnets/web", "10.1.1.5", guard)
		c := estate(t, b)
		for port, want := range map[int]bool{80: !voids, 81: true, 82: false} {
			v, err := c.Verdicts().Allowed(azure.Flow{Src: azure.End{NIC: from}, Dst: azure.End{NIC: to}, Protocol: 6, Port: port})
			if err != nil || v.Allowed != want {
				t.Errorf("voids %t, port %d: %t, %v", voids, port, v.Allowed, err)
			}
		}
	}
}
