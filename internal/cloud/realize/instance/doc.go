// Package instance makes sure that only one process writes to an account.
//
// It owns the marks of this process on the networks that the cluster claims, and the readings of
// other processes' marks. It promises that nothing is written to a region (Presence.May) unless the
// cluster lets this process write, its own mark was read back in time, and no other process moves a
// mark there. Package tenure decides that; this package reads, marks and waits. Of the processes of
// one cluster, either one leads, by a record that all read (package register), or all share the
// accounts (Shares).
//
// Concurrency: Presence.Run and Places.Run are the two loops, which the caller starts; everything
// else may be called at any time.
package instance
