// Package past keeps in mind how an account was, to tell what somebody else has changed in it.
//
// It owns the last snapshots on which all was as planned, and what interfaces had before they were
// taken over. It promises that what was changed by hand is told for as long as it lasts and not
// again when it is undone, and that a record of former groups that somebody changes while we run is
// known to be false. All of it is a convenience: after a restart the cloud's tags and their
// signatures are all there is.
//
// Concurrency: a Past belongs to one goroutine. It does no I/O.
package past
