// Package traffic records the connections of a host or Node, each with the rule that decided it,
// and hands them to the controller.
//
// It owns the sums of a few seconds and the records that wait to be sent. It promises that a record
// names the rule that decided in the program of that moment, that a connection that passes against
// that program is marked, that memory is bounded, and that records that are left out are counted.
// The way of an event never waits: recording slows neither enforcement nor traffic.
//
// A Recorder may be used from several goroutines. Run sends, and ends with its context.
package traffic
