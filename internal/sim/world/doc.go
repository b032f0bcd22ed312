// Package world is the pure, in-memory state of the simulated AWS cloud: accounts, credentials and
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
//     network ACLs between them as far as somebody has told or written them, independently of
//     whoever programmed them. The power state of instances plays no part in it.
//
// Concurrency: a World and its Region handles may be used from any number of goroutines. Mutations
// are serialised; reads run beside one another. Hooks set by OnMutation run after the commit and
// before the next mutation starts, so a hook sees exactly the state that its mutation left. A hook
// may read the World; it must not mutate it (that would deadlock).
package world
