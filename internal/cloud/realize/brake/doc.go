// Package brake decides what is too large a change of an account to be made without a confirmation.
//
// It owns what waits, what was proposed, and which confirmation is about what. It promises that
// nothing waits below the account's bound, that what was done lately counts with what comes, that a
// confirmation covers the change that was shown and nothing that came later, and that it serves
// once. See docs/decisions/0014-brake.md.
//
// Concurrency: a Brake belongs to one goroutine. It does no I/O and reads no clock.
package brake
