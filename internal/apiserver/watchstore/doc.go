// Package watchstore holds the computed objects of controlplane.antrea.io (NetworkPolicy,
// AddressGroup, AppliedToGroup) in memory and lets enforcers watch the part that concerns them. It
// is what the aggregated API serves, and what enforcers in the same process read.
//
// A watch is for one kind and one enforcer key; the empty key stands for everything. It delivers
// every object that concerns the key as ADDED, then exactly one BOOKMARK, then changes. Policies
// are always whole; a changed group comes as the patch kind of its group, naming the members that
// came and went. An object that begins to concern the key is ADDED, one that ceases to is DELETED.
// A key sees only its own members of an applied-to group, and all members of an address group. A
// receiver that follows the stream always holds what List returns.
//
// Before the first Publish the store is closed: List fails, and a watch delivers nothing, not even
// its bookmark. So an enforcer never takes a controller that has just started for one that has no
// policies.
//
// A group whose members do not fit into one event (Options.MaxEventBytes) is ADDED with as many as
// fit; the others follow in patches, after the bookmark, and between them what else changes. So
// does a large patch.
//
// A watch keeps at most one pending change per object, so a slow receiver gets fewer, larger
// changes and costs no more memory than the objects that changed. A receiver that falls behind by
// more than Options.MaxPending objects is cut off and must watch anew. No receiver ever delays
// another one, or the writer. There are no goroutines.
//
// The store holds the members of a group in the engine's form. An event carries what its object is
// made from: the object is made when its receiver asks for it, in the receiver's scratch space
// (View) or to keep (Object). Policies and address groups are encoded once for all receivers, and
// made once for all if more than few keys are concerned. Watches that begin with the same list of
// them share a run, whose events are given to all of them. Of an applied-to group each receiver
// gets its own.
//
// Store is safe for concurrent use. A Watcher has one receiver; Stop may be called from anywhere.
// Objects that the store hands out are shared and must not be modified.
package watchstore
