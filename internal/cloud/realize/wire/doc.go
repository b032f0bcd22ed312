// Package wire tells how long a step of a plan has to wait until packets see what it relies on.
//
// The order of a plan holds at the cloud's API; when interfaces obey what the cloud has accepted no
// cloud says. The package owns what each kind of operation does to traffic, and what was accepted
// lately. It promises that a step waits for what it relies on as long as the account's propagation
// says, and for nothing else.
//
// It does no I/O and reads no clock. A Wire may be used by several goroutines at a time.
package wire
