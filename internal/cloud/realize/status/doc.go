// Package status writes the outcome of an account into the cluster: how far the policies of each
// VirtualMachine, CloudNativeService and NetworkInterface are realized, the realization status of
// each policy, conditions of the account, its selectors and its Vpcs, and events that need a
// person.
//
// The way of a status: package realize publishes a Report (Writer.Publish); Writer.Start takes the
// newest Report of each account; Report.Outcome, which needs no client, says what an object's
// status is to be; writeSubject compares that with the object and calls update, the one place that
// writes a status.
//
// It owns status.policies, status.policySummary and the conditions of an Outcome, and the
// conditions of an account, a selector or a Vpc that a Report leads to. Package inventory writes
// the rest. It promises that the newest Report of each account is written whole, however often a
// write fails; that no event is repeated, also after a restart; and that a status that something
// else has overwritten is written again.
//
// Concurrency: Writer.Start owns the one goroutine that writes. Publish and Changed may be called
// at any time and do not block.
package status
