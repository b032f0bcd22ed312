// Package historycmd is the command "nephele history": what policies were, who changed them, what
// became of it, and the way back. What is kept, package history says; here it is listed, compared,
// planned with and written again, with the rights of the caller.
//
// Concurrency: a command runs once, in one goroutine.
package historycmd
