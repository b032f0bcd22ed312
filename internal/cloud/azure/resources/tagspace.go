package resources

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud/azure/lower"
)

// This file finds what the service tag VirtualNetwork means: "the virtual network address space
// (all IP address ranges defined for the virtual network), all connected on-premises address
// spaces, peered virtual networks, virtual networks connected to a virtual network gateway, the
// virtual IP address of the host, and address prefixes used on user-defined routes. This tag might
// also contain default routes" (learn.microsoft.com/azure/virtual-network/service-tags-overview).
//
// What gateways learn by BGP, over ExpressRoute or from a hub of a virtual WAN is told by no
// resource that a role can read, so a part of the tag may stay unknown.

// Types of what leads out of a network, in lower case.
const (
	TypeRouteTable     = "microsoft.network/routetables"
	typeNetworkGateway = "microsoft.network/virtualnetworkgateways"
	typeLocalGateway   = "microsoft.network/localnetworkgateways"
	typeConnection     = "microsoft.network/connections"
)

// gatewaySubnet is what the subnet of gateways of a network must be called.
const gatewaySubnet = "gatewaysubnet"

// routeTable are the routes of subnets that somebody has defined.
type routeTable struct {
	Row
	Routes []struct {
		Properties struct {
			Prefix string `json:"addressPrefix"`
		} `json:"properties"`
	} `json:"routes"`
}

// networkGateway is a gateway of a network to others.
type networkGateway struct {
	Row
	Kind           string `json:"gatewayType"`
	BGP            bool   `json:"enableBgp"`
	Configurations []struct {
		Properties struct {
			Subnet *Reference `json:"subnet"`
		} `json:"properties"`
	} `json:"ipConfigurations"`
	Clients struct {
		Pool struct {
			Prefixes []string `json:"addressPrefixes"`
		} `json:"vpnClientAddressPool"`
	} `json:"vpnClientConfiguration"`
}

// network is the key of the network of the gateway; empty if it is not told.
func (g *networkGateway) network() string {
	for i := range g.Configurations {
		if network, _, ok := strings.Cut(g.Configurations[i].Properties.Subnet.key(), "/subnets/"); ok {
			return network
		}
	}
	return ""
}

// localGateway is the other end of connections of gateways: a network elsewhere.
type localGateway struct {
	Row
	Space struct {
		Prefixes []string `json:"addressPrefixes"`
	} `json:"localNetworkAddressSpace"`
}

// connection joins a gateway with another network.
type connection struct {
	Row
	BGP    bool       `json:"enableBgp"`
	First  *Reference `json:"virtualNetworkGateway1"`
	Second *Reference `json:"virtualNetworkGateway2"`
	Local  *Reference `json:"localNetworkGateway2"`
}

// space is what the tag VirtualNetwork means.
type space struct {
	Prefixes []netip.Prefix
	// learned is set if there may be more that no resource tells.
	learned bool
}

// add adds prefixes as texts; a text that is no prefix, such as the tag of a service in a route,
// makes the space unknown.
func (s *space) add(texts ...string) {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			s.Prefixes = append(s.Prefixes, p.Masked())
		} else {
			s.learned = true
		}
	}
}

// spaceOf is what the tag means in a network, at subnets with these route tables.
func (w *Region) spaceOf(key string, tables []string) space {
	out := space{Prefixes: append(prefixes(w.Networks[key].AddressSpace.AddressPrefixes), lower.PlatformAddress)}
	for _, p := range w.peerings() {
		switch key {
		case p.A.NetworkID:
			out.Prefixes = append(out.Prefixes, p.B.CIDRs...)
		case p.B.NetworkID:
			out.Prefixes = append(out.Prefixes, p.A.CIDRs...)
		}
	}
	w.behindGateways(&out, key)
	for _, remote := range w.Networks[key].transits() {
		if w.Networks[remote] == nil {
			out.learned = true // it is of another region or subscription
			continue
		}
		w.behindGateways(&out, remote)
	}
	for _, id := range tables {
		t := w.tables[id]
		if t == nil {
			out.learned = true // it may not be read
			continue
		}
		for i := range t.Routes {
			out.add(t.Routes[i].Properties.Prefix)
		}
	}
	slices.SortFunc(out.Prefixes, netip.Prefix.Compare)
	out.Prefixes = slices.Compact(out.Prefixes)
	return out
}

// behindGateways adds what the gateways of a network are connected with.
func (w *Region) behindGateways(out *space, network string) {
	found := false
	for _, k := range slices.Sorted(maps.Keys(w.gateways)) {
		g := w.gateways[k]
		if g.network() != network {
			continue
		}
		found = true
		out.learned = out.learned || g.BGP || !strings.EqualFold(g.Kind, "Vpn")
		out.add(g.Clients.Pool.Prefixes...)
		for _, id := range slices.Sorted(maps.Keys(w.connections)) {
			w.connected(out, k, w.connections[id])
		}
	}
	out.learned = out.learned || !found && w.Networks[network].hasGateway()
}

// connected adds the other end of a connection, if it is one of the gateway.
func (w *Region) connected(out *space, gateway string, c *connection) {
	ends := [2]string{c.First.key(), c.Second.key()}
	if !slices.Contains(ends[:], gateway) {
		return
	}
	out.learned = out.learned || c.BGP
	if id := c.Local.key(); id != "" {
		if l := w.locals[id]; l != nil {
			out.add(l.Space.Prefixes...)
		} else {
			out.learned = true
		}
	}
	for _, id := range ends {
		if id == "" || id == gateway {
			continue
		}
		if other := w.gateways[id]; other != nil && w.Networks[other.network()] != nil {
			out.Prefixes = append(out.Prefixes, prefixes(w.Networks[other.network()].AddressSpace.AddressPrefixes)...)
		} else {
			out.learned = true
		}
	}
}

// transits are the keys of the peered networks whose gateways the network uses.
func (v *vnet) transits() (out []string) {
	for i := range v.Peerings {
		if p := &v.Peerings[i].Properties; p.UseRemoteGateways && strings.EqualFold(p.State, "Connected") {
			out = append(out, p.Remote.key())
		}
	}
	return out
}

// hasGateway reports whether there is something in the subnet for gateways, which the role may not
// be allowed to read.
func (v *vnet) hasGateway() bool {
	for i := range v.Subnets {
		if strings.EqualFold(v.Subnets[i].Name, gatewaySubnet) && len(v.Subnets[i].Properties.Configurations) > 0 {
			return true
		}
	}
	return false
}

// tablesOf are the keys of the route tables of the subnets that an interface is in, sorted.
func (w *Region) tablesOf(n *NIC) []string {
	out := map[string]bool{}
	for i := range n.Configurations {
		network, name, _ := strings.Cut(n.Configurations[i].Properties.Subnet.key(), "/subnets/")
		if id := w.tableOf(network, name); id != "" {
			out[id] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// tableOf is the key of the route table of a subnet; empty if it has none.
func (w *Region) tableOf(network, subnet string) string {
	v := w.Networks[network]
	if v == nil {
		return ""
	}
	for i := range v.Subnets {
		if strings.EqualFold(v.Subnets[i].Name, subnet) {
			return v.Subnets[i].Properties.Routes.key()
		}
	}
	return ""
}
