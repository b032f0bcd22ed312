// Package explain answers why a flow passes or not: which policy decides at each end, and what was
// passed on the way.
//
// It owns the question, the answer and what objects mean outside of a running controller: Compute
// runs the engine over objects, and a Computation answers questions about them. The console, the
// served API and the commands use it alike; the answer is a value, and who shows it makes the
// sentences.
//
// Everything is pure: no I/O, no clock, no goroutines. A Computation may be asked by many
// goroutines at once, as long as nobody changes the objects.
package explain
