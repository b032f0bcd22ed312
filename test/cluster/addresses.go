package cluster

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// plan are the addresses of a cluster in one family.
type plan struct {
	family corev1.IPFamily
	// pods and services are the ranges of the cluster, and nodePods that of a Node where its Pods
	// are on a bridge. apiService is the address of the Service of the API server.
	pods, services, nodePods, apiService string
	// gateway is the address of the control plane in a subnet, and node the address of a Node by
	// its subnet and number; both are in a network of bits.
	gateway, node string
	bits          int
	// everywhere is the route to all, and any the address of all links.
	everywhere, any string
}

// plans are the addresses by family.
func plans() map[corev1.IPFamily]*plan {
	return map[corev1.IPFamily]*plan{
		corev1.IPv4Protocol: {
			family: corev1.IPv4Protocol, pods: "10.244.0.0/16", services: "10.96.0.0/16", nodePods: "10.244.%d.0/24", apiService: "10.96.0.1",
			gateway: "198.18.%d.1", node: "198.18.%d.%d", bits: 24, everywhere: "0.0.0.0/0", any: "0.0.0.0",
		},
		corev1.IPv6Protocol: {
			family: corev1.IPv6Protocol, pods: "fd00:244::/56", services: "fd00:96::/112", nodePods: "fd00:244:0:%x::/64", apiService: "fd00:96::1",
			gateway: "fd00:c0:0:%x::1", node: "fd00:c0:0:%x::%x", bits: 64, everywhere: "::/0", any: "::",
		},
	}
}

// families returns the families of the cluster, the primary one first.
func (c *Cluster) families() []*plan {
	known := plans()
	if len(c.o.Families) == 0 {
		return []*plan{known[corev1.IPv4Protocol]}
	}
	var out []*plan
	for _, f := range c.o.Families {
		out = append(out, known[f])
	}
	return out
}

// primary is the first family.
func (c *Cluster) primary() *plan { return c.families()[0] }

// control is the address of the control plane: in the first of the subnets that it shares with the
// Nodes and routes between.
func (p *plan) control() string { return p.gatewayOf(0) }

func (p *plan) gatewayOf(subnet int) string { return address(p.gateway, subnet) }

// address is one in the form that Kubernetes wants.
func address(format string, numbers ...any) string {
	return netip.MustParseAddr(fmt.Sprintf(format, numbers...)).String()
}

func (p *plan) podsOf(i int) string {
	return netip.MustParsePrefix(fmt.Sprintf(p.nodePods, i)).String()
}

// nodeAddress is the address of a Node.
func (c *Cluster) nodeAddress(p *plan, i int) string {
	return address(p.node, c.subnetOf(i), 10+i)
}

// each returns the result of a function for every family.
func (c *Cluster) each(of func(*plan) string) []string {
	var out []string
	for _, p := range c.families() {
		out = append(out, of(p))
	}
	return out
}

// listed is the same with commas between.
func (c *Cluster) listed(of func(*plan) string) string { return strings.Join(c.each(of), ",") }

// podNetwork are the ranges of all Pods.
func (c *Cluster) podNetwork() string { return c.listed(func(p *plan) string { return p.pods }) }

// give gives a link an address at once: no other host can have it, so none is asked.
func (p *plan) give(h *netlink.Handle, link netlink.Link, address string) error {
	a, err := netlink.ParseAddr(fmt.Sprintf("%s/%d", address, p.bits))
	if err != nil {
		return err
	}
	if p.family == corev1.IPv6Protocol {
		a.Flags = unix.IFA_F_NODAD
	}
	return h.AddrAdd(link, a)
}

// route leads to a range by a gateway.
func route(h *netlink.Handle, to, gateway string) error {
	_, dst, err := net.ParseCIDR(to)
	if err != nil {
		return err
	}
	return h.RouteReplace(&netlink.Route{Dst: dst, Gw: net.ParseIP(gateway)})
}

// forwarding are the settings by which a network namespace hands packets on.
func (c *Cluster) forwarding() (names []string) {
	for _, p := range c.families() {
		if p.family == corev1.IPv6Protocol {
			names = append(names, "net.ipv6.conf.all.forwarding")
			continue
		}
		names = append(names, "net.ipv4.ip_forward")
	}
	return names
}
