// Package packet decides what becomes of a packet in the simulated AWS, from the resources alone:
// without the calls that made them, and without regard to their authors.
//
// A Judge answers four questions: whether a flow gets from one end to the other and why (Allowed,
// and Passes without the words), what a balancer makes of a flow to its front end (Through, and
// Health of its targets), and which addresses the host name of a service leads to (LookUp). Read
// flow.go for the question and the answer, verdict.go for the order of the decision, path.go for
// routes and network ACLs, passage.go for balancers.
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
// through. Power states play no part. Where edits take time, each interface is judged by the rules,
// groups and entries that it has in force, which package effect knows.
//
// It promises that a verdict is a function of the resources, the edits that are on their way, and
// the time of their clock.
//
// Concurrency: a Judge has no lock and changes nothing. Any number of goroutines may ask it as long
// as the resources that it was made of stay as they are; after a change a new one is made.
package packet
