package azure

import (
	"net/netip"
	"slices"
	"strings"
)

// What the word VirtualNetwork of a rule means. The sources, which are none of the adapter's code:
//
//   - "The virtual network address space (all IP address ranges defined for the virtual network), all
//     connected on-premises address spaces, peered virtual networks, virtual networks connected to a
//     virtual network gateway, the virtual IP address of the host, and address prefixes used on
//     user-defined routes. This tag might also contain default routes."
//     https://learn.microsoft.com/azure/virtual-network/service-tags-overview
//   - With a route 0.0.0.0/0 to an appliance the tag was seen to hold 0.0.0.0/0, and the default rules
//     let everything in: https://codewithme.cloud/posts/2019/01/azure-nsg-virtualnetwork-tag/
//   - A network reaches what is behind the gateway of a peer if its peering has useRemoteGateways and
//     the peer's has allowGatewayTransit:
//     https://learn.microsoft.com/azure/vpn-gateway/vpn-gateway-peering-gateway-transit
//   - Gateways learn prefixes by BGP, over VPN connections that have it and over ExpressRoute:
//     https://learn.microsoft.com/azure/virtual-network/virtual-networks-udr-overview
//
// What Internet means where the tag holds a default route is documented nowhere. It is taken for
// what is outside of all else that VirtualNetwork means.

// Types of what leads out of a network.
const (
	typeRouteTable     = "microsoft.network/routetables"
	typeNetworkGateway = "microsoft.network/virtualnetworkgateways"
	typeLocalGateway   = "microsoft.network/localnetworkgateways"
	typeConnection     = "microsoft.network/connections"
)

// leads reports whether resources of a type lead out of networks.
func leads(kind string) bool {
	return kind == typeRouteTable || kind == typeNetworkGateway || kind == typeLocalGateway || kind == typeConnection
}

// wordsAt are the values of a list in a document at a path of members.
func wordsAt(doc map[string]any, path ...string) (out []string) {
	for _, name := range path[:len(path)-1] {
		doc, _ = doc[name].(map[string]any)
	}
	list, _ := doc[path[len(path)-1]].([]any)
	for _, x := range list {
		if s, ok := x.(string); ok {
			out = append(out, s)
		}
	}
	many, _ := doc[path[len(path)-1]].([]string)
	return append(out, many...)
}

// refers is the key that a member names by its id.
func refers(doc map[string]any, name string) string {
	at, _ := doc[name].(map[string]any)
	id, _ := at["id"].(string)
	if id == "" {
		return ""
	}
	return key(id)
}

// partsOf are the properties of the members of a list of resources.
func partsOf(doc map[string]any, name string) (out []map[string]any) {
	list, _ := doc[name].([]any)
	for _, x := range list {
		at, _ := x.(map[string]any)
		if p, ok := at["properties"].(map[string]any); ok {
			out = append(out, p)
		}
	}
	return out
}

// inTag reports whether an address is in what VirtualNetwork means at an interface, and whether it
// is so by a default route alone.
func (c *Cloud) inTag(a netip.Addr, own located) (in, byDefault bool) {
	network := own.nic.network()
	if a == hostAddress || c.inNetwork(a, network) {
		return true, false
	}
	for _, gateway := range c.gatewaysOf(network) {
		if c.beyond(a, gateway) {
			return true, false
		}
	}
	for i := range own.nic.configurations {
		s := c.subnetOf(own.nic.configurations[i].subnet)
		if s == nil || c.resources[s.routes] == nil {
			continue
		}
		for _, route := range partsOf(c.resources[s.routes].Properties, "routes") {
			text, _ := route["addressPrefix"].(string)
			p, err := netip.ParsePrefix(text)
			switch {
			case err == nil && p.Contains(a):
				in, byDefault = true, p.Bits() == 0 && (byDefault || !in)
			case err != nil && slices.ContainsFunc(c.serviceTags[strings.ToLower(text)], func(x netip.Prefix) bool { return x.Contains(a) }):
				in, byDefault = true, false
			}
			if in && !byDefault {
				return true, false
			}
		}
	}
	return in, byDefault
}

// gatewaysOf are the gateways by which a network reaches others: its own and those of peers that
// let it through.
func (c *Cloud) gatewaysOf(home string) (out []*Resource) {
	homes := []string{home}
	if r := c.resources[home]; r != nil {
		for _, p := range r.parsed.(*network).peerings {
			other := c.resources[p.remote]
			if !p.remoteGateways || other == nil {
				continue
			}
			if slices.ContainsFunc(other.parsed.(*network).peerings, func(q peering) bool { return q.remote == home && q.transit }) {
				homes = append(homes, p.remote)
			}
		}
	}
	for _, r := range c.now().leads {
		if r.id.Type() != typeNetworkGateway {
			continue
		}
		for _, at := range partsOf(r.Properties, "ipConfigurations") {
			if subnet, ok := ParseID(refers(at, "subnet")); ok && slices.Contains(homes, subnet.Parent().Key()) {
				out = append(out, r)
				break
			}
		}
	}
	return out
}

// beyond reports whether an address is behind a gateway: of its clients, learned, or of the other
// end of one of its connections.
func (c *Cloud) beyond(a netip.Addr, gateway *Resource) bool {
	holds := func(list []string) bool {
		return slices.ContainsFunc(list, func(text string) bool { p, err := netip.ParsePrefix(text); return err == nil && p.Contains(a) })
	}
	if holds(wordsAt(gateway.Properties, "vpnClientConfiguration", "vpnClientAddressPool", "addressPrefixes")) {
		return true
	}
	if slices.ContainsFunc(c.learned[gateway.id.Key()], func(p netip.Prefix) bool { return p.Contains(a) }) {
		return true
	}
	for _, r := range c.now().leads {
		first, second := refers(r.Properties, "virtualNetworkGateway1"), refers(r.Properties, "virtualNetworkGateway2")
		if r.id.Type() != typeConnection || first != gateway.id.Key() && second != gateway.id.Key() {
			continue
		}
		if local := c.resources[refers(r.Properties, "localNetworkGateway2")]; local != nil && holds(wordsAt(local.Properties, "localNetworkAddressSpace", "addressPrefixes")) {
			return true
		}
		for _, other := range []string{first, second} {
			g := c.resources[other]
			if g == nil || g == gateway {
				continue
			}
			for _, at := range partsOf(g.Properties, "ipConfigurations") {
				subnet, ok := ParseID(refers(at, "subnet"))
				if !ok {
					continue
				}
				if n := c.resources[subnet.Parent().Key()]; n != nil && slices.ContainsFunc(n.parsed.(*network).space, func(p netip.Prefix) bool { return p.Contains(a) }) {
					return true
				}
			}
		}
	}
	return false
}
