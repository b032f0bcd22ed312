// Package report describes what becomes of VMs and policies: statuses, refusals, drift, how far
// records are proven, and which interfaces are protected before and after.
//
// It owns these values and derives them from the states of interfaces (package guard), from the
// design of groups and from which objects a plan changes. It decides nothing. It is pure; its
// values may be read concurrently.
package report
