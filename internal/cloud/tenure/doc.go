// Package tenure decides whether this instance of the controller is the only one that may write to
// an account.
//
// Two instances have the same cluster id when a data directory was copied, or a backup of a cluster
// restored beside it. Claims cannot distinguish them. So every process has an epoch, and each
// network that it claims carries a Mark: its epoch and a sequence that rises as long as it lives.
// In the cluster itself a Record names the instances that led it, and their last sequences. A mark
// that this record does not explain belongs to another instance.
//
// A Tenure is one account's answer, made from readings of the marks; a Candidacy answers for the
// cluster's own record. Both promise that of several instances none writes beside another one for
// longer than a heartbeat, whatever is killed, delayed or lost, if two things hold: a write is seen
// by others within Rules.Pause, and the clocks by which intervals are measured run at about the
// same speed. The time of day does not matter; a time of one machine is never compared with a time
// of another.
//
// The package is pure: no I/O, no clock, no goroutine. Its types are not safe for concurrent use.
package tenure
