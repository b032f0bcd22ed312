// Package stats adds up what enforcers count, per policy and per rule, and keeps what Nodes say
// last about multicast and latency, for the API group stats.antrea.io.
//
// Enforcers report what they have counted since their last report, so every report counts once. A
// policy has counters exactly as long as it exists: from Begin to End, identified by its uid. A
// report about any other policy is passed over, as is one about a policy that does not concern the
// enforcer, and what no honest counter does: to go backwards. What is reported of a rule that the
// policy does not have counts for the policy only. Sums stop at the largest number there is.
// What other clusters of a set have counted is added to that, each no more than its own part.
// Multicast and latency are whole states: a report takes the place of the one before.
//
// Everything is in memory and begins anew with the process. It does no I/O; the clock is given.
//
// A Book is safe for concurrent use. What it hands out is the caller's own.
package stats
