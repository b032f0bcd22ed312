package resources

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// This file makes native services of load balancers. Their front ends have no interfaces, and no
// security group is about them: the groups of a client see the address of the front end, the
// groups of a target the address of the client and their own.

// TypeBalancer is the type of load balancers.
const TypeBalancer = "microsoft.network/loadbalancers"

const fixedBalancer = "a load balancer of Azure has no network security group; the groups of its clients and of its targets filter what it hands on"

// probeAddress is the one that health checks of load balancers come from, anywhere in Azure.
func probeAddress() netip.Addr { return netip.AddrFrom4([4]byte{168, 63, 129, 16}) }

// natPorts bounds the ports of one inbound NAT rule in a snapshot.
const natPorts = 500

// frontend is a front end of a load balancer or of an application gateway.
type frontend struct {
	ID         string `json:"id"`
	Properties struct {
		Address string     `json:"privateIPAddress"`
		Subnet  *Reference `json:"subnet"`
		Public  *Reference `json:"publicIPAddress"`
	} `json:"properties"`
}

// pool is a backend pool of either.
type pool struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Properties struct {
		Network *Reference `json:"virtualNetwork"`
		// Addresses holds the addresses of a load balancer that are named as such, and not by an
		// interface.
		Addresses []struct {
			Properties struct {
				Address string     `json:"ipAddress"`
				Network *Reference `json:"virtualNetwork"`
			} `json:"properties"`
		} `json:"loadBalancerBackendAddresses"`
		// Hosts holds the hosts of an application gateway.
		Hosts []struct {
			Address string `json:"ipAddress"`
			FQDN    string `json:"fqdn"`
		} `json:"backendAddresses"`
	} `json:"properties"`
}

// healthProbe is a health check of either.
type healthProbe struct {
	ID         string `json:"id"`
	Properties struct {
		Port uint16 `json:"port"`
	} `json:"properties"`
}

// balancer is a load balancer.
type balancer struct {
	Row
	Frontends []frontend    `json:"frontendIPConfigurations"`
	Pools     []pool        `json:"backendAddressPools"`
	Probes    []healthProbe `json:"probes"`
	Rules     []struct {
		Properties struct {
			Frontend *Reference  `json:"frontendIPConfiguration"`
			Pool     *Reference  `json:"backendAddressPool"`
			Pools    []Reference `json:"backendAddressPools"`
			Probe    *Reference  `json:"probe"`
			Protocol string      `json:"protocol"`
			From     uint16      `json:"frontendPort"`
			To       uint16      `json:"backendPort"`
			Floating bool        `json:"enableFloatingIP"`
		} `json:"properties"`
	} `json:"loadBalancingRules"`
	NATs []struct {
		Name       string `json:"name"`
		ID         string `json:"id"`
		Properties struct {
			Frontend *Reference `json:"frontendIPConfiguration"`
			Backend  *Reference `json:"backendIPConfiguration"`
			Protocol string     `json:"protocol"`
			From     uint16     `json:"frontendPort"`
			First    uint16     `json:"frontendPortRangeStart"`
			Last     uint16     `json:"frontendPortRangeEnd"`
			To       uint16     `json:"backendPort"`
			Floating bool       `json:"enableFloatingIP"`
		} `json:"properties"`
	} `json:"inboundNatRules"`
}

// member is an address behind a load balancer or application gateway.
type member struct {
	addr    netip.Addr
	network string
}

// backends are the addresses of interfaces by the backend pools that they are in, and by their IP
// configurations, all by ids in lower case.
type backends struct {
	pools, configurations map[string][]member
}

func (w *Region) backends() backends {
	out := backends{map[string][]member{}, map[string][]member{}}
	for _, k := range slices.Sorted(maps.Keys(w.NICs)) {
		n := w.NICs[k]
		for i := range n.Configurations {
			c := &n.Configurations[i]
			a, err := netip.ParseAddr(c.Properties.Address)
			if err != nil {
				continue // none yet
			}
			m := member{a, n.network()}
			out.configurations[strings.ToLower(c.ID)] = []member{m}
			for _, p := range slices.Concat(c.Properties.Pools, c.Properties.GatewayPools) {
				out.pools[p.key()] = append(out.pools[p.key()], m)
			}
		}
	}
	return out
}

// of are the members of a pool, sorted, each once. home is the network of addresses of which the
// pool does not tell it.
func (b backends) of(p *pool, home string) []member {
	out := slices.Clone(b.pools[strings.ToLower(p.ID)])
	add := func(text, network string) {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, member{a, cmp.Or(network, home)})
		}
	}
	for i := range p.Properties.Addresses {
		x := &p.Properties.Addresses[i].Properties
		add(x.Address, cmp.Or(x.Network.key(), p.Properties.Network.key()))
	}
	for i := range p.Properties.Hosts {
		add(p.Properties.Hosts[i].Address, home)
	}
	slices.SortFunc(out, func(a, b member) int { return cmp.Or(a.addr.Compare(b.addr), -cmp.Compare(a.network, b.network)) })
	return slices.CompactFunc(out, func(a, b member) bool { return a.addr == b.addr })
}

// targets returns members as targets of traffic, and their network.
func targets(all []member, port, health uint16) (out []cloud.Target, network string) {
	for _, m := range all {
		out = append(out, cloud.Target{Addr: m.addr, Port: port, HealthPort: health})
		network = cmp.Or(network, m.network)
	}
	return out, network
}

// protocols are the numbers of a protocol as rules of load balancers have it.
func protocols(text string) []int {
	switch strings.ToLower(text) {
	case "tcp":
		return []int{cloud.TCP}
	case "udp":
		return []int{cloud.UDP}
	}
	return []int{cloud.TCP, cloud.UDP}
}

// addresses returns the addresses of a front end.
func (f *frontend) addresses(w *Region) (private, public []netip.Addr) {
	if a, err := netip.ParseAddr(f.Properties.Address); err == nil && f.Properties.Public.key() == "" {
		private = append(private, a)
	}
	if p := w.publics[f.Properties.Public.key()]; p != nil {
		public = append(public, p.addrs...)
	}
	return private, public
}

func networkOf(subnet *Reference) string {
	network, _, _ := strings.Cut(subnet.key(), "/subnets/")
	return network
}

// service is a load balancer in the words of the port, with an interface that represents each front
// end in a network.
func (b *balancer) service(w *Region, behind backends) (cloud.Service, []cloud.Interface) {
	key := strings.ToLower(b.ID)
	out := cloud.Service{ID: key, Kind: cloud.LoadBalancer, Name: b.Name, Tags: PortTags(b.Tags), Fixed: fixedBalancer}
	for i := range b.Frontends {
		out.NetworkID = cmp.Or(out.NetworkID, networkOf(b.Frontends[i].Properties.Subnet))
	}
	home := out.NetworkID
	for i := range b.Pools {
		for _, m := range behind.of(&b.Pools[i], home) {
			out.NetworkID = cmp.Or(out.NetworkID, m.network)
		}
	}
	at := map[string][]netip.Addr{}
	var stands []cloud.Interface
	for i := range b.Frontends {
		f := &b.Frontends[i]
		private, public := f.addresses(w)
		id := strings.ToLower(f.ID)
		at[id] = slices.Concat(private, public)
		out.Private, out.Public = append(out.Private, private...), append(out.Public, public...)
		if network := cmp.Or(networkOf(f.Properties.Subnet), out.NetworkID); network != "" && w.Networks[network] != nil && len(at[id]) > 0 {
			stands = append(stands, cloud.Interface{ID: id, NetworkID: network, OwnerID: w.subscription, Managed: true, Front: true, PrivateIPs: private, PublicIPs: public})
			out.Interfaces = append(out.Interfaces, id)
		}
	}
	slices.Sort(out.Interfaces)
	book := listeners{names: map[string]int{}}
	b.listen(&book, at, behind, out.NetworkID)
	out.Listeners, out.Ports = book.all()
	return out, stands
}

// listen adds what a load balancer listens at.
func (b *balancer) listen(to *listeners, at map[string][]netip.Addr, behind backends, home string) {
	const floating = "the rule leaves the front end's address in place (floating IP), and Azure does not document which address groups of the targets see"
	whole := ""
	if b.SKU != nil && strings.EqualFold(b.SKU.Name, "Gateway") {
		whole = "a gateway load balancer wraps what it hands on"
	}
	for i := range b.Rules {
		r := &b.Rules[i].Properties
		port := uint16(0)
		if p := find(b.Probes, r.Probe, func(p *healthProbe) string { return p.ID }); p != nil {
			port = p.Properties.Port
		}
		refs := slices.Clone(r.Pools)
		if r.Pool != nil {
			refs = append(refs, *r.Pool)
		}
		slices.SortFunc(refs, func(a, b Reference) int { return strings.Compare(a.key(), b.key()) })
		for _, ref := range slices.CompactFunc(refs, func(a, b Reference) bool { return a.key() == b.key() }) {
			p := find(b.Pools, &ref, func(p *pool) string { return p.ID })
			if p == nil {
				continue
			}
			g := cloud.TargetGroup{ID: ref.key(), Name: p.Name, Preserved: true, Transparent: true, Probes: []netip.Addr{probeAddress()}, Unknown: whole}
			g.Targets, g.NetworkID = targets(behind.of(p, home), r.To, port)
			if g.NetworkID = cmp.Or(g.NetworkID, home); r.Floating {
				g.Unknown = floating
			}
			for _, protocol := range protocols(r.Protocol) {
				to.add(protocol, r.From, at[r.Frontend.key()], cloud.ProtocolName(protocol), g)
			}
		}
		if len(refs) == 0 {
			for _, protocol := range protocols(r.Protocol) {
				to.add(protocol, r.From, at[r.Frontend.key()], cloud.ProtocolName(protocol))
			}
		}
	}
	for i := range b.NATs {
		r := &b.NATs[i].Properties
		g := cloud.TargetGroup{ID: strings.ToLower(b.NATs[i].ID), Name: b.NATs[i].Name, Preserved: true, Transparent: true, Probes: []netip.Addr{probeAddress()}, Unknown: whole}
		g.Targets, g.NetworkID = targets(behind.configurations[r.Backend.key()], r.To, 0)
		if g.NetworkID = cmp.Or(g.NetworkID, home); r.Floating {
			g.Unknown = floating
		}
		first, last := r.From, r.From
		if r.First != 0 && r.Last >= r.First {
			first, last, g.Unknown = r.First, min(r.Last, r.First+natPorts-1), "which of the machines has which port of the range is not read"
		}
		for _, protocol := range protocols(r.Protocol) {
			for port := int(first); port <= int(last); port++ {
				to.add(protocol, uint16(port), at[r.Frontend.key()], "", g)
			}
		}
	}
}

// find is the part of a resource that a reference means; nil if there is none.
func find[T any](all []T, ref *Reference, id func(*T) string) *T {
	for i := range all {
		if strings.EqualFold(id(&all[i]), ref.key()) && ref.key() != "" {
			return &all[i]
		}
	}
	return nil
}

// listeners collects what a service listens at.
type listeners struct {
	list  []cloud.ServiceListener
	ports []cloud.ServicePort
	names map[string]int // how many ports have a protocol's name
}

// add adds a listener, or groups to one that is known. Its port is called by its protocol and its
// number, as in https-443; without a name it is not told.
func (l *listeners) add(protocol int, port uint16, addrs []netip.Addr, name string, groups ...cloud.TargetGroup) {
	addrs = slices.SortedFunc(slices.Values(addrs), netip.Addr.Compare)
	if len(addrs) == 0 {
		return // at a front end without an address
	}
	i := slices.IndexFunc(l.list, func(x cloud.ServiceListener) bool {
		return x.Protocol == protocol && x.Port == port && slices.Equal(x.Addrs, addrs)
	})
	if i < 0 {
		i = len(l.list)
		l.list = append(l.list, cloud.ServiceListener{Protocol: protocol, Port: port, Addrs: addrs})
	}
	for _, g := range groups {
		if !slices.ContainsFunc(l.list[i].Groups, func(o cloud.TargetGroup) bool { return o.ID == g.ID }) {
			l.list[i].Groups = append(l.list[i].Groups, g)
		}
	}
	p := cloud.ServicePort{Name: fmt.Sprintf("%s-%d", name, port), Protocol: protocol, Port: port}
	if name == "" || port == 0 || slices.Contains(l.ports, p) {
		return
	}
	l.ports = append(l.ports, p)
	l.names[name]++
}

// all are the listeners and the ports, sorted. A port that is the only one of its protocol has that
// name, too.
func (l *listeners) all() ([]cloud.ServiceListener, []cloud.ServicePort) {
	for _, p := range slices.Clone(l.ports) {
		if name, _, _ := strings.Cut(p.Name, "-"); l.names[name] == 1 {
			l.ports = append(l.ports, cloud.ServicePort{Name: name, Protocol: p.Protocol, Port: p.Port})
		}
	}
	slices.SortFunc(l.ports, func(a, b cloud.ServicePort) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Name, b.Name))
	})
	for i := range l.list {
		slices.SortFunc(l.list[i].Groups, func(a, b cloud.TargetGroup) int { return cmp.Compare(a.ID, b.ID) })
	}
	slices.SortFunc(l.list, func(a, b cloud.ServiceListener) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port), slices.CompareFunc(a.Addrs, b.Addrs, netip.Addr.Compare))
	})
	return l.list, l.ports
}
