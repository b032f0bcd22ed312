// Package egress is the part of a Node in Egresses: it has addresses that Pods leave the cluster
// with, and says how what the Node's Pods send leaves.
//
// The Lease of an address says which Node has it, and changes only when another Node takes it. A
// Node that has addresses renews one Lease of its own. An address whose Node has not renewed for so
// long as its Lease says goes to the Node that ranks first of all that may have it; the others
// wait longer. So nothing moves while a Node lives.
//
// It promises:
//
//   - Two Nodes never have an address at once. The kernel gets an address for fewer seconds than
//     the others wait, from before the renewal on, and takes it by itself when nothing prolongs
//     that, also where the agent was killed. A Node that takes an address looks afterwards whether
//     the other one has renewed meanwhile, and gives it up then.
//   - What an Egress applies to leaves with its address, or not at all. Connections from before are
//     ended.
//   - A restart that is over before the Lease is changes nothing.
//   - While there is no Egress, nothing is written and no group is watched.
//
// Manager is safe for concurrent use.
package egress
