// Package history keeps former versions of policies, groups and tiers: one revision, an object of
// nephele.io, for each change, with its author as far as that is known, and its outcome.
//
// It owns the revisions: nothing else writes them, and it never acts on one. The controller's
// informers report objects to it, admission reports authors, and the record of changes reports
// calls. None of these waits for it. A revision that it cannot write it tries again, within a bound
// of memory.
//
// A change becomes a revision if the content differs from that of the last revision of the same
// object (by UID), so neither a restart nor a new watch makes one. Fast changes are merged: each
// object, and all of them together, have a rate. Revisions are bounded by object, in number and in
// bytes. Beyond a bound, the oldest of the namespace with the most go first, so that no namespace
// pushes out the history of another.
//
// Concurrency: the methods of a Recorder may be called from any number of goroutines; one
// goroutine, that of Start, writes.
package history
