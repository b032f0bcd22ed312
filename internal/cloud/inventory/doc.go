// Package inventory is the loop that reads cloud accounts and keeps the objects that stand for what
// is in them.
//
// It owns, per CloudProviderAccount: the provider made of the account's Secret, the last whole
// snapshot of each region, the VirtualMachine, Vpc, ExternalEntity and ExternalNode objects of the
// account, the inventory part of their status, and the status of the account and of the
// CloudEntitySelectors that name it. What there should be, package selection decides; package
// accountspec reads what the account says. Objects carry the annotation
// selection.AnnotationAccount; what does not carry it is never changed or deleted.
//
// It promises: a region is known as a whole or not at all. A region that cannot be read keeps its
// last snapshot and its objects, and the status of the account says how old they are. Objects
// disappear only when the region was read and does not show the VM any more, when no selector
// selects it any more that the account lets select, or when the account is gone. Neither a selector
// that the account does not grant anything, nor a mode or break-glass of a namespace that has no
// say, has any effect but to be told so. What a user puts into spec.tags of a VirtualMachine stays.
// Nothing but the API and the clouds is remembered: after a restart the first observation picks up
// where the last one ended.
//
// An account is deleted in two steps: it keeps the finalizer Finalizer while the Releaser (the loop
// that edits the cloud) gives back what it holds; until then the account is still observed,
// Deleting reports true, and its provider and snapshots stay available. A Secret that goes together
// with its account, as with their namespace, is remembered for that long. A region that is removed
// from an account goes the same way by itself: without objects, but observed until no group of the
// account is left in it. Whoever removes the finalizer by hand leaves security groups behind in the
// cloud.
//
// Events are hints. Where an account names queues, Start listens to them, and what they name is
// read again at once and put into the last snapshot; the whole observation at the poll interval
// stays the truth. Without events, or while a queue fails, that is all there is. While our own
// calls are seen to come back as events it may wait, for a bounded time.
//
// What has not changed costs nothing: a snapshot that shows the same as the last keeps its parts
// and is no news, objects that are as they were left are neither computed nor compared, and a
// changed VM is computed and written alone. What somebody else has read with the account's provider
// takes the place of a reading (Observed).
//
// Concurrency: all exported methods may be called from any goroutine. Reconcile runs for one
// account at a time and for several accounts beside one another; it starts goroutines for the
// regions of one poll, which it awaits, and one per account with queues, which Start awaits.
// Snapshots and maps that are handed out are never changed afterwards.
package inventory
