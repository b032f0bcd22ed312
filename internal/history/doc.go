// Package history keeps former versions of policies, groups and tiers: one revision, an object of
// nephele.io, for each change, with its author as far as that is known, and its outcome.
//
// It owns the revisions: nothing else writes them, and it never acts on one. The controller's
// informers report objects to it, admission reports authors, and the record of changes reports
// calls. None of them waits for it. It retries a revision that it cannot write, within a bound of
// memory.
//
// A change becomes a revision if the content differs from that of the last revision of the same
// object (by UID), so neither a restart nor a new watch makes one. Fast changes are merged: there
// is a rate limit for each object and one for all objects. Revisions are limited per object, in
// number and in bytes. Beyond a limit, the oldest revisions of the namespace with the most
// revisions go first, so no namespace pushes out the history of another.
//
// Concurrency: the methods of a Recorder may be called from any number of goroutines; one
// goroutine, that of Start, writes.
package history
