// Package traffic records the connections of a host or Node, each with the rule that decided it,
// and hands them to the controller.
//
// It owns the sums of a few seconds and what waits to be sent. It promises that a record names what
// decided by the program that was in force then, that connections which pass against that program
// are told as such, that memory is bounded, and that whatever is left out is counted. It never
// waits for anything on the way of an event: recording slows neither enforcement nor traffic.
//
// A Recorder may be used from several goroutines. Run sends, and ends with its context.
package traffic
