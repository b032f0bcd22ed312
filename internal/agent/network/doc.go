// Package network decides what the network of a Node is: which addresses its Pods get, and which
// links, routes and neighbours the kernel of the Node needs for its Pods to reach the Pods of other
// Nodes. It is pure: no I/O, no goroutines, and the time is given.
//
// It owns Pool, which gives Pods addresses out of the podCIDRs of the Node; Make, which says what
// is wanted of the kernel; and Difference, which says what must be done to get there. Package links
// does that in a kernel and reads it back.
//
// It promises:
//
//   - Make and Difference are functions of their input. A new process with the same input wants the
//     same, and does nothing where everything is there.
//   - What is wanted comes before what is not wanted any more goes, and a route that leads
//     elsewhere is replaced at once, so that no packet is lost between.
//   - An address is one Pod's until that Pod is gone, and rests before it is another's.
//   - What others have put into the kernel is neither changed nor removed.
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
// Users of such networks complain most of leaked addresses, of restarts that cut, and of privileged
// agents. So addresses are leased out of the kept state and reconciled; what is ours is known by
// names, aliases and route protocol, so that a restart adopts it; and the plugin is root, while the
// agent has NET_ADMIN alone. There are /32 and /128 routes to links without a bridge, with the
// gateways 169.254.1.1 and fe80::1. One VXLAN device has the first address of the podCIDR, from
// which the Node sends to Pods elsewhere in encap; MACs are derived from the names of Nodes, with
// permanent neighbours, so that no Node tells others anything. Of overlapping podCIDRs the older
// Node's is routed. Spoof guard and masquerade are part of the one program of package nft.
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
// WireGuard replaces VXLAN and routes; a routing table of its own makes it the same beside another
// CNI plugin. Strict means closed, also without a key. The mode wireguard-or-clear is the way in
// and out, and no default: a removed key would turn encryption off. Straight from none to wireguard
// cuts until all Nodes have it.
//
// What leaves by another Node has destinations and, back, sources that WireGuard lets no Node have.
// So VXLAN wraps it, from and to addresses that WireGuard carries, and what comes to the port of
// VXLAN in the clear is dropped. Answers go back by a table before 157, marked by the rules. By
// noEncap across subnets it is the same without WireGuard: a network around the Nodes would not
// take an answer for one.
//
// The key is an annotation of the Node; an admission policy lets only the Node's agent and kubelet
// write it. A new key is published before it counts. Allowed addresses are podCIDRs only: with the
// Nodes' own addresses a lost Node could draw what is meant for others. In AntreaAgentInfo the key
// would be written every minute, and all agents would follow all. Where the kernel has no
// WireGuard, the agent itself encrypts (wireguard-go), and packets between Nodes are lost while it
// restarts; nothing goes out in the clear. A process of its own for that would be one more thing to
// upgrade, for rare kernels.
//
// # IPsec
//
// Some rules demand validated cryptography (FIPS), which WireGuard is not. The switch has two more
// values for them, and routes, rules and closing are the same: a device, the table before all
// others, unreachable behind it, and drop of what comes or goes by another link. The device is an
// interface of xfrm, or the one that charon's plugin kernel-libipsec makes. Without an SA, and
// without charon, it drops. So it is tunnel mode, by podCIDRs, in every mode of the network.
//
// strongSwan's charon is a DaemonSet apart: an upgrade of agents cuts nothing. The agent configures
// it over vici, calls Nodes to which there is no SA, and adopts what is there. The authority of the
// controller signs NAME.UID.nodes.nephele.io for the agent with a token bound to that Node, and
// other Nodes expect name and uid of the Node object, so that a deleted Node is none any more. An
// annotation, guarded as that of the key, reports that there is a certificate. Proposals are
// aes256gcm16-prfsha384-ecp384 alone, with new keys of ESP each hour. ESP is in UDP 4500, as IKE
// is, which clouds let pass.
//
// Not chosen: policies without a device, which leave a gap between route and SA; transport mode,
// which needs VXLAN that noEncap has not; pre-shared keys, by which every Node could be any. A
// charon that starts anew cuts its Node for seconds. The kernel's ESP is not proven, because the
// kernels of our tests have none.
package network
