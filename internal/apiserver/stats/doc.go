// Package stats adds up what enforcers count, per policy and per rule, for the API group
// stats.antrea.io. It also keeps the last reports of Nodes about multicast and latency.
//
// An enforcer reports what it has counted since its last report, so every report counts once. A
// policy, identified by its uid, has counters from Begin to End. Ignored are reports about any
// other policy, about a policy that does not concern the enforcer, and reports in which a counter
// goes backwards. A count for a rule that the policy does not have is added to the policy only.
// Sums stop at the largest number that fits. Counts of other clusters of a set are added, each for
// its own part only. Multicast and latency are whole states: a report replaces the one before.
//
// Everything is in memory and begins anew with the process. It does no I/O; the clock is given.
//
// A Book is safe for concurrent use. What it returns belongs to the caller.
package stats
