// Package egress handles the Egresses of a cluster: it allocates addresses of ExternalIPPools,
// computes which Pods an Egress applies to, and writes the status. The agents
// (internal/agent/egress) decide which Node has an address, by Leases.
//
// It promises:
//
//   - Allocate is a function of the objects. An Egress keeps its address; among several without
//     one, the oldest is served first. If an Egress cannot be served, one sentence in its status
//     says why, and no other Egress is affected.
//   - A watch of EgressGroups delivers the groups with Pods of its Node and the groups whose
//     addresses the Node may have, then one bookmark, and then changes. A slow receiver gets fewer
//     changes.
//
// Groups is safe for concurrent use; Controller runs once in a cluster.
package egress
