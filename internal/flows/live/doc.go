// Package live holds the connections that enforcers have reported within the last hour, and answers
// questions about them.
//
// It owns who had which address when, what was reported, and what of it a caller may see. It
// promises that memory is bounded; that the oldest goes first, and is counted; that no enforcer
// pushes out what the others have reported; that an enforcer speaks only for its own addresses:
// a flow between two other machines gets no names; and that a caller never learns the name of a
// machine or policy of a Namespace whose policies it may not read, nor by asking for that name.
//
// What it holds is soft state: a controller that takes over begins with nothing, and says since
// when it knows. Owners and Store may be used from several goroutines. Time is passed in.
package live
