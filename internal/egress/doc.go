// Package egress is what a cluster as a whole has to do with Egresses: it gives them addresses of
// ExternalIPPools, says which Pods they apply to, and writes how they stand. Which Node has an
// address is the business of the agents (internal/agent/egress), who say so in Leases.
//
// It promises:
//
//   - Allocate is a function of the objects that there are. An Egress keeps its address; of several
//     without one the oldest is served first. What cannot be is said of the Egress in one sentence,
//     and no other Egress is the worse for it.
//   - A watch of EgressGroups delivers what concerns its Node, one bookmark, and then what changes:
//     the groups with Pods of the Node, and the groups whose addresses the Node may have. A slow
//     receiver gets fewer changes.
//
// Groups is safe for concurrent use; Controller runs once in a cluster.
package egress
