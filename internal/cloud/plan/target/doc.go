// Package target decides what a region shall look like: the classes of interfaces that share
// groups, the rules of these, and who is left as he is because it does not fit.
//
// It owns the forms of rules (by group, by membership group, by block of addresses), the packing
// into quotas, the allotment where there are too few groups, and what becomes of interfaces that
// depend on guarded ones. It never looks at the route: of what was observed it reads native facts,
// what is in force, and groups to use again. The one thing that the route tells it are the
// directions that are to be held at what is allowed both now and in the end (Restrict); what does
// not fit because of that waits, and nothing else changes.
//
// It is pure. One goroutine may use a Target at a time.
package target
