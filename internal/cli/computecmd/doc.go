// Package computecmd is the command "nephele policy compute": policies from manifests, as enforcers
// receive them, in a form for comparison. It is the one place that knows this form.
//
// Concurrency: a command runs once, in one goroutine.
package computecmd
