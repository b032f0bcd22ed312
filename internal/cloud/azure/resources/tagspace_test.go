package resources

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/azure/printed"
)

// TestSpaceOf: what the tag VirtualNetwork means as far as resources tell it, and whether it may
// mean more.
func TestSpaceOf(t *testing.T) {
	const base = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/"
	type resource struct{ kind, name, properties string }
	ref := func(kind, name string) string { return fmt.Sprintf(`{"id":"%s%s/%s"}`, base, kind, name) }
	network := func(name, space string, more ...string) resource {
		return resource{"virtualNetworks", name, `{"addressSpace":{"addressPrefixes":["` + space + `"]}` + strings.Join(more, "") + `}`}
	}
	peering := func(remote, more string) string {
		return `,"virtualNetworkPeerings":[{"name":"p","properties":{"peeringState":"Connected","remoteVirtualNetwork":` + ref("virtualNetworks", remote) +
			`,"remoteAddressSpace":{"addressPrefixes":["10.2.0.0/16"]}` + more + `}}]`
	}
	gateway := func(name, in, more string) resource {
		return resource{"virtualNetworkGateways", name, `{"ipConfigurations":[{"properties":{"subnet":` + ref("virtualNetworks", in+"/subnets/GatewaySubnet") + `}}]` + more + `}`}
	}
	vpn := `,"gatewayType":"Vpn","enableBgp":false`
	joined := resource{"connections", "c", `{"virtualNetworkGateway1":` + ref("virtualNetworkGateways", "gw") + `,"localNetworkGateway2":` + ref("localNetworkGateways", "office") + `}`}
	office := resource{"localNetworkGateways", "office", `{"localNetworkAddressSpace":{"addressPrefixes":["192.168.0.0/16"]}}`}
	const own = "10.1.0.0/16 168.63.129.16/32"
	for name, c := range map[string]struct {
		resources []resource
		table     string
		want      string
		learned   bool
	}{
		"a network alone":                 {[]resource{network("a", "10.1.0.0/16")}, "", own, false},
		"a peer":                          {[]resource{network("a", "10.1.0.0/16", peering("b", ""))}, "", "10.1.0.0/16 10.2.0.0/16 168.63.129.16/32", false},
		"a gateway to an office":          {[]resource{network("a", "10.1.0.0/16"), gateway("gw", "a", vpn), joined, office}, "", "10.1.0.0/16 168.63.129.16/32 192.168.0.0/16", false},
		"an office that is not told":      {[]resource{network("a", "10.1.0.0/16"), gateway("gw", "a", vpn), joined}, "", own, true},
		"a gateway with BGP":              {[]resource{network("a", "10.1.0.0/16"), gateway("gw", "a", `,"gatewayType":"Vpn","enableBgp":true`)}, "", own, true},
		"ExpressRoute":                    {[]resource{network("a", "10.1.0.0/16"), gateway("gw", "a", `,"gatewayType":"ExpressRoute"`)}, "", own, true},
		"clients of a gateway":            {[]resource{network("a", "10.1.0.0/16"), gateway("gw", "a", vpn+`,"vpnClientConfiguration":{"vpnClientAddressPool":{"addressPrefixes":["172.30.0.0/24"]}}`)}, "", "10.1.0.0/16 168.63.129.16/32 172.30.0.0/24", false},
		"somebody else's gateway":         {[]resource{network("a", "10.1.0.0/16"), gateway("gw", "x", vpn), joined, office}, "", own, false},
		"a gateway that may not be read":  {[]resource{network("a", "10.1.0.0/16", `,"subnets":[{"name":"GatewaySubnet","properties":{"addressPrefix":"10.1.9.0/27","ipConfigurations":[{"id":"x"}]}}]`)}, "", own, true},
		"a subnet for gateways, unused":   {[]resource{network("a", "10.1.0.0/16", `,"subnets":[{"name":"GatewaySubnet","properties":{"addressPrefix":"10.1.9.0/27"}}]`)}, "", own, false},
		"the gateway of a peer":           {[]resource{network("a", "10.1.0.0/16", peering("b", `,"useRemoteGateways":true`)), network("b", "10.2.0.0/16"), gateway("gw", "b", vpn), joined, office}, "", "10.1.0.0/16 10.2.0.0/16 168.63.129.16/32 192.168.0.0/16", false},
		"the gateway of a peer elsewhere": {[]resource{network("a", "10.1.0.0/16", peering("b", `,"useRemoteGateways":true`))}, "", "10.1.0.0/16 10.2.0.0/16 168.63.129.16/32", true},
		"routes":                          {[]resource{network("a", "10.1.0.0/16"), {"routeTables", "r", `{"routes":[{"properties":{"addressPrefix":"203.0.113.0/24"}},{"properties":{"addressPrefix":"0.0.0.0/0"}}]}`}}, "r", "0.0.0.0/0 10.1.0.0/16 168.63.129.16/32 203.0.113.0/24", false},
		"a route to a service":            {[]resource{network("a", "10.1.0.0/16"), {"routeTables", "r", `{"routes":[{"properties":{"addressPrefix":"AzureCloud"}}]}`}}, "r", own, true},
		"routes that may not be read":     {[]resource{network("a", "10.1.0.0/16")}, "r", own, true},
	} {
		w := NewRegion("s", RoomOf(nil))
		for _, r := range c.resources {
			if err := w.Add(&Row{ID: base + r.kind + "/" + r.name, Name: r.name, Type: "Microsoft.Network/" + r.kind, Location: "westeurope", Properties: json.RawMessage(r.properties)}); err != nil {
				t.Fatal(name, err)
			}
		}
		var tables []string
		if c.table != "" {
			tables = []string{strings.ToLower(base + "routeTables/" + c.table)}
		}
		got := w.spaceOf(strings.ToLower(base+"virtualNetworks/a"), tables)
		if text := strings.Trim(fmt.Sprint(got.Prefixes), "[]"); text != c.want || got.learned != c.learned {
			t.Errorf("%s: %s, learned %t; want %s, %t", name, text, got.learned, c.want, c.learned)
		}
	}
}

// TestPrintedRoutes: the lists that az prints of route tables and gateways are read as Resource
// Graph tells these.
func TestPrintedRoutes(t *testing.T) {
	const base = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/"
	w := NewRegion("s", RoomOf(nil))
	for _, text := range []string{
		`{"id":"` + base + `virtualNetworks/a","name":"a","type":"Microsoft.Network/virtualNetworks","location":"westeurope","addressSpace":{"addressPrefixes":["10.1.0.0/16"]}}`,
		`{"id":"` + base + `routeTables/r","name":"r","type":"Microsoft.Network/routeTables","location":"westeurope","routes":[{"id":"x","name":"n","addressPrefix":"203.0.113.0/24"}]}`,
		`{"id":"` + base + `virtualNetworkGateways/gw","name":"gw","type":"Microsoft.Network/virtualNetworkGateways","location":"westeurope","gatewayType":"Vpn","enableBgp":false,
			"ipConfigurations":[{"id":"x","name":"n","subnet":{"id":"` + base + `virtualNetworks/a/subnets/GatewaySubnet"}}],"vpnClientConfiguration":{"vpnClientAddressPool":{"addressPrefixes":["172.30.0.0/24"]}}}`,
	} {
		raw, err := printed.Whole(json.RawMessage(text))
		var r Row
		if err == nil {
			err = json.Unmarshal(raw, &r)
		}
		if err == nil {
			err = w.Add(&r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	got := w.spaceOf(strings.ToLower(base+"virtualNetworks/a"), []string{strings.ToLower(base + "routeTables/r")})
	if text := fmt.Sprint(got.Prefixes); text != "[10.1.0.0/16 168.63.129.16/32 172.30.0.0/24 203.0.113.0/24]" || got.learned {
		t.Errorf("%s, learned %t", text, got.learned)
	}
}
