// Package transition finds an order of operations from the observed state of a cloud to the wanted
// one, such that no flow leaks and none is cut on the way.
//
// It owns one question and one loop. The question is asked of every edit before it is taken: would
// it allow, at any moment, a flow that is allowed neither now nor in the end (a leak); would it cut
// one that is allowed both now and in the end (a gap); does it fit into the quotas? The loop takes
// any edit that leaks nothing, cuts nothing and fits, until none is left. Edits of one batch do not
// wait for one another, so each of them is checked in every state that the others of the batch may
// be in.
//
// Where no edit is clean, the violation chooses the remedy. A gap: interfaces join their new groups
// before all others move and leave the old ones after, or an extra rule exists while others move.
// No room: one rule is replaced by another in place. A leak between two interfaces, one of which
// must become narrower before the other becomes wider, is not resolved here: Survey.Conflicts
// reports it, and the caller first plans for a state in between. What remains is blocked, and is
// returned as a value.
//
// Everything is pure and derived from the two snapshots, so a plan that breaks off anywhere is
// continued from what is observed then. Nothing here knows policies, classes, tags or sentences.
package transition
