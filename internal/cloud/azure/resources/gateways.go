package resources

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// This file makes native services of application gateways. A gateway lives in a subnet in which
// nothing but gateways may be. Its instances have addresses there that no API tells, and from these
// traffic and health checks get to the targets.

// TypeGateway is the type of application gateways.
const TypeGateway = "microsoft.network/applicationgateways"

const fixedGateway = "an application gateway has no network security group of its own; that of its subnet filters it"

// gatewayAddresses bounds the addresses of a gateway's subnet: as many as a /24 has, the largest
// subnet that Azure recommends for one.
const gatewayAddresses = 256

// ported is a part of a gateway that has a port.
type ported struct {
	ID         string `json:"id"`
	Properties struct {
		Port  uint16     `json:"port"`
		Probe *Reference `json:"probe"`
	} `json:"properties"`
}

// gatewayListener is a listener of a gateway.
type gatewayListener struct {
	ID         string `json:"id"`
	Properties struct {
		Frontend *Reference `json:"frontendIPConfiguration"`
		Port     *Reference `json:"frontendPort"`
		Protocol string     `json:"protocol"`
	} `json:"properties"`
}

// gateway is an application gateway.
type gateway struct {
	Row
	Configurations []struct {
		Properties struct {
			Subnet *Reference `json:"subnet"`
		} `json:"properties"`
	} `json:"gatewayIPConfigurations"`
	Frontends    []frontend        `json:"frontendIPConfigurations"`
	Ports        []ported          `json:"frontendPorts"`
	Listeners    []gatewayListener `json:"httpListeners"`
	L4           []gatewayListener `json:"listeners"`
	Pools        []pool            `json:"backendAddressPools"`
	HTTPSettings []ported          `json:"backendHttpSettingsCollection"`
	L4Settings   []ported          `json:"backendSettingsCollection"`
	Probes       []healthProbe     `json:"probes"`
	Rules        []gatewayRule     `json:"requestRoutingRules"`
	L4Rules      []gatewayRule     `json:"routingRules"`
	Maps         []struct {
		ID         string `json:"id"`
		Properties struct {
			Pool     *Reference `json:"defaultBackendAddressPool"`
			Settings *Reference `json:"defaultBackendHttpSettings"`
			Paths    []struct {
				Properties hand `json:"properties"`
			} `json:"pathRules"`
		} `json:"properties"`
	} `json:"urlPathMaps"`
}

// hand says where a gateway hands traffic on to.
type hand struct {
	Pool     *Reference `json:"backendAddressPool"`
	Settings *Reference `json:"backendHttpSettings"`
}

// gatewayRule is a rule of a gateway.
type gatewayRule struct {
	Properties struct {
		hand
		Listener   *Reference `json:"httpListener"`
		L4Listener *Reference `json:"listener"`
		L4Settings *Reference `json:"backendSettings"`
		Map        *Reference `json:"urlPathMap"`
	} `json:"properties"`
}

// subnets are the ids of the subnets in which the instances are, in lower case, each once.
func (g *gateway) subnets() []string {
	var out []string
	for i := range g.Configurations {
		if s := g.Configurations[i].Properties.Subnet.key(); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// service is a gateway in the words of the port, and the interface that represents it. shared are
// the subnets in which there are several gateways.
func (g *gateway) service(w *Region, behind backends, shared map[string]bool) (cloud.Service, []cloud.Interface) {
	key := strings.ToLower(g.ID)
	out := cloud.Service{ID: key, Kind: cloud.ApplicationGateway, Name: g.Name, Tags: PortTags(g.Tags), Fixed: fixedGateway}
	subnet := ""
	for _, s := range g.subnets() {
		subnet = s
	}
	network, name, _ := strings.Cut(subnet, "/subnets/")
	out.NetworkID = network
	private, why := w.usable(network, name)
	switch {
	case why != "":
		out.Ambiguous = why
	case shared[subnet]:
		out.Ambiguous = fmt.Sprintf("there are several application gateways in the subnet %s, and nobody tells which of its addresses are whose", name)
	}
	at := map[string][]netip.Addr{}
	for i := range g.Frontends {
		inside, outside := g.Frontends[i].addresses(w)
		at[strings.ToLower(g.Frontends[i].ID)] = slices.Concat(inside, outside)
		out.Public = append(out.Public, outside...)
	}
	book := listeners{names: map[string]int{}}
	g.listen(&book, at, behind, network)
	out.Listeners, out.Ports = book.all()
	if out.Ambiguous != "" {
		out.Public = nil
		return out, nil
	}
	id := key + "/gatewayipconfigurations"
	out.Private, out.Interfaces = private, []string{id}
	return out, []cloud.Interface{{
		ID: id, NetworkID: network, SubnetID: subnet, OwnerID: w.subscription, Managed: true, Front: true, PrivateIPs: private, PublicIPs: out.Public,
	}}
}

// usable are the IPv4 addresses of a subnet that something there can have: all but the four first
// ones and the last one. It says why they are not told.
func (w *Region) usable(network, subnet string) (out []netip.Addr, why string) {
	v := w.Networks[network]
	if v == nil {
		return nil, "its virtual network is not shown"
	}
	for i := range v.Subnets {
		s := &v.Subnets[i]
		if !strings.EqualFold(s.Name, subnet) {
			continue
		}
		for _, p := range prefixes(append(slices.Clone(s.Properties.Prefixes), s.Properties.Prefix)) {
			if !p.Addr().Is4() {
				continue
			}
			if p.Bits() < 24 || len(out) > gatewayAddresses {
				return nil, fmt.Sprintf("its instances have any address of the subnet %s, which has more than %d: name the subnet (ipBlock)", subnet, gatewayAddresses)
			}
			const reserved = 4
			a := p.Addr()
			for i := 0; p.Contains(a.Next()); i++ {
				if i >= reserved {
					out = append(out, a)
				}
				a = a.Next()
			}
		}
		slices.SortFunc(out, netip.Addr.Compare)
		return slices.Compact(out), ""
	}
	return nil, "its subnet is not shown"
}

// listen adds what a gateway listens at.
func (g *gateway) listen(to *listeners, at map[string][]netip.Addr, behind backends, home string) {
	type way struct{ listener, pathMap *Reference }
	add := func(listener *Reference, groups ...cloud.TargetGroup) {
		l := find(g.Listeners, listener, func(l *gatewayListener) string { return l.ID })
		if l == nil {
			l = find(g.L4, listener, func(l *gatewayListener) string { return l.ID })
		}
		if l == nil {
			return
		}
		p := find(g.Ports, l.Properties.Port, func(p *ported) string { return p.ID })
		if p == nil {
			return
		}
		to.add(cloud.TCP, p.Properties.Port, at[l.Properties.Frontend.key()], strings.ToLower(l.Properties.Protocol), groups...)
	}
	for _, r := range slices.Concat(g.Rules, g.L4Rules) {
		x := &r.Properties
		w := way{x.Listener, x.Map}
		if w.listener == nil {
			w.listener = x.L4Listener
		}
		hands := []hand{x.hand}
		if x.L4Settings != nil {
			hands[0].Settings = x.L4Settings
		}
		for i := range g.Maps {
			if m := &g.Maps[i]; w.pathMap.key() != "" && strings.EqualFold(m.ID, w.pathMap.key()) {
				hands = append(hands, hand{m.Properties.Pool, m.Properties.Settings})
				for k := range m.Properties.Paths {
					hands = append(hands, m.Properties.Paths[k].Properties)
				}
			}
		}
		add(w.listener) // one that only redirects hands on nothing
		for _, h := range hands {
			if group, known := g.group(h, behind, home); known {
				add(w.listener, group)
			}
		}
	}
}

// group is a pool with the settings by which a gateway hands on to it.
func (g *gateway) group(h hand, behind backends, home string) (cloud.TargetGroup, bool) {
	p := find(g.Pools, h.Pool, func(p *pool) string { return p.ID })
	s := find(slices.Concat(g.HTTPSettings, g.L4Settings), h.Settings, func(s *ported) string { return s.ID })
	if p == nil || s == nil {
		return cloud.TargetGroup{}, false
	}
	out := cloud.TargetGroup{ID: h.Pool.key() + " " + h.Settings.key(), Name: p.Name, NetworkID: home}
	health := s.Properties.Port
	if check := find(g.Probes, s.Properties.Probe, func(p *healthProbe) string { return p.ID }); check != nil {
		health = cmp.Or(check.Properties.Port, health)
	}
	out.Targets, _ = targets(behind.of(p, home), s.Properties.Port, health)
	for _, x := range p.Properties.Hosts {
		if x.FQDN != "" {
			out.Unknown = fmt.Sprintf("it names %s, and the gateway asks its own resolver for the address", cloud.Words(x.FQDN))
			break
		}
	}
	return out, true
}

// MarkShared marks the gateways that have others in their subnets. One of these may be forgotten
// later, and the addresses of the rest are no more known than before.
func MarkShared(rows []Row) {
	all, _ := partsOf[gateway](rows, TypeGateway, func(g *gateway) *Row { return &g.Row })
	shared := sharedSubnets(all)
	for i := range rows {
		if g := all[strings.ToLower(rows[i].ID)]; g != nil {
			rows[i].shared = slices.ContainsFunc(g.subnets(), func(s string) bool { return shared[s] })
		}
	}
}
