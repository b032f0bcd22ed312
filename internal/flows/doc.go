// Package flows holds observed traffic: records of flow logs, the connections that they belong to,
// and sums of these.
//
// It owns what a record is, which end of a connection began it, and how records become rows. It
// promises that no record is lost in silence: records that are left out are counted, with the
// reason. It knows no cloud and no policy: readers of flow logs make records
// (internal/cloud/aws/flowlog), and internal/flows/judge finds the policy that decided.
//
// Everything is pure: no I/O, no clock, no goroutines. A Summer belongs to one goroutine.
package flows
