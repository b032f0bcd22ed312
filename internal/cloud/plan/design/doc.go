// Package design decides what a region shall look like: the classes of interfaces that share
// groups, the rules of these, and who is left as he is because it does not fit.
//
// It owns the packing into quotas, what is refused where there are too few groups, and the rules
// that stand beside those of others. It never looks at the route: of what was observed it reads
// native facts, what is in force, and groups to use again. What does not fit because of what the
// route holds back (guard.States.Restrict) waits, and nothing else changes.
//
// It is pure. One goroutine may use a Designer at a time.
package design
