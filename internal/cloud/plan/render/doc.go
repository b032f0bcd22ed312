// Package render presents a plan to people and programs: the text of a plan, its document, and
// sentences about what it would do to VMs and about what waits for a confirmation.
//
// It owns the wording. It promises to decide nothing: everything that it says is in its arguments.
// It is pure; a Describer is used by one goroutine at a time, all else may be called concurrently.
package render
