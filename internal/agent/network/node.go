package network

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Mode is how Pods of different Nodes reach one another.
type Mode string

// The modes.
const (
	// Encap wraps all packets between Nodes into VXLAN.
	Encap Mode = "encap"
	// Hybrid wraps only packets to Nodes on other subnets.
	Hybrid Mode = "hybrid"
	// NoEncap routes packets to Nodes on the same subnet, and leaves the others to the network
	// around the Nodes.
	NoEncap Mode = "noEncap"
	// PolicyOnly has no network: another CNI plugin makes it.
	PolicyOnly Mode = "networkPolicyOnly"
)

// Modes lists them.
func Modes() []Mode { return []Mode{Encap, Hybrid, NoEncap, PolicyOnly} }

const (
	// Device is the link of VXLAN.
	Device = "nephele-vxlan"
	// EndPrefix begins the names of links that lead to Pods.
	EndPrefix = "nph"
	// VNI is the number of our VXLAN, and DefaultPort its port of UDP, as IANA has it.
	VNI         = 20048
	DefaultPort = 4789
	// Protocol marks routes as ours, as daemons do that make routes.
	Protocol = 157
	// overhead4 and overhead6 are what VXLAN adds to a packet that an Ethernet link carries.
	overhead4, overhead6 = 50, 70
	// leastMTU6 is the least MTU with which there is IPv6 on a link.
	leastMTU6, leastMTU4 = 1280, 576
	// mostMTU is what the kernel takes.
	mostMTU = 65535
)

// Gateway4 and Gateway6 are where Pods send everything: the end of their link at the Node. The
// address is the same on each link, and on each Node.
var (
	Gateway4 = netip.MustParseAddr("169.254.1.1")
	Gateway6 = netip.MustParseAddr("fe80::1")
)

// GatewayOf is the one of a family.
func GatewayOf(six bool) netip.Addr {
	if six {
		return Gateway6
	}
	return Gateway4
}

// Config is what the user says.
type Config struct {
	Mode Mode
	// Port is that of VXLAN; 0 for DefaultPort.
	Port uint16
	// MTU is that of Pods; 0 for what the links of the Nodes carry.
	MTU int
	// NoSNAT leaves packets that Pods send to others than Pods the address of the Pod. Else those
	// to Except keep it.
	NoSNAT bool
	Except []netip.Prefix
	// Encryption is what becomes of packets between Nodes; empty for NoEncryption.
	Encryption Encryption
	// WireGuardPort is that of WireGuard; 0 for DefaultWireGuardPort.
	WireGuardPort uint16
}

// Encrypts reports whether packets between Nodes are encrypted.
func (c Config) Encrypts() bool { return c.Encryption.on() }

// Check returns what is wrong with it.
func (c Config) Check() error {
	switch {
	case !slices.Contains(Modes(), c.Mode):
		return fmt.Errorf("network mode %q: want encap, hybrid, noEncap or networkPolicyOnly", cut(string(c.Mode)))
	case c.MTU != 0 && (c.MTU < leastMTU4 || c.MTU > mostMTU):
		return fmt.Errorf("MTU %d: want %d to %d, or 0 for what the links of the Nodes carry", c.MTU, leastMTU4, mostMTU)
	case c.Encryption != "" && !slices.Contains(Encryptions(), c.Encryption):
		return fmt.Errorf("encryption %q: want none, wireguard, wireguard-or-clear, ipsec or ipsec-or-clear", cut(string(c.Encryption)))
	case c.Encryption.IPsec() && c.VXLANPort() == IPsecPort:
		return fmt.Errorf("UDP port %d is that of VXLAN and of IPsec: want two", IPsecPort)
	case c.Encryption.on() && !c.Encryption.IPsec() && cmp.Or(c.WireGuardPort, DefaultWireGuardPort) == c.VXLANPort():
		return fmt.Errorf("UDP port %d is that of VXLAN and of WireGuard: want two", c.VXLANPort())
	}
	for _, p := range c.Except {
		if !p.IsValid() {
			return fmt.Errorf("range %s to which Pods keep their address: want ADDRESS/BITS", p)
		}
	}
	return nil
}

func cut(text string) string {
	if len(text) > 64 {
		return text[:64] + "..."
	}
	return text
}

// VXLANPort is the UDP port of VXLAN.
func (c Config) VXLANPort() uint16 {
	if c.Port == 0 {
		return DefaultPort
	}
	return c.Port
}

// Node is a Node of the cluster.
type Node struct {
	Name string
	// Since is when it came. Of two that claim the same addresses the older has them.
	Since time.Time
	// Addresses are where other Nodes reach it, in its own order; PodCIDRs are the ranges of its
	// Pods.
	Addresses []netip.Addr
	PodCIDRs  []netip.Prefix
	// PublicKey is what it tells as its key of WireGuard; empty for nothing.
	PublicKey string
	// Identity is what a certificate of the Node for IPsec says, and PublishedIdentity what it
	// tells that it has; empty for nothing.
	Identity, PublishedIdentity string
}

// address returns the address of a family; the zero one for none.
func (n *Node) address(six bool) netip.Addr {
	for _, a := range n.Addresses {
		if a.Is6() == six {
			return a
		}
	}
	return netip.Addr{}
}

// OwnAddress is the address of a Node in a range of its Pods: the first one, as policies have it
// that are about Nodes. It is on the device of VXLAN, and no Pod's.
func OwnAddress(r netip.Prefix) netip.Addr { return r.Masked().Addr().Next() }

// MAC is the address of a link.
type MAC [6]byte

// String is the usual form.
func (m MAC) String() string {
	words := make([]string, len(m))
	for i, b := range m {
		words[i] = hex.EncodeToString([]byte{b})
	}
	return strings.Join(words, ":")
}

// MACOf is that of the device of VXLAN on the Node of a name. It is made from the name, so no Node
// has to tell it to others, and it is the same after each restart.
func MACOf(node string) MAC {
	sum := sha256.Sum256([]byte("nephele vxlan " + node))
	m := MAC(sum[:6])
	m[0] = m[0]&^1 | 2 // of one receiver, and administered locally
	return m
}

// linkLocal is the address of IPv6 that a link with an address of its own has on the link.
func linkLocal(m MAC) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
}

// hopOf is the next hop to a range of Pods of a Node by VXLAN. Of IPv6 it is not in the range: the
// kernel would look where that is routed, and refuse a hop that is not where it was before.
func hopOf(node string, r netip.Prefix) netip.Addr {
	if r.Addr().Is6() {
		return linkLocal(MACOf(node))
	}
	return OwnAddress(r)
}

// EndName is the name of the link at the Node that leads to an interface of a container.
func EndName(container, iface string) string {
	sum := sha256.Sum256([]byte(container + "\x00" + iface))
	return EndPrefix + hex.EncodeToString(sum[:6])
}

// aliasPrefix begins what a link that leads to a Pod says about itself.
const aliasPrefix = "nephele "

// EndAlias is the alias of the link to an interface of a container. It identifies the link to a
// process that knows nothing else about it.
func EndAlias(container, iface string) string { return aliasPrefix + container + " " + iface }

// ParseAlias reads what EndAlias has written.
func ParseAlias(alias string) (container, iface string, ok bool) {
	rest, ours := strings.CutPrefix(alias, aliasPrefix)
	container, iface, two := strings.Cut(rest, " ")
	if !ours || !two || container == "" || iface == "" || strings.ContainsAny(iface, " ") || len(alias) > 255 {
		return "", "", false
	}
	return container, iface, true
}
