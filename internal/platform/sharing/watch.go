package sharing

import (
	"slices"
	"time"
)

// watch is what one replica has seen of the seats.
type watch struct {
	lease time.Duration
	seats []Seat
	seen  map[string]sight
	// moved are the processes that were seen to renew a seat.
	moved map[string]bool
	// from is when the last reading began.
	from time.Time
}

// sight is what was seen of a seat.
type sight struct {
	epoch    string
	sequence uint64
	// since is when the first of the readings in a row that showed this had ended.
	since time.Time
}

// saw takes a reading of all seats.
func (w *watch) saw(from, to time.Time, seats []Seat) {
	next := map[string]sight{}
	if w.moved == nil {
		w.moved = map[string]bool{}
	}
	for _, s := range seats {
		old, known := w.seen[s.Name]
		now := sight{epoch: s.Epoch, sequence: s.Sequence, since: to}
		switch {
		case !known || old.epoch != s.Epoch:
		case old.sequence == s.Sequence:
			now = old
		case s.Epoch != "":
			w.moved[s.Epoch] = true
		}
		next[s.Name] = now
	}
	w.seats, w.seen, w.from = seats, next, from
}

// alive reports whether a process may still work from the seat.
func (w *watch) alive(s Seat) bool {
	return s.Epoch != "" && w.from.Sub(w.seen[s.Name].since) < w.lease
}

// living are the names of the seats with processes that may work, sorted.
func (w *watch) living() (names []string) {
	for _, s := range w.seats {
		if w.alive(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

// dead reports whether a process can have no trust in a seat any more. One whose answer was lost
// may have taken two.
func (w *watch) dead(epoch string) bool {
	return !slices.ContainsFunc(w.seats, func(s Seat) bool { return s.Epoch == epoch && w.alive(s) })
}

// proven reports whether the death of a process was seen from here: it moved in this very store,
// and then stood still. A store that was copied shows only the second.
func (w *watch) proven(epoch string) bool {
	return w.moved[epoch] && w.dead(epoch)
}

// free returns the seat to take: one that nobody sits on, else one whose process is dead.
func (w *watch) free() (Seat, bool) {
	for _, s := range w.seats {
		if s.Epoch == "" {
			return s, true
		}
	}
	for _, s := range w.seats {
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
func (w *watch) decide(seat, epoch string, t Table, held map[int]bool) decision {
	var d decision
	for i, want := range Assign(len(t.Shards), w.living()) {
		s := t.Shards[i]
		switch {
		case held[i]:
			if want != seat && want != "" {
				d.give = append(d.give, i)
			}
		case want == seat && (s.Holder == "" || s.Holder == epoch || w.dead(s.Holder)):
			d.take = append(d.take, i)
		}
	}
	return d
}
