// Package enforcer is the side of an enforcer in the protocol of controlplane.antrea.io/v1beta2: it
// receives what was computed for one enforcer key, and reports what became of it. Nephele's cloud
// enforcer uses it, and so may whoever else enforces, against Nephele's own server or against an
// Antrea Controller.
//
// It owns the local copy of the computed objects (Mirror), the watches that keep it current
// (Client, or any other Source), and the reports that are under way (Reporter). It promises:
//
//   - The copy of a kind is complete or not there at all: what a watch begins with is collected
//     until its one bookmark, and then takes the place of everything that was known of that kind.
//   - A watch that is out of step is given up and begun anew. Out of step are a second bookmark, an
//     error, an event or an object that the protocol does not have there, and a patch of a group
//     that is not known. Nothing is ever guessed.
//   - While a watch is missing, what was last to be enforced stays so, as a whole: kinds that were
//     received at different times would say what was never computed. An unreachable server
//     therefore deletes nothing.
//   - Watches of one kind are begun at least an interval apart, more and more rarely while they
//     fail.
//   - A report is repeated until the server has taken it, and sent again after every complete
//     resend, because servers may keep reports in memory only. A newer report takes the place of an
//     older one.
//
// All methods may be called from anywhere at any time, except that Mirror.Run and Reporter.Start
// may be called once. Objects that a Mirror hands out are shared and must not be modified; a Mirror
// never changes them either.
package enforcer
