// Package live holds the connections that enforcers have reported within the last hour, and answers
// questions about them.
//
// It owns the reports, the history of which machine had which address, and what of both a caller
// may see. It promises:
//
//   - Memory is bounded. The oldest entries go first, and are counted. No enforcer pushes out what
//     the others have reported.
//   - An enforcer speaks only for its own addresses: a flow between two other machines gets no
//     names.
//   - A caller never learns the name of a machine or policy of a Namespace whose policies it may
//     not read, not even by asking for that name.
//
// All of it is soft state: a controller that takes over begins with nothing, and its answers say
// since when it has reports. Owners and Store may be used from several goroutines. Time is passed
// in.
package live
