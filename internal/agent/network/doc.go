// Package network decides what the network of a Node is: which addresses its Pods get, and which
// links, routes and neighbors the kernel of the Node needs for its Pods to reach the Pods of other
// Nodes. It is pure: no I/O, no goroutines, and the time is given.
//
// It owns Pool, which allocates addresses to Pods from the podCIDRs of the Node; Make, which
// computes the wanted state of the kernel; and Difference, which computes the steps to that state.
// Package links carries out the steps in a kernel and reads the state back.
//
// It promises:
//
//   - Make and Difference are functions of their input. A new process with the same input wants the
//     same state, and changes nothing if the kernel has it.
//   - New links, routes and neighbors are added before old ones are removed, and a route that leads
//     elsewhere is replaced in one step, so no packet is lost.
//   - An address belongs to one Pod until that Pod is gone, and is not reused for a minute.
//   - What other programs have configured in the kernel is neither changed nor removed.
//
// # How the network of a Node is made
//
//	API: all Nodes ------> Make (pure) ------> wanted links, routes, neighbours, ranges
//	kernel: what there is -> Difference -----> steps -> netlink; read again every 10 s
//	runtime -> nephele-cni ADD: ask -> agent: lease of addresses (Pool, in the kept state)
//	           veth, addresses, routes in the Pod's namespace, by the plugin as root
//	           "made" -> agent: host route, then what package cni does
//	runtime -> nephele-cni DEL: remove the link, tell the agent; the addresses rest for a minute
//
// Users of such networks complain most about leaked addresses, restarts that cut connections, and
// privileged agents. So addresses are leased from the kept state and reconciled. Names, aliases and
// the route protocol identify what is ours, so a restarted agent adopts it. The plugin is root,
// while the agent has NET_ADMIN alone. There are /32 and /128 routes to links without a bridge,
// with the gateways 169.254.1.1 and fe80::1. One VXLAN device has the first address of the podCIDR;
// in encap mode, it is the source of packets from the Node to Pods elsewhere. MAC addresses are
// derived from the names of Nodes and neighbors are permanent, so Nodes need not exchange them. If
// podCIDRs overlap, the route leads to the older Node. Spoof guard and masquerade are part of the
// one program of package nft.
//
// Not chosen: host-local, whose files are not reconciled (they are read, to migrate a Node); gRPC
// to the plugin, 10 MB more than HTTP and JSON; a bridge, which hides senders and needs
// br_netfilter.
//
// # Encryption
//
//	Node objects: podCIDRs, addresses, annotation with the public key
//	-> Make (pure): peers of the device, ways, closed ways -> Difference -> steps
//	table 157, before all others:  podCIDR elsewhere -> nephele-wg; unreachable behind it (metric 4096)
//	rules: from a podCIDR elsewhere and not by nephele-wg: drop; to one and not by nephele-wg: drop
//
// WireGuard replaces VXLAN and routes; it has its own routing table, so it works the same beside
// another CNI plugin. The mode wireguard is strict: without a key, traffic is dropped. The mode
// wireguard-or-clear is for switching encryption on or off and is not the default, because a
// removed key would turn encryption off. Changing directly from none to wireguard cuts traffic
// until all Nodes have made the change.
//
// A packet that leaves the cluster through another Node has a destination that WireGuard allows for
// no Node; its answer has such a source. So VXLAN wraps both between addresses that WireGuard
// carries, and VXLAN packets in the clear are dropped. The rules mark the answers, and a routing
// table before 157 sends them back. In noEncap mode across subnets, VXLAN does the same without
// WireGuard, because the network between the Nodes would not route such an answer.
//
// The key is an annotation of the Node; an admission policy lets only the Node's agent and kubelet
// write it. A new key is published before it is used. Allowed IPs are podCIDRs only: with the
// Nodes' own addresses, a compromised Node could attract traffic for other Nodes. An
// AntreaAgentInfo is written every minute, so with the key there every agent would receive a change
// of every other agent each minute. Where the kernel has no WireGuard, the agent itself encrypts
// (wireguard-go), and packets between Nodes are lost while it restarts; nothing is sent in the
// clear. A separate process for that would be one more thing to upgrade, for rare kernels.
//
// # IPsec
//
// Some rules demand validated cryptography (FIPS), which WireGuard is not. For them, the setting
// has the values ipsec and ipsec-or-clear. The mechanism is the same: a device, the routing table
// before all others, an unreachable route behind it, and rules that drop packets on other links.
// The device is an xfrm interface, or the one that charon's plugin kernel-libipsec makes. Without
// an SA, or without charon, it drops. So IPsec runs in tunnel mode between podCIDRs, in every mode
// of the network.
//
// strongSwan's charon runs in a separate DaemonSet, so an upgrade of agents cuts no connection. The
// agent configures it over vici, initiates SAs to Nodes that have none, and adopts existing ones.
// The controller's authority signs NAME.UID.nodes.nephele.io for an agent whose token is bound to
// that Node. Other Nodes expect the name and uid of the Node object, so a deleted Node is no longer
// accepted. An annotation, protected like the one with the WireGuard key, reports that there is a
// certificate. The only proposal is aes256gcm16-prfsha384-ecp384; ESP is rekeyed each hour. ESP is
// encapsulated in UDP 4500, the port of IKE, which clouds let pass.
//
// Not chosen: xfrm policies without a device, which leave a gap between route and SA; transport
// mode, which needs the VXLAN that noEncap does not have; pre-shared keys, with which any Node
// could impersonate any other. A restart of charon cuts its Node off for seconds. The kernel's ESP
// is untested, because the kernels of our tests have none.
package network
