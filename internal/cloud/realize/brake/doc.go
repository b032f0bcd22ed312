// Package brake decides what is too large a change of an account to be made without a confirmation.
//
// It owns the changes that wait, the proposals, and which confirmation belongs to which proposal.
// It promises that no change below the account's bound waits, that changes of the last minutes
// count with the next one, and that a confirmation covers exactly the change that was shown, once.
// See docs/decisions/0014-brake.md.
//
// Concurrency: a Brake belongs to one goroutine. It does no I/O and reads no clock.
package brake
