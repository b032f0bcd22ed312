package intent

// Effort counts the work of one call of Compute, and ends what takes too much of it. A unit is
// about a microsecond; but work is counted, not timed, so that the same input always has the same
// result.
type Effort struct{ Spent, Most int }

// overspent is what the computation panics with if the effort becomes too much. It never leaves
// Compute.
type overspent struct{}

// Spend counts work, and ends the computation if it becomes too much.
func (e *Effort) Spend(units int) {
	if e.Spent += units; e.Spent > e.Most {
		panic(overspent{})
	}
}

// Within does something for which so much work is allowed. It reports whether that was enough.
func (e *Effort) Within(units int, do func()) (enough bool) {
	e.Most = e.Spent + units
	defer func() {
		if r := recover(); r != nil && r != any(overspent{}) {
			panic(r)
		}
	}()
	do()
	return true
}
