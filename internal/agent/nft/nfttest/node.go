package nfttest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// NodeName is the Node of NodeWorld, with the addresses NodeAddresses.
const NodeName = "h0"

// NodeAddresses returns the addresses of the Node.
func NodeAddresses() []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("10.9.9.9"), netip.MustParseAddr("2001:db8:9::9")}
}

// PodCount is how many Pods the Node of NodeWorld has.
const PodCount = 4

// PodAddresses returns the addresses of a Pod of the Node.
func PodAddresses(n int) []netip.Addr {
	return []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + n)}), netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", 1+n))}
}

// ServiceAddress4 and ServiceAddress6 are addresses of Services, which no host has. Each of their
// ports is one of the Service that ServiceOf names.
var (
	ServiceAddress4 = netip.MustParseAddr("10.96.0.1")
	ServiceAddress6 = netip.MustParseAddr("2001:db8:96::1")
)

// ServiceOf names the Service that has a port. But for one, random policies name them.
func ServiceOf(port uint16) policy.NamespacedName {
	return []policy.NamespacedName{{Namespace: "n0", Name: "any"}, {Namespace: "n0", Name: "s"}, {Namespace: "n1", Name: "s"}, {Namespace: "n2", Name: "s"}}[port%4]
}

// Frontends says where the Services are reached that have these ports, each for TCP and UDP.
func Frontends(ports ...uint16) map[string][]nft.Frontend {
	out := map[string][]nft.Frontend{}
	for _, port := range ports {
		name := ServiceOf(port)
		for _, a := range []netip.Addr{ServiceAddress4, ServiceAddress6} {
			for _, protocol := range []uint8{ruleset.TCP, ruleset.UDP} {
				out[name.Namespace+"/"+name.Name] = append(out[name.Namespace+"/"+name.Name], nft.Frontend{Address: a, Protocol: protocol, Port: port})
			}
		}
	}
	return out
}

// NodeWorld draws a world in which a Node has some Pods, to which policies that select Pods and
// Nodes apply, and returns what is computed with the Node as its agent knows it.
func NodeWorld(random *rand.Rand, objects int) (*policy.Listing, *nft.Node) {
	world := policytest.NewWorld()
	draw := policytest.Draw(random.IntN)
	for range objects {
		world.Put(draw.Object())
	}
	for uid, p := range world.Policies {
		// Most of what was drawn is about external entities elsewhere. Here Pods and the Node are.
		if p.Namespace != "" {
			p.Namespace = PodRef(random.IntN(2)).Namespace
			world.Policies[uid] = p
		}
		turn := func(list []policy.AppliedTo) {
			for i := range list {
				switch a := &list[i]; {
				case a.ExternalEntitySelector == nil:
				case p.Namespace == "" && random.IntN(3) == 0:
					a.NodeSelector, a.ExternalEntitySelector, a.NamespaceSelector = a.ExternalEntitySelector, nil, nil
				default:
					a.PodSelector, a.ExternalEntitySelector = a.ExternalEntitySelector, nil
				}
			}
		}
		turn(p.AppliedTo)
		for _, rules := range [][]policy.Rule{p.Ingress, p.Egress} {
			for i := range rules {
				turn(rules[i].AppliedTo)
				if rules[i].Action == policy.Drop && random.IntN(2) == 0 {
					rules[i].Action = policy.Reject
				}
			}
		}
	}
	// Delete the other entities that the world drew for the Node.
	for ref, e := range world.Entities {
		if ref.Kind == policy.KindNode && ref.Name == NodeName || e.Host == NodeName {
			world.Delete(e)
		}
	}
	labels := func() map[string]string {
		out := map[string]string{}
		for _, key := range []string{"role", "zone"} {
			if n := random.IntN(4); n > 0 {
				out[key] = string(rune('a' + n - 1))
			}
		}
		return out
	}
	world.Put(policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindNode, Name: NodeName}, Labels: labels(), Addresses: NodeAddresses()})
	node := &nft.Node{}
	for n := range PodCount {
		ref := PodRef(n)
		e := policy.Entity{EntityRef: ref, Labels: labels(), Addresses: PodAddresses(n), Host: NodeName}
		if random.IntN(2) == 0 {
			e.Ports = []policy.NamedPort{{Name: "http", Port: int32(80 + random.IntN(2))}}
		}
		world.Put(e)
		node.Pods = append(node.Pods, nft.Pod{Namespace: ref.Namespace, Name: ref.Name, Addresses: e.Addresses})
	}
	return policytest.Compute(world), node
}

// PodRef names a Pod of the Node.
func PodRef(n int) policy.EntityRef {
	return policy.EntityRef{Kind: policy.KindPod, Namespace: fmt.Sprintf("n%d", 1+n%2), Name: fmt.Sprintf("here%d", n)}
}
