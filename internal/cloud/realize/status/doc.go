// Package status tells the cluster what became of an account: which policies apply to each
// VirtualMachine, CloudNativeService and NetworkInterface and how far they are realized, the
// realization status of each policy, what the account, its selectors and its Vpcs say of it, and
// events for what a person must know.
//
// It owns status.policies, status.policySummary and the conditions of an Outcome on what policies
// apply to, and those conditions of an account, a selector or a Vpc that a Report leads to. It
// promises that the newest Report of each account is written whole however often that fails, that
// nothing is told twice, also after a restart, and that what somebody writes over is put right.
// What an object is to say is a value (Report.Outcome) that needs no client.
//
// Concurrency: Writer.Start owns the one goroutine that writes. Publish, Changed and Owes may be
// called at any time and do not block.
package status
