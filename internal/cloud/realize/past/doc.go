// Package past remembers former states of an account, to report what others have changed in it.
//
// It owns the last snapshots on which everything was as planned, and the former groups that
// interfaces had before they were taken over. It promises that a change by hand is reported as long
// as it lasts and not after it is undone, and that it detects a record of former groups that others
// change while this process runs. Nothing depends on it: after a restart, only the tags in the
// cloud and their signatures are left.
//
// Concurrency: a Past belongs to one goroutine. It does no I/O.
package past
