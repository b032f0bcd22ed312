package azure

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Passage is what becomes of a new flow to the front end of a load balancer or gateway.
type Passage struct {
	// Entry is the way to the front end.
	Entry Verdict
	// Preserved tells that targets see the client's address.
	Preserved bool
	// Targets are those whom it may be handed to; none if nobody listens, or nobody is behind it.
	Targets []TargetPassage
	// Listens tells that something listens there.
	Listens bool
}

// TargetPassage is the way on to a target.
type TargetPassage struct {
	Addr netip.Addr
	// NIC is the interface that has the address; empty if none does.
	NIC  string
	Port int
	// Verdict is what becomes of the traffic, and Health of a health check; nil if there are none.
	Verdict Verdict
	Health  *Verdict
	// From is the address that the target sees, and Prober that of the health checks.
	From, Prober netip.Addr
}

// relay is a service behind which there are others, made ready.
type relay struct {
	gateway bool
	subnets []string              // of a gateway, keys
	fronts  map[string]relayFront // by key
	rules   []relayRule
}

type relayFront struct {
	addr   netip.Addr
	public string // key
	subnet string // key
}

// relayRule hands on what comes to a front end and a port.
type relayRule struct {
	front          string
	protocol       int // -1 for both
	port, to       int // 0 for all ports, and for the same one
	pools          []string
	configurations []string
	hosts          []netip.Addr
	probe          int // 0 for none
}

// doc reads parts of documents whose form nobody vouches for.
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
	return key(text(m["id"]))
}

func (d doc) number(name string) int {
	n, _ := d[name].(float64)
	return int(n)
}

func (d doc) addr(name string) netip.Addr {
	a, _ := netip.ParseAddr(text(d[name])) // one that is not assigned yet is none
	return a
}

func frontsOf(d doc) map[string]relayFront {
	out := map[string]relayFront{}
	for _, f := range d.list("frontendIPConfigurations") {
		p := f.properties()
		out[key(text(f["id"]))] = relayFront{p.addr("privateIPAddress"), p.ref("publicIPAddress"), p.ref("subnet")}
	}
	return out
}

func hostsOf(d doc, pool string) []netip.Addr {
	var out []netip.Addr
	for _, p := range d.list("backendAddressPools") {
		if key(text(p["id"])) != pool {
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

func parseBalancer(properties map[string]any) (*relay, error) {
	d := doc(properties)
	out := &relay{fronts: frontsOf(d)}
	probes := map[string]int{}
	for _, p := range d.list("probes") {
		probes[key(text(p["id"]))] = p.properties().number("port")
	}
	for _, r := range d.list("loadBalancingRules") {
		p := r.properties()
		rule := relayRule{
			front: p.ref("frontendIPConfiguration"), protocol: protocolNumber(text(p["protocol"])), port: p.number("frontendPort"), to: p.number("backendPort"),
			probe: probes[p.ref("probe")], pools: []string{p.ref("backendAddressPool")},
		}
		rule.hosts = hostsOf(d, rule.pools[0])
		out.rules = append(out.rules, rule)
	}
	for _, r := range d.list("inboundNatRules") {
		p := r.properties()
		out.rules = append(out.rules, relayRule{
			front: p.ref("frontendIPConfiguration"), protocol: protocolNumber(text(p["protocol"])), port: p.number("frontendPort"), to: p.number("backendPort"),
			configurations: []string{p.ref("backendIPConfiguration")},
		})
	}
	return out, nil
}

func parseGateway(properties map[string]any) (*relay, error) {
	d := doc(properties)
	out := &relay{gateway: true, fronts: frontsOf(d)}
	for _, c := range d.list("gatewayIPConfigurations") {
		out.subnets = append(out.subnets, c.properties().ref("subnet"))
	}
	ports, settings, listeners := map[string]int{}, map[string]doc{}, map[string]doc{}
	for _, p := range d.list("frontendPorts") {
		ports[key(text(p["id"]))] = p.properties().number("port")
	}
	for _, s := range d.list("backendHttpSettingsCollection") {
		settings[key(text(s["id"]))] = s.properties()
	}
	for _, l := range d.list("httpListeners") {
		listeners[key(text(l["id"]))] = l.properties()
	}
	probes := map[string]int{}
	for _, p := range d.list("probes") {
		probes[key(text(p["id"]))] = p.properties().number("port")
	}
	for _, r := range d.list("requestRoutingRules") {
		p := r.properties()
		l := listeners[p.ref("httpListener")]
		s := settings[p.ref("backendHttpSettings")]
		rule := relayRule{front: l.ref("frontendIPConfiguration"), protocol: 6, port: ports[l.ref("frontendPort")], to: s.number("port"), pools: []string{p.ref("backendAddressPool")}}
		if rule.probe = probes[s.ref("probe")]; rule.probe == 0 {
			rule.probe = rule.to
		}
		rule.hosts = hostsOf(d, rule.pools[0])
		out.rules = append(out.rules, rule)
	}
	return out, nil
}

// Through follows a flow whose destination is the front end of a load balancer or of an application
// gateway; false if it is none. The security groups of the client see the address of the front end,
// those of a target its own address. A load balancer keeps the client's address, and its health
// checks come from the host; a gateway sends both from an instance in its subnet, whose group is
// asked as well. It is a read.
func (c *Cloud) Through(f Flow) (Passage, bool, error) {
	x := c.now()
	network := c.networkOf(f.Dst)
	if network == "" {
		network = c.networkOf(f.Src)
	}
	for _, k := range slices.Sorted(maps.Keys(c.resources)) {
		r := c.resources[k]
		b, ok := r.parsed.(*relay)
		if !ok {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(b.fronts)) {
			at, public := b.fronts[name].addr, false
			if p := c.resources[b.fronts[name].public]; p != nil {
				at, public = publicAddress(p), true
			}
			id, _ := ParseID(b.fronts[name].subnet)
			inside := len(id.Types) == 2 && id.Parent().Key() == network
			if at != f.Dst.Addr || !public && !inside {
				continue
			}
			out, err := c.through(x, f, r, b, name, public)
			return out, true, err
		}
	}
	return Passage{}, false, nil
}

// instance is an address of a gateway in its subnet: the last one that there is.
func (c *Cloud) instance(r *Resource, b *relay) (party, bool) {
	for _, subnet := range b.subnets {
		s := c.subnetOf(subnet)
		if s == nil || len(s.prefixes) == 0 {
			continue
		}
		a := s.prefixes[0].Addr()
		for s.prefixes[0].Contains(a.Next().Next()) {
			a = a.Next()
		}
		n := &nic{configurations: []configuration{{addr: a, subnet: subnet}}}
		return party{located{r, n, &n.configurations[0]}, a, false}, true
	}
	return party{}, false
}

func (c *Cloud) through(x *index, f Flow, r *Resource, b *relay, front string, public bool) (Passage, error) {
	src, err := c.party(x, f.Src, c.networkOf(f.Src), f.Dst.Addr.Is6())
	if err != nil {
		return Passage{}, err
	}
	if f.SrcPort == 0 {
		f.SrcPort = standardSourcePort
	}
	out := Passage{Entry: Verdict{Allowed: true}, Preserved: !b.gateway}
	to := party{addr: f.Dst.Addr}
	if src.inside() {
		c.half(&out.Entry, src, to, f, outbound)
	}
	sender, known := c.instance(r, b)
	if b.gateway && known && out.Entry.Allowed {
		in := sender
		if !public {
			in.addr = f.Dst.Addr
		}
		c.half(&out.Entry, src, in, f, inbound)
	}
	prober := sender
	if !b.gateway {
		sender, prober = src, party{addr: hostAddress}
	}
	for _, rule := range b.rules {
		takes := rule.protocol == f.Protocol || rule.protocol < 0 && (f.Protocol == 6 || f.Protocol == 17)
		if rule.front != front || !takes || rule.port != 0 && rule.port != f.Port {
			continue
		}
		out.Listens = true
		for _, at := range c.behind(x, rule, r) {
			t := TargetPassage{Addr: at.addr, Port: rule.to, Verdict: Verdict{Allowed: true}, From: sender.addr, Prober: prober.addr}
			if t.Port == 0 {
				t.Port = f.Port
			}
			if at.inside() {
				t.NIC = at.resource.ID
			}
			c.handed(&t.Verdict, sender, at, Flow{Protocol: f.Protocol, Port: t.Port, SrcPort: f.SrcPort}, b.gateway)
			if rule.probe != 0 {
				t.Health = &Verdict{Allowed: true}
				c.handed(t.Health, prober, at, Flow{Protocol: 6, Port: rule.probe, SrcPort: standardSourcePort}, b.gateway)
			}
			out.Targets = append(out.Targets, t)
		}
		break
	}
	return out, nil
}

// handed decides the way on to a target: what leaves a gateway is asked about in its subnet.
func (c *Cloud) handed(v *Verdict, from, to party, f Flow, gateway bool) {
	if gateway && from.inside() {
		c.half(v, from, to, f, outbound)
	}
	if v.Allowed && to.inside() {
		c.half(v, from, to, f, inbound)
	}
	if !gateway && from.inside() && to.inside() && from.resource == to.resource {
		*v = Verdict{Reason: "dropped: a load balancer does not hand " + from.String() + " its own flow"}
	}
	// What is behind a load balancer of the Standard kind, and has no group, is closed to others
	// than its network.
	if v.Allowed && len(v.Steps) == 0 && !gateway && to.inside() && from.addr != hostAddress && !c.inNetwork(from.addr, to.nic.network()) {
		*v = Verdict{Reason: "dropped: " + to.String() + " is behind a load balancer and has no security group"}
	}
}

// behind are those whom a rule hands on to, in the order of their addresses.
func (c *Cloud) behind(x *index, rule relayRule, r *Resource) []party {
	var out []party
	for _, k := range slices.Sorted(maps.Keys(c.resources)) {
		n, ok := c.resources[k].parsed.(*nic)
		if !ok {
			continue
		}
		for i := range n.configurations {
			at := &n.configurations[i]
			id := c.resources[k].id.Child("ipConfigurations", at.name).Key()
			if slices.Contains(rule.configurations, id) || slices.ContainsFunc(at.pools, func(p string) bool { return slices.Contains(rule.pools, p) }) {
				out = append(out, party{located{c.resources[k], n, at}, at.addr, false})
			}
		}
	}
	for _, a := range rule.hosts {
		at := party{addr: a}
		for k, found := range x.private {
			id, ok := ParseID(k.network)
			if ok && k.addr == a && strings.EqualFold(id.Subscription, r.id.Subscription) {
				at = party{found, a, false}
			}
		}
		out = append(out, at)
	}
	slices.SortFunc(out, func(a, b party) int { return a.addr.Compare(b.addr) })
	return slices.CompactFunc(out, func(a, b party) bool { return a.addr == b.addr })
}
