// Package enforcer is the client side of controlplane.antrea.io/v1beta2: it receives what was
// computed for one enforcer key, and reports the outcome. Nephele's cloud enforcer and its agents
// use it, against Nephele's own server or against an Antrea Controller.
//
// It owns the local copy of the computed objects (Mirror), the watches that keep it current
// (Client, or any other Source), and the reports that are under way (Reporter). It promises:
//
//   - The copy of a kind is complete or absent: the first events of a watch are collected until its
//     one bookmark, and then replace the former copy of that kind.
//   - A watch that violates the protocol is closed and restarted. Violations are a second bookmark,
//     an error, an unexpected event or object, and a patch of an unknown group. Nothing is ever
//     guessed.
//   - While a watch is missing, the last complete state of all kinds stays: kinds received at
//     different times could combine to a state that was never computed. So an unreachable server
//     deletes nothing.
//   - Watches of one kind start at least an interval apart, with back-off while they fail.
//   - A report is repeated until the server accepts it, and sent again after every complete resend,
//     because servers may keep reports in memory only. A newer report replaces an older one.
//
// All methods may be called from anywhere at any time, except that Mirror.Run and Reporter.Start
// may be called once. Objects that a Mirror hands out are shared and must not be modified; a Mirror
// never changes them either.
package enforcer
