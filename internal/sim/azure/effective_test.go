package azure_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// effectiveRule is what a stranger reads of an effective rule.
type effectiveRule struct {
	Name, Protocol, Access, Direction string
	Priority                          int
	SourcePortRanges                  []string
	DestinationPortRanges             []string
	SourceAddressPrefixes             []string
	DestinationAddressPrefixes        []string
	ExpandedSourceAddressPrefix       []string
	ExpandedDestinationAddressPrefix  []string
}

// names reports whether blocks, or else words, have an address.
func names(t *testing.T, expanded, given []string, a netip.Addr) bool {
	t.Helper()
	list := expanded
	if len(list) == 0 {
		list = given
	}
	return slices.ContainsFunc(list, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			t.Fatalf("%q is no block", text)
		}
		return p.Contains(a) || text == "0.0.0.0/0"
	})
}

func hasPort(t *testing.T, ranges []string, port int) bool {
	t.Helper()
	return slices.ContainsFunc(ranges, func(text string) bool {
		first, last, _ := strings.Cut(text, "-")
		a, err1 := strconv.Atoi(first)
		b, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil {
			t.Fatalf("%q is no range", text)
		}
		return a <= port && port <= b
	})
}

// admits decides a flow by the effective groups of one end.
func admits(t *testing.T, groups []azure.EffectiveGroup, direction string, src, dst netip.Addr, protocol string, port int) bool {
	t.Helper()
	for _, g := range groups {
		raw, err := json.Marshal(g.Rules)
		if err != nil {
			t.Fatal(err)
		}
		var rules []effectiveRule
		if err := json.Unmarshal(raw, &rules); err != nil {
			t.Fatal(err)
		}
		slices.SortStableFunc(rules, func(a, b effectiveRule) int { return a.Priority - b.Priority })
		at := slices.IndexFunc(rules, func(r effectiveRule) bool {
			return r.Direction == direction && (r.Protocol == "All" || r.Protocol == protocol) && hasPort(t, r.SourcePortRanges, 50_000) && hasPort(t, r.DestinationPortRanges, port) &&
				names(t, r.ExpandedSourceAddressPrefix, r.SourceAddressPrefixes, src) && names(t, r.ExpandedDestinationAddressPrefix, r.DestinationAddressPrefixes, dst)
		})
		if at < 0 {
			t.Fatalf("%s of %s ends nowhere", direction, g.Group.ID)
		}
		if rules[at].Access != "Allow" {
			return false
		}
	}
	return true
}

// TestEffectiveRulesDecide: what a stranger decides by the effective rules of both ends is what
// becomes of the packet, in random networks with peers, gateways, routes and application groups.
func TestEffectiveRulesDecide(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	open := map[bool]int{}
	for world := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, world))
		pick := func(list ...string) string { return list[r.IntN(len(list))] }
		b := build.New(tenant, subscription, "westeurope")
		b.State.Subscriptions[0].EmptyGroupsVoidRules = r.IntN(2) == 0
		asgs := []string{b.ApplicationGroup("rg", "asg-a"), b.ApplicationGroup("rg", "asg-b")}
		rules := func() (out []map[string]any) {
			for i := range r.IntN(6) {
				direction := pick("Inbound", "Outbound")
				rule := build.Rule(fmt.Sprint("r", i), direction, 100+10*i, pick("Allow", "Deny"), pick("Tcp", "Udp", "*"),
					pick("", "VirtualNetwork", "Internet", "10.1.1.0/24", "10.0.0.0/8", "AzureLoadBalancer"), pick("", "VirtualNetwork", "Internet", "10.2.0.0/16", "192.168.0.0/16"), pick("", "80", "80-443"))
				if r.IntN(3) == 0 {
					p := rule["properties"].(map[string]any)
					side := pick("source", "destination")
					delete(p, side+"AddressPrefix")
					p[side+"ApplicationSecurityGroups"] = []any{map[string]any{"id": asgs[r.IntN(2)]}}
				}
				out = append(out, rule)
			}
			return out
		}
		guard := b.SecurityGroup("rg", "guard", rules()...)
		own := b.SecurityGroup("rg", "own", rules()...)
		routes := b.Add("rg", "Microsoft.Network/routeTables", "routes", map[string]any{"routes": []any{map[string]any{"name": "r", "properties": map[string]any{
			"addressPrefix": pick("0.0.0.0/0", "172.16.0.0/12"), "nextHopType": "VirtualAppliance", "nextHopIpAddress": "10.1.2.4"}}}}, nil)
		a := b.Network("rg", "a", []string{"10.1.0.0/16"}, []string{"web", "10.1.1.0/24"}, []string{"db", "10.1.2.0/24", guard})
		peer := b.Network("rg", "b", []string{"10.2.0.0/16"}, []string{"s", "10.2.0.0/24"})
		b.Peer(a, peer)
		if r.IntN(2) == 0 {
			for i := range b.State.Resources {
				if b.State.Resources[i].ID == a {
					b.State.Resources[i].Properties["subnets"].([]any)[0].(map[string]any)["properties"].(map[string]any)["routeTable"] = map[string]any{"id": routes}
				}
			}
		}
		var nics []string
		addresses := map[string]netip.Addr{}
		for i, at := range []string{"/web 10.1.1.4", "/web 10.1.1.5", "/db 10.1.2.4", "/s 10.2.0.4"} {
			subnet, ip, _ := strings.Cut(at, " ")
			network := a
			if subnet == "/s" {
				network = peer
			}
			var groups []string
			if r.IntN(2) == 0 && network == a {
				groups = append(groups, asgs[r.IntN(2)])
			}
			_, nic := b.Machine("rg", fmt.Sprint("m", i), network+"/subnets"+subnet, ip, pick("", own), groups...)
			nics, addresses[nic] = append(nics, nic), addr(ip)
		}
		c := estate(t, b)
		effective := func(nic string) []azure.EffectiveGroup {
			id, ok := document.ParseID(nic)
			if !ok {
				t.Fatal(nic)
			}
			groups, err := c.Verdicts().EffectiveGroups(&azure.Principal{Tenant: tenant}, id)
			if err != nil {
				t.Fatal(err)
			}
			return groups
		}
		ends := append(slices.Clone(nics), "203.0.113.7", "192.168.3.3", "172.16.0.9", "10.9.9.9")
		for _, from := range ends {
			for _, to := range ends {
				end := func(x string) (azure.End, netip.Addr) {
					if at, inside := addresses[x]; inside {
						return azure.End{NIC: x}, at
					}
					return azure.End{Addr: addr(x)}, addr(x)
				}
				src, srcAddr := end(from)
				dst, dstAddr := end(to)
				if from == to || src.NIC == "" && dst.NIC == "" {
					continue
				}
				for _, p := range []struct {
					word   string
					number int
				}{{"Tcp", 6}, {"Udp", 17}} {
					for _, port := range []int{80, 443, 8080} {
						v, err := c.Verdicts().Allowed(azure.Flow{Src: src, Dst: dst, Protocol: p.number, Port: port})
						if err != nil {
							t.Fatal(err)
						}
						got := true
						if src.NIC != "" {
							got = admits(t, effective(from), "Outbound", srcAddr, dstAddr, p.word, port)
						}
						if got && dst.NIC != "" {
							got = admits(t, effective(to), "Inbound", srcAddr, dstAddr, p.word, port)
						}
						if open[v.Allowed]++; got != v.Allowed {
							t.Fatalf("world %d: %s to %s %s %d: by effective rules %t, the packet: %s", world, from, to, p.word, port, got, v.Reason)
						}
					}
				}
			}
		}
	}
	if open[true] < 500 || open[false] < 500 {
		t.Errorf("decided %v: too few of one kind", open)
	}
}
