// Package render makes of what was planned what people and programs read: the text of a plan, its
// document, and sentences about what a plan would do to VMs and about what waits for a
// confirmation.
//
// It owns the words. It promises to decide nothing: all that it says is in the values that it is
// given. It is pure; a Describer is used by one goroutine at a time, all else may be called
// concurrently.
package render
