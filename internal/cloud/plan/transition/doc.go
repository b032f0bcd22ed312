// Package transition finds an order of operations that leads a cloud from what was observed to what
// is wanted, such that nothing leaks and nobody is cut off on the way.
//
// It owns one question and one loop. The question is asked of every edit before it is taken: would
// a flow be allowed, at any moment of it, that is allowed neither now nor in the end (a leak);
// would one be cut that is allowed both now and in the end (a gap); is there room? The loop takes
// any edit to which the answers are no, until nothing is left. Edits of one batch do not wait for
// one another, so each of them is asked about in every state that the others of the batch may be
// in.
//
// Where no edit is clean, the violation chooses the remedy. A gap: interfaces join their new groups
// before everybody else and leave the old ones after, or a rule is there as long as others move. No
// room: one
// rule is turned into another in place. A leak between two interfaces, one of which must become
// narrower before the other becomes wider, is not met here: it is told by Survey.Conflicts, and who
// asks aims at a state in between first. What remains is blocked, and is returned as a value.
//
// Everything is pure and derived from the two snapshots, so a plan that breaks off anywhere is
// continued from what is observed then. Nothing here knows policies, classes, tags or sentences.
package transition
