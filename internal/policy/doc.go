// Package policy is the core of Nephele: entities and policies go in, computed rules and group
// members come out, as deltas.
//
// An Engine holds the current Namespaces, entities (Pods, ExternalEntities, Nodes), Services,
// Tiers, groups and policies. Put and Delete calls record changes; Commit brings the computed
// objects up to date and returns what changed since the last Commit: policies, address groups,
// applied-to groups and the set of enforcers each of them concerns. The computed objects mirror
// controlplane.antrea.io/v1beta2, with the same names, rule order and priorities.
//
// The package promises
//
//   - to be a function of its current inputs: the computed objects do not depend on the order or
//     the number of the changes that led to them. An object that is invalid, or names a Tier that
//     does not exist, computes to nothing and is reported as a Problem; all others are computed as
//     if it were not there;
//   - to be incremental: a change costs what it touches. Entities are held by distinct label set,
//     selectors are held once however many policies use them, and a selector is matched against a
//     label set, never against an entity;
//   - to do no I/O, and to use neither clock, goroutines nor randomness. Equal inputs give equal
//     Deltas, in equal order.
//
// Values passed to Put must not be modified afterwards. Values handed out (Delta, ComputedPolicy,
// Member) are shared with the Engine and with other receivers and must not be modified by anybody;
// they never change once handed out and may be read from any goroutine. The Engine itself is not
// safe for concurrent use: one goroutine owns it.
//
// Evaluator answers what the computed objects mean for one flow of packets.
package policy
