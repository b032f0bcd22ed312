// Package program gives back to the system what is resident of the running program's own file.
//
// It owns nothing and promises that what is given back is read again, unchanged, when it is needed:
// only pages that no code has written to are given back. It may be called by any goroutine at any
// time.
package program
