// Package instance makes sure that one process writes to an account.
//
// It owns the marks of this process on the networks that the cluster claims, and what is known of
// the marks of others. It promises that nothing is written to a region (Presence.May) unless the
// cluster lets this process write, its own mark stands and was read back in time, and nobody else's
// mark moves; package tenure decides that, and this package reads, marks and waits. Among the
// processes of one cluster, either one leads, by a record that all read (package register), or they
// share the accounts out (Shares).
//
// Concurrency: Presence.Run and Places.Run are the two loops, which the caller starts; everything
// else may be called at any time.
package instance
