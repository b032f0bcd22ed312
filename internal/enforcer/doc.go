// Package enforcer is the client side of controlplane.antrea.io/v1beta2: it receives what was
// computed for one enforcer key, and reports the outcome. Nephele's cloud enforcer and its agents
// use it, against Nephele's own server or against an Antrea Controller.
//
// It owns the local copy of the computed objects (Mirror), the watches that keep it current
// (Client, or any other Source), and the reports that are under way (Reporter). It promises:
//
//   - The copy of a kind is complete or absent: the first events of a watch are collected until its
//     one bookmark, and then replace everything that was known of that kind.
//   - A watch that breaks the protocol is closed and begun anew: by a second bookmark, an error, an
//     event or an object that the protocol does not have there, or a patch of an unknown group.
//     Nothing is ever guessed.
//   - While a watch is missing, the last complete state stays, of all kinds together: kinds that
//     were received at different times could add up to a state that was never computed. So an
//     unreachable server deletes nothing.
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
