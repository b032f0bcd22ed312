// Package status writes into the cluster what became of an account: the policies of each
// VirtualMachine, CloudNativeService and NetworkInterface and how far they are realized, the
// realization status of each policy, conditions of the account, its selectors and its Vpcs, and
// events for what a person must know.
//
// The way of a status: package realize publishes a Report (Writer.Publish); Writer.Start takes the
// newest Report of each account; Report.Outcome, which needs no client, says what an object's
// status is to be; writeSubject compares that with the object and calls update, the one place that
// writes a status.
//
// It owns status.policies, status.policySummary and the conditions of an Outcome, and the
// conditions of an account, a selector or a Vpc that a Report leads to. Package inventory writes
// the rest. It promises that the newest Report of each account is written whole, however often a
// write fails; that no event is repeated, also after a restart; and that a status that was
// overwritten is put right.
//
// Concurrency: Writer.Start owns the one goroutine that writes. Publish and Changed may be called
// at any time and do not block.
package status
