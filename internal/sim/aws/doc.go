// Package aws is the pure, in-memory state of the simulated AWS cloud: accounts, credentials and
// roles, and per account and region the EC2 objects (VPCs, subnets, peerings, route tables, network
// ACLs, gateways, instances, network interfaces, launch templates, security groups with their
// rules, prefix lists, tags). It knows nothing of HTTP or XML; the wire protocol lives in package
// ec2 and calls this one.
//
// What it promises:
//
//   - Every call is atomic: a refused mutation has changed nothing. Refusals are *Error values with
//     the code, message and HTTP status of the real cloud.
//   - Describes return deep copies, sorted by id; a caller may keep and change them. Filters and
//     pages are the wire's work.
//   - Nothing happens by itself: time comes from the injected clock and ids from a counter and a
//     seed, so that the same calls at the same times give the same state.
//   - Allowed decides a packet from the security groups of both ends, and from the route tables and
//     network ACLs between them as far as they are described or were written, without regard to
//     their authors. The power state of instances plays no part in it.
//
// Concurrency: a World and its Region handles may be used from any number of goroutines. Mutations
// are serialised; reads run beside one another. Hooks set by OnMutation run after the commit and
// before the next mutation starts, so a hook sees exactly the state that its mutation left. A hook
// may read the World; it must not mutate it (that would deadlock).
//
// # What is modelled
//
// Modelled: accounts, regions, credentials, IAM roles, VPCs with several IPv4 and IPv6 blocks,
// subnets (also shared, sharedWith in a saved state), peerings (also across accounts and regions),
// instances and their states, network interfaces (several per instance, secondary, IPv6 and public
// addresses, interfaces of services, detached ones), security groups, managed prefix lists, route
// tables, network ACLs, internet gateways, launch templates, tags, quotas, eventual consistency.
//
// Not modelled: NAT, egress-only and transit gateways and endpoints (a route may name one), VPC
// associations, sharing of groups. Power states play no part in verdicts.
//
// A credential or role may have an IAM policy (policy:) with allow and deny statements over
// actions, resources and string conditions; anything else in it is an error. Without one it may do
// everything. Changing actions ask for the resources they name, with their tags; creating actions
// also for what the object is made in, and for ec2:CreateTags if tags are given. Reading, and
// RunInstances, know only the resource *.
//
// A verdict asks, in this order:
//
//   - The egress rules of the source's groups, unless the source is outside.
//   - The ingress rules of the destination's groups, unless the destination is outside. Blocks and
//     prefix lists match the other end's private address; a group matches the private addresses of
//     interfaces that hold it, in the VPC or across an active peering in the region. Flows to a
//     public address are seen with public addresses at both ends, and group references do not
//     match. A flow from an interface to itself is not filtered.
//   - The route table of each end's subnet must lead to the other end.
//   - The network ACLs of both subnets must pass the flow and its answer to port 49152 (an echo:
//     the echo reply). Within a subnet they are not asked.
//
// A main route table or default ACL that no description or call has changed lets everything
// through.
package aws
