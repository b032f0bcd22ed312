package realize

import (
	"maps"
	"slices"
)

// owed is what was changed since the account was read last.
type owed struct {
	// touched are the objects, by region; nil if that is not all.
	touched map[string][]string
}

// owe notes that these objects were changed, and nothing else; or, with nil, that anything may have
// been.
func (w *worker) owe(touched map[string][]string) {
	switch {
	case w.owed == nil:
		w.owed = &owed{maps.Clone(touched)}
	case w.owed.touched == nil:
	case touched == nil:
		w.owed.touched = nil
	default:
		for region, ids := range touched {
			w.owed.touched[region] = append(slices.Clip(w.owed.touched[region]), ids...)
		}
	}
}

// share publishes a reading, so that no other loop reads the same again.
func (w *worker) share(acct Account, seen observation) {
	if len(seen.unread) == 0 && w.r.Accounts.Observed(w.key, acct.Provider, seen.read) {
		w.owed = nil
		return
	}
	w.confess()
}

// confess says what was changed and has not been read since.
func (w *worker) confess() {
	o := w.owed
	w.owed = nil
	switch {
	case o == nil:
	case o.touched != nil:
		w.r.Accounts.Touched(w.key, o.touched)
	default:
		w.r.Accounts.Trigger(w.key)
	}
}
