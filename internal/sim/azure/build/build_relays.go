package build

import "net/netip"

// PublicAddress adds a public address of the Standard kind.
func (b *Builder) PublicAddress(group, name, address string) string {
	id := b.Add(group, "Microsoft.Network/publicIPAddresses", name, map[string]any{"ipAddress": address, "publicIPAllocationMethod": "Static"}, nil)
	b.find(id).Extra = map[string]any{"sku": map[string]any{"name": "Standard"}}
	return id
}

// Listening is one port of a load balancer or application gateway, and where it hands on to.
type Listening struct {
	// Protocol is Tcp, Udp or All of a load balancer, Http or Https of a gateway.
	Protocol string
	// Port is where clients come to, To where targets listen, and Probe where health checks go.
	Port, To, Probe int
	// Pool is the name of the backend pool.
	Pool string
	// Hosts are addresses in the pool. Interfaces join it by Behind.
	Hosts []string
}

// front is the document of a front end: at an address of a subnet, or at a public address, by its
// id.
func front(name, id, subnet, address string) map[string]any {
	p := map[string]any{}
	if _, err := netip.ParseAddr(address); err == nil {
		p = map[string]any{"privateIPAddress": address, "privateIPAllocationMethod": "Static", "subnet": map[string]any{"id": subnet}}
	} else {
		p["publicIPAddress"] = map[string]any{"id": address}
	}
	return map[string]any{"name": name, "id": id, "properties": p}
}

// Balancer adds a load balancer. address is one of the subnet, or the id of a public address. It
// returns the id; that of a pool is the same with /backendAddressPools/ and its name.
func (b *Builder) Balancer(group, name, subnet, address string, tags map[string]string, listens ...Listening) string {
	id := b.Group(group) + "/providers/Microsoft.Network/loadBalancers/" + name
	at := id + "/frontendIPConfigurations/front"
	pools, rules, probes := b.pools(id, listens, "loadBalancerBackendAddresses"), []any{}, []any{}
	for _, l := range listens {
		rule := map[string]any{
			"protocol": l.Protocol, "frontendPort": l.Port, "backendPort": l.To, "enableFloatingIP": false, "frontendIPConfiguration": map[string]any{"id": at},
			"backendAddressPool": map[string]any{"id": id + "/backendAddressPools/" + l.Pool},
		}
		called := l.Pool + "-" + l.Protocol
		if l.Probe != 0 {
			probe := id + "/probes/" + called
			probes = append(probes, map[string]any{"name": called, "id": probe, "properties": map[string]any{"protocol": "Tcp", "port": l.Probe}})
			rule["probe"] = map[string]any{"id": probe}
		}
		rules = append(rules, map[string]any{"name": called, "id": id + "/loadBalancingRules/" + called, "properties": rule})
	}
	b.Add(group, "Microsoft.Network/loadBalancers", name, map[string]any{
		"frontendIPConfigurations": []any{front("front", at, subnet, address)}, "backendAddressPools": pools, "loadBalancingRules": rules, "probes": probes, "inboundNatRules": []any{},
	}, tags)
	b.find(id).Extra = map[string]any{"sku": map[string]any{"name": "Standard"}}
	return id
}

func (b *Builder) pools(id string, listens []Listening, hosts string) []any {
	var out []any
	seen := map[string]bool{}
	for _, l := range listens {
		if seen[l.Pool] {
			continue
		}
		seen[l.Pool] = true
		list := []any{}
		for _, h := range l.Hosts {
			one := map[string]any{"ipAddress": h}
			if hosts == "loadBalancerBackendAddresses" {
				one = map[string]any{"name": h, "properties": one}
			}
			list = append(list, one)
		}
		out = append(out, map[string]any{"name": l.Pool, "id": id + "/backendAddressPools/" + l.Pool, "properties": map[string]any{hosts: list}})
	}
	return out
}

// Gateway adds an application gateway in a subnet. address is one of the subnet, or the id of a
// public address. Its pools are named as a load balancer's.
func (b *Builder) Gateway(group, name, subnet, address string, tags map[string]string, listens ...Listening) string {
	id := b.Group(group) + "/providers/Microsoft.Network/applicationGateways/" + name
	at := id + "/frontendIPConfigurations/front"
	var ports, listeners, settings, rules, probes []any
	part := func(kind, name string, p map[string]any) map[string]any {
		return map[string]any{"name": name, "id": id + "/" + kind + "/" + name, "properties": p}
	}
	ref := func(kind, name string) map[string]any { return map[string]any{"id": id + "/" + kind + "/" + name} }
	for _, l := range listens {
		ports = append(ports, part("frontendPorts", l.Pool, map[string]any{"port": l.Port}))
		listeners = append(listeners, part("httpListeners", l.Pool, map[string]any{
			"frontendIPConfiguration": map[string]any{"id": at}, "frontendPort": ref("frontendPorts", l.Pool), "protocol": l.Protocol,
		}))
		s := map[string]any{"port": l.To, "protocol": "Http"}
		if l.Probe != 0 {
			s["probe"] = ref("probes", l.Pool)
			probes = append(probes, part("probes", l.Pool, map[string]any{"port": l.Probe, "protocol": "Http", "path": "/"}))
		}
		settings = append(settings, part("backendHttpSettingsCollection", l.Pool, s))
		rules = append(rules, part("requestRoutingRules", l.Pool, map[string]any{
			"ruleType": "Basic", "httpListener": ref("httpListeners", l.Pool), "backendAddressPool": ref("backendAddressPools", l.Pool),
			"backendHttpSettings": ref("backendHttpSettingsCollection", l.Pool),
		}))
	}
	return b.Add(group, "Microsoft.Network/applicationGateways", name, map[string]any{
		"gatewayIPConfigurations": []any{map[string]any{
			"name": "in", "id": id + "/gatewayIPConfigurations/in", "properties": map[string]any{"subnet": map[string]any{"id": subnet}},
		}},
		"frontendIPConfigurations": []any{front("front", at, subnet, address)}, "frontendPorts": ports, "httpListeners": listeners, "requestRoutingRules": rules,
		"backendHttpSettingsCollection": settings, "backendAddressPools": b.pools(id, listens, "backendAddresses"), "probes": probes,
	}, tags)
}

// Behind puts an interface into a backend pool, by its id.
func (b *Builder) Behind(nic, pool string, gateway bool) {
	list := "loadBalancerBackendAddressPools"
	if gateway {
		list = "applicationGatewayBackendAddressPools"
	}
	for _, c := range b.find(nic).Properties["ipConfigurations"].([]any) {
		p := c.(map[string]any)["properties"].(map[string]any)
		have, _ := p[list].([]any)
		p[list] = append(have, map[string]any{"id": pool})
	}
}
