package azure

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// What routes do with a packet. The sources:
//
//   - A subnet sends by the route of the longest prefix; one that somebody has defined goes before a
//     route of the system with the same prefix, and networks reach their own addresses and their
//     peers'.
//     https://learn.microsoft.com/azure/virtual-network/virtual-networks-udr-overview
//   - "Any network interface attached to a virtual machine that forwards network traffic to an
//     address other than its own must have the Azure Enable IP forwarding option enabled for it. The
//     setting disables Azure's check of the source and destination for a network interface."

// Packet is a packet that an interface sends, from an address of its own or not, to an address that
// may be nobody's.
type Packet struct {
	// NIC is the id of the interface that sends it.
	NIC      string
	Src, Dst netip.Addr
	// Protocol, Port and SrcPort are as in Flow.
	Protocol, Port, SrcPort int
}

// Led follows a packet by the routes that somebody has defined to the interface that takes it,
// whose id it returns; none if that is outside. It is a read. An error means that the packet makes
// no sense.
func (c Verdicts) Led(p Packet) (v Verdict, nic string, err error) {
	sender, err := c.endpoint(c.cloud.now(), End{NIC: p.NIC}, "", p.Src.Is6())
	switch {
	case err != nil:
		return v, "", err
	case p.Src.Is4() != p.Dst.Is4():
		return v, "", fmt.Errorf("%s and %s are of different families", p.Src, p.Dst)
	}
	f := Flow{Protocol: p.Protocol, Port: p.Port, SrcPort: p.SrcPort}
	if f.SrcPort == 0 {
		f.SrcPort = standardSourcePort
	}
	seen := c
	if c.cloud.settings.Effects.Keeps() {
		seen.cloud = seenBy(c.cloud, sender)
		sender = again(seen.cloud, sender)
	}
	src := party(sender, p.Src)
	if !src.inside() && !sender.nic.Forwards {
		return Verdict{Reason: fmt.Sprintf("dropped: %s has no IP forwarding, and sends from %s", sender, p.Src)}, "", nil
	}
	taker, why := seen.taker(sender, p.Dst)
	if why != "" {
		return Verdict{Reason: "dropped: " + why}, "", nil
	}
	dst := endpoint{addr: p.Dst}
	if taker.inside() {
		dst = party(taker, p.Dst)
	}
	v = Verdict{Allowed: true}
	c.at(&v, sender, src, dst, f, document.Outbound)
	if !taker.inside() {
		return v, "", nil
	}
	if v.Allowed {
		c.at(&v, taker, src, dst, f, document.Inbound)
	}
	if v.Allowed {
		v.Reason = fmt.Sprintf("allowed: %s to %s by %s", p.Src, p.Dst, taker)
	}
	return v, taker.resource.ID, nil
}

// party is the end of a packet: the interface if it has the address, else the address alone. What
// an interface only forwards is in none of its groups.
func party(at endpoint, a netip.Addr) endpoint {
	for i := range at.nic.Configurations {
		if at.nic.Configurations[i].Addr == a {
			at.at, at.addr = &at.nic.Configurations[i], a
			return at
		}
	}
	return endpoint{addr: a}
}

// taker is the interface that takes what an interface sends to an address; the zero endpoint if it
// leaves the networks, and the reason if nothing takes it.
func (c Verdicts) taker(sender endpoint, to netip.Addr) (endpoint, string) {
	home := sender.nic.Network()
	networks := append([]string{home}, c.peers(home)...)
	system := -1
	for _, k := range networks {
		for _, p := range c.spaceOf(k) {
			if p.Contains(to) {
				system = max(system, p.Bits())
			}
		}
	}
	route := c.routeOf(sender, to)
	if route == nil || route.Prefix.Bits() < system {
		if system < 0 {
			return endpoint{}, ""
		}
		at, ok := c.holder(networks, to)
		if !ok {
			return endpoint{}, fmt.Sprintf("no interface has %s", to)
		}
		return at, ""
	}
	switch route.Type {
	case document.HopNone:
		return endpoint{}, fmt.Sprintf("the route %s leads nowhere", route.Name)
	case document.HopAppliance:
		at, ok := c.holder(networks, route.Hop)
		switch {
		case !ok:
			return endpoint{}, fmt.Sprintf("the route %s leads to %s, which no interface has", route.Name, route.Hop)
		case !at.nic.Forwards && !slices.ContainsFunc(at.nic.Configurations, func(x document.Configuration) bool { return x.Addr == to }):
			return endpoint{}, fmt.Sprintf("the route %s leads to %s, which has no IP forwarding", route.Name, at)
		}
		return at, ""
	}
	if at, ok := c.holder(networks, to); ok && route.Type == "vnetlocal" {
		return at, ""
	}
	return endpoint{}, ""
}

// routeOf is the route that somebody has defined for what an interface sends to an address; nil if
// there is none.
func (c Verdicts) routeOf(sender endpoint, to netip.Addr) *document.Route {
	s := checks(c).subnetOf(sender.at.Subnet)
	if s == nil || c.cloud.resources[s.Routes] == nil {
		return nil
	}
	t, ok := c.cloud.resources[s.Routes].parsed.(*document.RouteTable)
	if !ok {
		return nil
	}
	return t.Best(to)
}

// holder is the interface in one of the networks that has an address.
func (c Verdicts) holder(networks []string, a netip.Addr) (endpoint, bool) {
	for _, k := range networks {
		if at, ok := c.cloud.now().private[networkAddress{k, a}]; ok {
			return endpoint{at, a, false}, true
		}
	}
	return endpoint{}, false
}
