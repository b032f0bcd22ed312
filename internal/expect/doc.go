// Package expect is policy tests: files that state which flows policies must allow or deny, and
// their results.
//
// It owns the kind PolicyTest, its validation, and the comparison of expected verdicts with what
// policies mean. It makes no sentences but about fields; the package that shows results does.
//
// Everything is pure: no I/O, no clock, no goroutines. Results are values that do not change.
package expect
