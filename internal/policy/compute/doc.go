// Package compute is the core of Nephele: entities and policies go in, computed rules and group
// members come out, as deltas.
//
// An Engine holds the current Namespaces, entities (Pods, ExternalEntities, Nodes), Services,
// Tiers, groups and policies. Put and Delete calls record changes; Commit brings the computed
// objects up to date and returns what changed since the last Commit: policies, address groups,
// applied-to groups and the set of enforcers each of them concerns.
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
// What is held, and what follows from it, step by step: entities, cells, groups, spans, deltas.
//
//   - world/world.go: a Namespace has by kind its entities by name and its cells. A cell is the
//     entities of one label set (each set held once), in a list in which each knows its place. An
//     entity points at its Member, the one value that all groups and receivers share, and its host.
//
//   - world/selection.go: a selection is what one selector selects, as a list of cells; each link is
//     in both lists, and knows where its other end is. Namespaces' labels are a level of their own: a
//     scope is the Namespaces of one namespaceSelector, however many selections have it.
//
//   - group.go: a group gives the cells of a selection a name and a role. It follows the selection,
//     and notes entities that may have come or gone since the last Commit (pending). It holds no list
//     of members.
//
//   - reach.go: a reach is the span of all policies with the same applied-to groups, as counts of
//     members by host, sorted by the hosts' numbers (package span). An address group with one reach
//     has its span.
//
//   - commit.go, changes.go: pending entities become members added and removed, these shift the
//     counts of hosts, hosts that come or go shift spans, and what has changed becomes the Changes.
//
// Beside this way stand groupdef.go, the Groups and ClusterGroups, policystate.go with uses.go, the
// policies and what each uses, fence.go and report.go. The Engine is made of one value for each of
// these, and each changes its own lists only.
//
// A policy has its computed rules, each of which is the names of its groups and its content; rules
// that say the same of other groups have the same content. Where the source of the policy is held
// anyway, only that is referred to. Policies and selections are found in tables (internal/table)
// that hold no keys: the text of a selection, from which its group is named, is made when it is
// compared. Before the first Commit all of this is made many at a time (package slab).
//
// What operations cost, besides maps:
//
//   - PutEntity with labels that its Namespace has: the groups that contain its cell, if its member
//     value changes. With a new label set: the selections of its Namespace and of its scopes that
//     name one of the labels (package selectors), or none by a single value.
//   - PutNamespace with other labels: the scopes that name one of them; for those that it enters or
//     leaves, its cells that their selections match.
//   - PutPolicy: nothing until Commit, which compiles its selectors. One that is in use already is
//     found by its text; another one is held against the cells that have one of its labels.
//   - Commit: what is pending, log of the hosts of a group for each member that changes its host,
//     and for each host that comes or goes the reaches and address groups that depend on the group.
//     A new group costs its members.
//   - Memory: 1.5 KB for a single change among 25,000 Namespaces with three policies each, with all
//     that receive it (TestSingleChangesAllocateLittle). What a Commit needs for itself is used
//     again (spares, Changes).
//
// Values passed to Put must not be modified afterwards. The Engine is not safe for concurrent use:
// one goroutine owns it. What it hands out (Delta, ComputedPolicy, Member) is shared with it and
// with other receivers, never changes and may be read from any goroutine.
package compute
