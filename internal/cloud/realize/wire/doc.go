// Package wire computes how long a step of a plan has to wait until packets see the earlier steps
// that it relies on.
//
// The order of a plan holds at the cloud's API, but no cloud says when interfaces obey a call that
// it has accepted. The package owns the effect of each kind of operation on traffic, and the
// operations accepted lately. It promises that a step waits for the operations that it relies on,
// for the account's propagation time, and for no others.
//
// It does no I/O and reads no clock. A Wire may be used by several goroutines at a time.
package wire
