package document

import (
	"net/netip"
	"strings"
)

// Relay is a service behind which there are others, made ready.
type Relay struct {
	Gateway bool
	Subnets []string              // of a gateway, keys
	Fronts  map[string]relayFront // by key
	Rules   []RelayRule
}

type relayFront struct {
	Addr   netip.Addr
	Public string // key
	Subnet string // key
}

// RelayRule hands on what comes to a front end and a port.
type RelayRule struct {
	Front          string
	Protocol       int // -1 for both
	Port, To       int // 0 for all ports, and for the same one
	Pools          []string
	Configurations []string
	Hosts          []netip.Addr
	Probe          int // 0 for none
}

// doc reads parts of documents whose form no one guarantees.
type doc map[string]any

func (d doc) list(name string) []doc {
	var out []doc
	all, _ := d[name].([]any)
	for _, x := range all {
		if m, ok := x.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

func (d doc) properties() doc {
	m, _ := d["properties"].(map[string]any)
	return m
}

func (d doc) ref(name string) string {
	m, _ := d[name].(map[string]any)
	return Key(Text(m["id"]))
}

func (d doc) number(name string) int {
	n, _ := d[name].(float64)
	return int(n)
}

func (d doc) addr(name string) netip.Addr {
	a, _ := netip.ParseAddr(Text(d[name])) // one that is not assigned yet is none
	return a
}

func frontsOf(d doc) map[string]relayFront {
	out := map[string]relayFront{}
	for _, f := range d.list("frontendIPConfigurations") {
		p := f.properties()
		out[Key(Text(f["id"]))] = relayFront{p.addr("privateIPAddress"), p.ref("publicIPAddress"), p.ref("subnet")}
	}
	return out
}

func hostsOf(d doc, pool string) []netip.Addr {
	var out []netip.Addr
	for _, p := range d.list("backendAddressPools") {
		if Key(Text(p["id"])) != pool {
			continue
		}
		for _, a := range p.properties().list("loadBalancerBackendAddresses") {
			if x := a.properties().addr("ipAddress"); x.IsValid() {
				out = append(out, x)
			}
		}
		for _, a := range p.properties().list("backendAddresses") {
			if x := a.addr("ipAddress"); x.IsValid() {
				out = append(out, x)
			}
		}
	}
	return out
}

func protocolNumber(name string) int {
	switch strings.ToLower(name) {
	case "udp":
		return 17
	case "all":
		return -1
	}
	return 6
}

func parseBalancer(properties map[string]any) (*Relay, error) {
	d := doc(properties)
	out := &Relay{Fronts: frontsOf(d)}
	probes := map[string]int{}
	for _, p := range d.list("probes") {
		probes[Key(Text(p["id"]))] = p.properties().number("port")
	}
	for _, r := range d.list("loadBalancingRules") {
		p := r.properties()
		rule := RelayRule{
			Front: p.ref("frontendIPConfiguration"), Protocol: protocolNumber(Text(p["protocol"])), Port: p.number("frontendPort"), To: p.number("backendPort"),
			Probe: probes[p.ref("probe")], Pools: []string{p.ref("backendAddressPool")},
		}
		rule.Hosts = hostsOf(d, rule.Pools[0])
		out.Rules = append(out.Rules, rule)
	}
	for _, r := range d.list("inboundNatRules") {
		p := r.properties()
		out.Rules = append(out.Rules, RelayRule{
			Front: p.ref("frontendIPConfiguration"), Protocol: protocolNumber(Text(p["protocol"])), Port: p.number("frontendPort"), To: p.number("backendPort"),
			Configurations: []string{p.ref("backendIPConfiguration")},
		})
	}
	return out, nil
}

func parseGateway(properties map[string]any) (*Relay, error) {
	d := doc(properties)
	out := &Relay{Gateway: true, Fronts: frontsOf(d)}
	for _, c := range d.list("gatewayIPConfigurations") {
		out.Subnets = append(out.Subnets, c.properties().ref("subnet"))
	}
	ports, settings, listeners := map[string]int{}, map[string]doc{}, map[string]doc{}
	for _, p := range d.list("frontendPorts") {
		ports[Key(Text(p["id"]))] = p.properties().number("port")
	}
	for _, s := range d.list("backendHttpSettingsCollection") {
		settings[Key(Text(s["id"]))] = s.properties()
	}
	for _, l := range d.list("httpListeners") {
		listeners[Key(Text(l["id"]))] = l.properties()
	}
	probes := map[string]int{}
	for _, p := range d.list("probes") {
		probes[Key(Text(p["id"]))] = p.properties().number("port")
	}
	for _, r := range d.list("requestRoutingRules") {
		p := r.properties()
		l := listeners[p.ref("httpListener")]
		s := settings[p.ref("backendHttpSettings")]
		rule := RelayRule{Front: l.ref("frontendIPConfiguration"), Protocol: 6, Port: ports[l.ref("frontendPort")], To: s.number("port"), Pools: []string{p.ref("backendAddressPool")}}
		if rule.Probe = probes[s.ref("probe")]; rule.Probe == 0 {
			rule.Probe = rule.To
		}
		rule.Hosts = hostsOf(d, rule.Pools[0])
		out.Rules = append(out.Rules, rule)
	}
	return out, nil
}
