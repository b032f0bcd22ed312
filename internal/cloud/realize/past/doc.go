// Package past remembers former states of an account, to report what others have changed in it.
//
// It owns the last snapshots on which everything was as planned, and the former groups that
// interfaces had before they were taken over. It promises that a change by hand is reported as long
// as it lasts and not again once it is undone, and that a record of former groups that others
// change while this process runs is known to be false. Nothing depends on it: after a restart there
// are only the tags in the cloud and their signatures.
//
// Concurrency: a Past belongs to one goroutine. It does no I/O.
package past
