// Package design decides the wanted state of a region: the classes of interfaces that share groups,
// the rules of these groups, and the interfaces that stay as they are because their rules do not
// fit.
//
// It owns the packing into quotas, the refusals where there are too few groups, and the rules that
// we add to other owners' groups. It never looks at the order of changes: from the observation it
// reads native facts, what is in force, and groups to reuse. If rules do not fit because directions
// are held back during a change (guard.States.Restrict), their interfaces wait, and nothing else
// changes.
//
// It is pure. One goroutine may use a Designer at a time.
package design
