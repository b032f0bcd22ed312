// Package explain answers why a flow passes or not: which policy decides at each end, and which
// network ACLs, translations and load balancers are on the way.
//
// It owns the question, the answer and the meaning of objects outside of a running controller:
// Compute runs the engine over objects, and a Computation answers questions about them. The
// console, the served API and the commands use it alike. The answer is a value; the package that
// shows it makes the sentences.
//
// Everything is pure: no I/O, no clock, no goroutines. A Computation may be asked by many
// goroutines at once, as long as the objects do not change.
package explain
