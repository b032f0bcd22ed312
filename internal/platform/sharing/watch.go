package sharing

import (
	"slices"
	"time"
)

// watch is what one replica has seen of the seats.
type watch struct {
	lease time.Duration
	slots []Seat
	seen  map[string]visibility
	// moved are the processes that were seen to renew a seat.
	moved map[string]bool
	// gone says since when those that hold something, or sat, have not been seen to sit. A replica
	// that left in order, or was removed from its seat, has been gone for a lease.
	gone map[string]time.Time
	// from is when the last reading began, and to when it had ended.
	from, to time.Time
}

// visibility is what was seen of a seat.
type visibility struct {
	epoch    string
	sequence uint64
	// since is when the first of the readings in a row that showed this had ended.
	since time.Time
}

// saw takes a reading of all seats.
func (w *watch) saw(from, to time.Time, slots []Seat) {
	next, sits, past := map[string]visibility{}, map[string]bool{}, map[string]uint64{}
	if w.moved == nil {
		w.moved, w.gone = map[string]bool{}, map[string]time.Time{}
	}
	for _, s := range slots {
		sits[s.Epoch] = true
		for _, p := range s.Past {
			past[p.Epoch] = max(past[p.Epoch], p.Sequence)
		}
		old, known := w.seen[s.Name]
		now := visibility{epoch: s.Epoch, sequence: s.Sequence, since: to}
		switch {
		case !known || old.epoch != s.Epoch:
		case old.sequence == s.Sequence:
			now = old
		case s.Epoch != "":
			w.moved[s.Epoch] = true
		}
		next[s.Name] = now
	}
	for _, old := range w.seen {
		if old.epoch == "" || sits[old.epoch] {
			continue
		}
		since := to
		if last, left := past[old.epoch]; left && last >= old.sequence && to.Sub(w.from) < w.lease {
			// Had it taken another seat and lost that as well, it would hold nothing yet, or the
			// last reading had shown it there.
			since = to.Add(-w.lease)
		}
		if known, is := w.gone[old.epoch]; !is || since.Before(known) {
			w.gone[old.epoch] = since
		}
	}
	for epoch, since := range w.gone {
		// No one asks for it after that long.
		if sits[epoch] || to.Sub(since) > 3*w.lease {
			delete(w.gone, epoch)
		}
	}
	w.slots, w.seen, w.from, w.to = slots, next, from, to
}

// miss notes a process that holds something, if it does not sit.
func (w *watch) miss(epoch string) {
	if _, known := w.gone[epoch]; !known && epoch != "" && !slices.ContainsFunc(w.slots, func(s Seat) bool { return s.Epoch == epoch }) {
		w.gone[epoch] = w.to
	}
}

// alive reports whether a process may still work from the seat.
func (w *watch) alive(s Seat) bool {
	return s.Epoch != "" && w.from.Sub(w.seen[s.Name].since) < w.lease
}

// living are the names of the seats with processes that may work, sorted.
func (w *watch) living() (names []string) {
	for _, s := range w.slots {
		if w.alive(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

// dead reports whether a process can have no trust in a seat any more. One whose answer was lost
// may have taken two. One that does not sit may have lost its seat to a mishap and not know it, so
// it is dead when that has been so for a whole lease.
func (w *watch) dead(epoch string) bool {
	sits := false
	for _, s := range w.slots {
		if s.Epoch == epoch {
			if sits = true; w.alive(s) {
				return false
			}
		}
	}
	since, gone := w.gone[epoch]
	return sits || gone && w.from.Sub(since) >= w.lease
}

// proven reports whether the death of a process was seen from here: it moved in this very store,
// and then stood still. A store that was copied shows only the second.
func (w *watch) proven(epoch string) bool {
	return w.moved[epoch] && w.dead(epoch)
}

// free returns the seat to take: one that no one sits on, else one whose process is dead.
func (w *watch) free() (Seat, bool) {
	for _, s := range w.slots {
		if s.Epoch == "" {
			return s, true
		}
	}
	for _, s := range w.slots {
		if !w.alive(s) {
			return s, true
		}
	}
	return Seat{}, false
}

// decision is what to do about a table.
type decision struct {
	// take are shards to take; give are those that are held and that another living seat is to
	// have.
	take, give []int
}

// decide compares the table with what follows from the seats, for the process epoch on a seat. held
// are the shards that it holds by its own account, which is less than the table says after trust
// was lost.
func (w *watch) decide(slot, epoch string, t Table, kept map[int]bool) decision {
	var d decision
	for i, want := range Assign(len(t.Shards), w.living()) {
		s := t.Shards[i]
		w.miss(s.Holder)
		switch {
		case kept[i]:
			if want != slot && want != "" {
				d.give = append(d.give, i)
			}
		case want == slot && (s.Holder == "" || s.Holder == epoch || w.dead(s.Holder)):
			d.take = append(d.take, i)
		}
	}
	return d
}
