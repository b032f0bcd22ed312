// Package historycmd is the command "nephele history": former versions of policies, their authors
// and outcomes, and the way back. Package history keeps the revisions; the command lists and
// compares them, plans with them and writes them again, with the rights of the caller.
//
// Concurrency: a command runs once, in one goroutine.
package historycmd
