package azure

import (
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/azure/document"
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
	typeNetworkGateway = "microsoft.network/virtualnetworkgateways"
	typeLocalGateway   = "microsoft.network/localnetworkgateways"
	typeConnection     = "microsoft.network/connections"
)

// leads reports whether resources of a type lead out of networks.
func leads(kind string) bool {
	return kind == document.TypeTable || kind == typeNetworkGateway || kind == typeLocalGateway || kind == typeConnection
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
	return document.Key(id)
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
func (c Verdicts) inTag(a netip.Addr, own located) (in, byDefault bool) {
	for p, isDefault := range c.spaces(own) {
		switch {
		case !p.Contains(a):
		case !isDefault:
			return true, false
		default:
			in = true
		}
	}
	return in, in
}

// spaces is virtualNetwork, remembered until something changes.
func (c Verdicts) spaces(own located) iter.Seq2[netip.Prefix, bool] {
	x := c.cloud.current.Load()
	if x == nil {
		return c.virtualNetwork(own)
	}
	found, known := x.spaces.Load(own.nic)
	if !known {
		var all []space
		for p, byDefault := range c.virtualNetwork(own) {
			all = append(all, space{p, byDefault})
		}
		found, _ = x.spaces.LoadOrStore(own.nic, all)
	}
	return func(yield func(netip.Prefix, bool) bool) {
		for _, s := range found.([]space) {
			if !yield(s.block, s.byDefault) {
				return
			}
		}
	}
}

// virtualNetwork yields what VirtualNetwork means at an interface, and whether that is a default
// route. The same block may come more than once.
func (c Verdicts) virtualNetwork(own located) iter.Seq2[netip.Prefix, bool] {
	return func(yield func(netip.Prefix, bool) bool) {
		more := func(list []netip.Prefix) bool {
			return !slices.ContainsFunc(list, func(p netip.Prefix) bool { return !yield(p, false) })
		}
		home := own.nic.Network()
		if !yield(netip.PrefixFrom(hostAddress, 32), false) || !more(c.spaceOf(home)) {
			return
		}
		for _, k := range c.peers(home) {
			if !more(c.spaceOf(k)) {
				return
			}
		}
		for _, gateway := range c.gatewaysOf(home) {
			for p := range c.beyond(gateway) {
				if !yield(p, false) {
					return
				}
			}
		}
		for i := range own.nic.Configurations {
			s := checks(c).subnetOf(own.nic.Configurations[i].Subnet)
			if s == nil || c.cloud.resources[s.Routes] == nil {
				continue
			}
			for _, route := range partsOf(c.cloud.resources[s.Routes].Properties, "routes") {
				text, _ := route["addressPrefix"].(string)
				if p, err := netip.ParsePrefix(text); err == nil {
					if !yield(p, p.Bits() == 0) {
						return
					}
				} else if !more(c.cloud.serviceTags[strings.ToLower(text)]) {
					return
				}
			}
		}
	}
}

// spaceOf is the address space of a network; nil if there is none of the key.
func (c Verdicts) spaceOf(key string) []netip.Prefix {
	if r := c.cloud.resources[key]; r != nil {
		if n, ok := r.parsed.(*document.Network); ok {
			return n.Space
		}
	}
	return nil
}

// gatewaysOf are the gateways by which a network reaches others: its own and gateways of peers that
// let it through.
func (c Verdicts) gatewaysOf(home string) (out []*Resource) {
	homes := []string{home}
	if r := c.cloud.resources[home]; r != nil {
		for _, p := range r.parsed.(*document.Network).Peerings {
			other := c.cloud.resources[p.Remote]
			if !p.RemoteGateways || other == nil {
				continue
			}
			if slices.ContainsFunc(other.parsed.(*document.Network).Peerings, func(q document.Peering) bool { return q.Remote == home && q.Transit }) {
				homes = append(homes, p.Remote)
			}
		}
	}
	for _, r := range c.cloud.now().leads {
		if r.id.Type() != typeNetworkGateway {
			continue
		}
		for _, at := range partsOf(r.Properties, "ipConfigurations") {
			if subnet, ok := document.ParseID(refers(at, "subnet")); ok && slices.Contains(homes, subnet.Parent().Key()) {
				out = append(out, r)
				break
			}
		}
	}
	return out
}

// beyond yields what is behind a gateway: its clients, what it has learned, and the other ends of
// its connections.
func (c Verdicts) beyond(gateway *Resource) iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		words := func(list []string) bool {
			return !slices.ContainsFunc(list, func(text string) bool { p, err := netip.ParsePrefix(text); return err == nil && !yield(p) })
		}
		more := func(list []netip.Prefix) bool {
			return !slices.ContainsFunc(list, func(p netip.Prefix) bool { return !yield(p) })
		}
		if !words(wordsAt(gateway.Properties, "vpnClientConfiguration", "vpnClientAddressPool", "addressPrefixes")) || !more(c.cloud.learned[gateway.id.Key()]) {
			return
		}
		for _, r := range c.cloud.now().leads {
			first, second := refers(r.Properties, "virtualNetworkGateway1"), refers(r.Properties, "virtualNetworkGateway2")
			if r.id.Type() != typeConnection || first != gateway.id.Key() && second != gateway.id.Key() {
				continue
			}
			if local := c.cloud.resources[refers(r.Properties, "localNetworkGateway2")]; local != nil && !words(wordsAt(local.Properties, "localNetworkAddressSpace", "addressPrefixes")) {
				return
			}
			for _, other := range []string{first, second} {
				g := c.cloud.resources[other]
				if g == nil || g == gateway {
					continue
				}
				for _, at := range partsOf(g.Properties, "ipConfigurations") {
					if subnet, ok := document.ParseID(refers(at, "subnet")); ok && !more(c.spaceOf(subnet.Parent().Key())) {
						return
					}
				}
			}
		}
	}
}
