// Package program releases the resident memory pages of the running program's own file.
//
// It owns nothing. It promises that the system reads a released page again, unchanged, when it is
// needed: only pages that no code has written to are released. Any goroutine may call it at any
// time.
package program
