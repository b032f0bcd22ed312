// Package expect is policy tests: files that state which flows policies are to allow and which not,
// and what becomes of them.
//
// It owns the kind PolicyTest, what is wrong with one, and the comparison of what it states with
// what policies mean. It makes no sentences beyond those about fields; who shows results does.
//
// Everything is pure: no I/O, no clock, no goroutines. Results are values that nobody changes.
package expect
