package world

import (
	"slices"
	"time"
)

// transition is a state change that the cloud makes by itself at a later time.
type transition struct {
	at   time.Time
	in   scope
	id   string
	from string // applied only if the object is still in this state
	to   string
}

// later registers a transition of an object from its present state.
func (w *World) later(now time.Time, in scope, id, from, to string) {
	t := transition{now.Add(w.transition), in, id, from, to}
	i, _ := slices.BinarySearchFunc(w.due, t, func(a, b transition) int {
		if a.at.After(b.at) {
			return 1
		}
		return -1
	})
	w.due = slices.Insert(w.due, i, t)
}

// settle makes the transitions that are due. The caller holds the write lock.
func (w *World) settle(now time.Time) {
	n := 0
	for n < len(w.due) && !w.due[n].at.After(now) {
		w.apply(w.due[n])
		n++
	}
	w.due = slices.Delete(w.due, 0, n)
}

func (w *World) apply(t transition) {
	d, ok := w.regions[t.in]
	if !ok {
		return
	}
	switch ResourceType(t.id) {
	case "vpc":
		if v := d.vpcs[t.id]; v != nil && v.State == t.from {
			v.State = t.to
		}
	case "subnet":
		if s := d.subnets[t.id]; s != nil && s.State == t.from {
			s.State = t.to
		}
	case "prefix-list":
		if p := d.prefixLists[t.id]; p != nil && p.State == t.from {
			p.State = t.to
		}
	case "instance":
		to, _ := ParseInstanceState(t.to)
		if i := d.instances[t.id]; i != nil && i.State.String() == t.from {
			i.State = to
		}
	}
}
