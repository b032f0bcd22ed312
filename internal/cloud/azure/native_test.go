package azure_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
)

// randomRules are rules as people write them, with denies, tags, groups of both sides and addresses
// of the interfaces themselves.
func randomRules(r *rand.Rand, asgs []string) []map[string]any {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	sides := []string{
		"*",
		"VirtualNetwork",
		"Internet",
		"AzureLoadBalancer",
		"10.1.0.0/16",
		"10.1.1.0/24",
		"10.1.1.4",
		"10.1.2.4",
		"10.2.0.0/16",
		"10.2.1.9",
		"198.51.100.0/24",
		"0.0.0.0/0",
		"::/0",
		"fd00:1::/64",
		"Storage",
		"Sql",
	}
	var out []map[string]any
	for i := range r.IntN(7) {
		rule := build.Rule(
			fmt.Sprintf("r%d", i),
			pick("Inbound", "Outbound"),
			100+r.IntN(5)*10+i,
			pick("Allow", "Deny"),
			pick("Tcp", "Udp", "Icmp", "*", "*", "Esp"),
			pick(sides...),
			pick("*", "*", pick(sides...)),
			"",
		)
		p := rule["properties"].(map[string]any)
		if p["protocol"] == "Tcp" || p["protocol"] == "Udp" {
			p["destinationPortRange"] = pick("*", "22", "80", "80-443", "1000-2000")
		}
		if r.IntN(12) == 0 {
			p["sourcePortRange"] = "40000-60000"
		}
		if strings.Contains(fmt.Sprint(p["sourceAddressPrefix"], p["destinationAddressPrefix"]), "::") {
			p["destinationAddressPrefix"] = "*" // one rule is of one family
		}
		if r.IntN(4) == 0 {
			side := pick("source", "destination")
			delete(p, side+"AddressPrefix")
			p[side+"ApplicationSecurityGroups"] = []any{map[string]any{"id": pick(asgs...)}}
		}
		out = append(out, rule)
	}
	return out
}

// TestNativeIsWhatTheCloudDecides compares what a view of a group says with the simulator's
// verdict, flow by flow, for random groups. Where the view is not exact, the interface cannot be
// taken over, and the view says less.
func TestNativeIsWhatTheCloudDecides(t *testing.T) {
	t.Parallel()
	exact := map[bool]int{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(1, seed))
		var other string
		var tags map[string][]netip.Prefix
		l := newLab(t, func(b *build.Builder) {
			other = b.ApplicationGroup("shop", "asg-db")
			b.State.ServiceTags = tagged()
			tags = randomLeads(r, b)
			asgs := []string{other}
			for _, res := range b.State.Resources {
				if strings.HasSuffix(res.ID, "asg-web") {
					asgs = append(asgs, res.ID)
				}
			}
			n := b.SecurityGroup("shop", "random", randomRules(r, asgs)...)
			for i := range b.State.Resources {
				if res := &b.State.Resources[i]; strings.HasSuffix(res.ID, "/web-1-nic") {
					res.Properties["networkSecurityGroup"] = map[string]any{"id": n}
				}
				if res := &b.State.Resources[i]; strings.HasSuffix(res.ID, "/db-1-nic") {
					c := res.Properties["ipConfigurations"].([]any)[0].(map[string]any)["properties"].(map[string]any)
					c["applicationSecurityGroups"] = []any{map[string]any{"id": other}}
					c["subnet"] = map[string]any{"id": l0vnet(b) + "/subnets/web"}
					c["privateIPAddress"] = "10.1.1.5"
				}
			}
			b.Endpoint("shop", "pages", l0vnet(b)+"/subnets/web", "10.1.1.99", "blob", nil)
			for i := range b.State.Resources {
				if res := &b.State.Resources[i]; strings.HasSuffix(res.ID, "/privateEndpoints/pages") {
					res.Properties["applicationSecurityGroups"] = []any{map[string]any{"id": asgs[seed%2]}}
				}
			}
		})
		s, err := l.account().Show([]cloud.ServiceKind{cloud.PrivateEndpoint}).Observe(t.Context(), inRegion)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(s.Services, func(x cloud.Service) bool { return x.Name == "pages" }); i < 0 || len(s.Services[i].GroupIDs) != 1 {
			t.Fatalf("%+v", s.Services)
		}
		nic := s.Interfaces[slices.IndexFunc(s.Interfaces, func(i cloud.Interface) bool { return strings.HasSuffix(i.ID, "/web-1-nic") })]
		view := s.Groups[slices.IndexFunc(s.Groups, func(g cloud.Group) bool { return g.ID == nic.GroupIDs[0] })]
		for _, far := range []string{"10.1.1.5", "10.1.1.99", "10.2.1.9", "10.1.2.200", "198.51.100.7", "192.0.2.1", "168.63.129.16", "192.168.50.7", "172.16.3.3", "172.30.0.9", "203.0.113.5"} {
			for _, d := range []cloud.Direction{cloud.Ingress, cloud.Egress} {
				if far == "168.63.129.16" && d == cloud.Egress {
					continue // outside of groups
				}
				for _, x := range [][2]int{{6, 22}, {6, 80}, {6, 100}, {6, 1500}, {6, 9}, {17, 80}, {17, 53}, {1, 0}, {50, 0}, {51, 0}} {
					me, them := simazure.End{NIC: l.webNIC}, simazure.End{Addr: netip.MustParseAddr(far)}
					f := simazure.Flow{Src: them, Dst: me, Protocol: x[0], Port: x[1]}
					if d == cloud.Egress {
						f.Src, f.Dst = me, them
					}
					var v simazure.Verdict
					var err error
					l.world.ReadAzure(func(c *simazure.Cloud, _ time.Time) { v, err = c.Verdicts().Allowed(f) })
					if err != nil {
						t.Fatal(err)
					}
					exact[nic.Untouchable == ""]++
					said := says(view.Rules, tags, d, x[0], x[1], netip.MustParseAddr(far))
					if said && !v.Allowed || said != v.Allowed && nic.Untouchable == "" {
						t.Fatalf(
							"seed %d: %s %v with %s: the cloud says %v (%s), the view %v; untouchable: %q\n%v",
							seed,
							d,
							x,
							far,
							v.Allowed,
							v.Reason,
							said,
							nic.Untouchable,
							view.Rules,
						)
					}
				}
			}
		}
	}
	if exact[true] < exact[false] {
		t.Errorf("%d answers of views that are exact, %d of others", exact[true], exact[false])
	}
}

func l0vnet(b *build.Builder) string {
	for _, res := range b.State.Resources {
		if strings.HasSuffix(res.ID, "/vnet-a") {
			return res.ID
		}
	}
	return ""
}

// randomLeads makes what may lead out of the network of the lab: gateways with connections, to
// which others may have told prefixes, gateways of a peer, and routes. It returns what tags mean at
// the interface, so far as nobody can read it: the addresses of services, and the tags that are
// kept because prefixes may have been learned.
func randomLeads(r *rand.Rand, b *build.Builder) map[string][]netip.Prefix {
	tags := tagged()
	vnet := l0vnet(b)
	peer := strings.TrimSuffix(vnet, "vnet-a") + "vnet-b"
	network := []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.2.0.0/16"), netip.MustParsePrefix("fd00:1::/48"), netip.MustParsePrefix("168.63.129.16/32"),
	}
	resource := func(id string) *simazure.Resource {
		return &b.State.Resources[slices.IndexFunc(b.State.Resources, func(x simazure.Resource) bool { return x.ID == id })]
	}
	reference := func(id string) map[string]any { return map[string]any{"id": id} }
	home := vnet
	switch r.IntN(5) {
	case 0:
		home = peer
		for _, at := range []string{vnet, peer} {
			p := resource(at).Properties["virtualNetworkPeerings"].([]any)[0].(map[string]any)["properties"].(map[string]any)
			p["useRemoteGateways"], p["allowGatewayTransit"] = at == vnet, at == peer
		}
	case 1, 2:
	default:
		home = ""
	}
	if home != "" {
		kind := []string{"Vpn", "Vpn", "ExpressRoute"}[r.IntN(3)]
		gateway := b.Add("shop", "Microsoft.Network/virtualNetworkGateways", "gateway", map[string]any{
			"gatewayType": kind, "enableBgp": false, "ipConfigurations": []any{map[string]any{"name": "a", "properties": map[string]any{"subnet": reference(home + "/subnets/GatewaySubnet")}}},
			"vpnClientConfiguration": map[string]any{"vpnClientAddressPool": map[string]any{"addressPrefixes": []any{"172.30.0.0/24"}}},
		}, nil)
		network = append(network, netip.MustParsePrefix("172.30.0.0/24"))
		if r.IntN(3) > 0 {
			local := b.Add("shop", "Microsoft.Network/localNetworkGateways", "office", map[string]any{
				"localNetworkAddressSpace": map[string]any{"addressPrefixes": []any{"192.168.0.0/16"}}}, nil)
			b.Add("shop", "Microsoft.Network/connections", "to-office", map[string]any{"virtualNetworkGateway1": reference(gateway), "localNetworkGateway2": reference(local)}, nil)
			network = append(network, netip.MustParsePrefix("192.168.0.0/16"))
		}
		if kind == "ExpressRoute" {
			learned := netip.MustParsePrefix("172.16.0.0/16")
			b.State.LearnedRoutes = map[string][]netip.Prefix{gateway: {learned}}
			network = append(network, learned)
		}
	}
	if r.IntN(3) == 0 {
		var routes []any
		for _, prefix := range [][]string{{"203.0.113.0/24"}, {"0.0.0.0/0"}, {"203.0.113.0/24", "0.0.0.0/0"}, {"Storage"}}[r.IntN(4)] {
			routes = append(routes, map[string]any{"name": fmt.Sprint("r", len(routes)), "properties": map[string]any{"addressPrefix": prefix, "nextHopType": "VirtualAppliance", "nextHopIpAddress": "10.1.9.4"}})
			if p, err := netip.ParsePrefix(prefix); err == nil {
				network = append(network, p)
			} else {
				network = append(network, tags["storage"]...)
			}
		}
		table := b.Add("shop", "Microsoft.Network/routeTables", "routes", map[string]any{"routes": routes}, nil)
		subnet := resource(vnet).Properties["subnets"].([]any)[0].(map[string]any)["properties"].(map[string]any)
		subnet["routeTable"] = reference(table)
	}
	tags["virtualnetwork"] = network
	inner := slices.DeleteFunc(slices.Clone(network), func(p netip.Prefix) bool { return p.Bits() == 0 })
	tags["internet"] = addrset.All().Minus(addrset.OfPrefixes(inner...)).Prefixes()
	return tags
}

// says is the meaning of a list of rules that allow.
func says(rules []cloud.Rule, tags map[string][]netip.Prefix, d cloud.Direction, protocol, port int, far netip.Addr) bool {
	return slices.ContainsFunc(rules, func(r cloud.Rule) bool {
		m := r.Match
		fits := m.Protocol == cloud.AnyProtocol || m.Protocol == protocol && (protocol != 6 && protocol != 17 || m.From <= port && port <= m.To)
		tag := slices.ContainsFunc(tags[strings.ToLower(r.Peer.PrefixListID)], func(p netip.Prefix) bool { return p.Contains(far) }) && !r.Peer.Except.Contains(far)
		return r.Direction == d && fits && (r.Peer.CIDR.IsValid() && r.Peer.CIDR.Contains(far) || tag)
	})
}

// tagged are the addresses of services, which only the cloud knows.
func tagged() map[string][]netip.Prefix {
	return map[string][]netip.Prefix{
		"storage": {netip.MustParsePrefix("198.51.100.0/25"), netip.MustParsePrefix("10.2.1.0/24")},
		"sql":     {netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/28"), netip.MustParsePrefix("10.1.2.0/24")},
	}
}
