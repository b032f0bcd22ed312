// Package inventory is the loop that reads cloud accounts and keeps the objects that represent what
// is in them.
//
// It owns, per CloudProviderAccount: the provider made of the account's Secret, the last whole
// snapshot of each region, the VirtualMachine, Vpc, ExternalEntity and ExternalNode objects of the
// account, the inventory part of their status, and the status of the account and of the
// CloudEntitySelectors that name it. Package selection decides which objects there should be;
// package accountspec reads the account's spec. Objects carry the annotation
// selection.AnnotationAccount; objects without it are never changed or deleted.
//
// It promises:
//
//   - A region is read as a whole or not at all. A region that cannot be read keeps its last
//     snapshot and its objects, and the status of the account says how old they are.
//   - An object disappears only when its region was read and does not show the VM any more, when no
//     selector that the account admits selects it any more, or when the account is gone.
//   - A selector that the account does not admit has no effect, and neither has a mode or
//     break-glass of a namespace without a say. Their status says so.
//   - The user's spec.tags of a VirtualMachine stay.
//   - The API and the clouds are the only memory: after a restart, the first observation continues
//     where the last one ended.
//
// An account is deleted in two steps. It keeps the finalizer Finalizer while the Releaser (the loop
// that edits the cloud) gives back what it holds. Until then the account is still observed,
// Deleting reports true, and its provider and snapshots stay available. A Secret that is deleted
// together with its account, as with their namespace, is remembered for that long. A region that is
// removed from an account goes the same way by itself: it has no objects, but is observed until no
// group of the account is left in it. If a user removes the finalizer by hand, security groups are
// left behind in the cloud.
//
// Events are hints. If an account names queues, Start listens to them, reads the objects that they
// name again at once and puts them into the last snapshot. The whole observation at the poll
// interval stays authoritative, and is the only source without events or while a queue fails. While
// events of our own calls arrive, the poll may wait for a bounded time.
//
// # When polls rest
//
// Reading an account of 2,000 VMs whole takes seven calls and 70 MB of garbage, every minute.
// Events may be late or lost, and a quiet cloud looks the same as a broken queue. Our own calls are
// the probe: an event of one proves that events of the region come, and the mark of the instance
// (decision 0012) makes one every 13 seconds. A poll waits while such a call is younger than the
// interval, up to five intervals and five minutes; when it is older, the region is read at once. A
// region does not rest where anything changes without an event: services, their interfaces,
// interfaces without a VM, shared networks, peerings and prefix lists of other accounts. If Nephele
// comes to depend on another kind of change, its event must be added to kindsOfCall, or polls may
// not rest.
//
// A change whose own event is lost while ours come is found four minutes later, and an attacker
// with rights on rule or queue can arrange that. Not chosen: a longer interval, which would be as
// long when events fail; resting while the queue can be read, which mistakes a deleted rule for a
// quiet cloud; never polling, with which a lost event is never repaired.
//
// # Cost and concurrency
//
// Unchanged objects cost nothing. A snapshot equal to the last one keeps its parts and wakes no
// one; objects that are as they were written are neither computed nor compared; a changed VM is
// computed and written alone. A snapshot that the realizer has read with the account's provider
// replaces a reading of this loop (Observed).
//
// Concurrency: all exported methods may be called from any goroutine. Reconcile runs for one
// account at a time and for several accounts beside one another; it starts goroutines for the
// regions of one poll, which it awaits, and one per account with queues, which Start awaits.
// Snapshots and maps that are handed out are never changed afterwards.
package inventory
