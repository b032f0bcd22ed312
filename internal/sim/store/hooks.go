package store

import (
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// OnTransition adds a hook that sees every change that the cloud makes by itself, such as the end
// of an instance's start, in the order in which they are made. The hook runs while the Store is
// locked: it must not call the Store. The returned function removes it.
func (w *Store) OnTransition(f func(aws.Transition)) (remove func()) {
	w.state.Lock()
	defer w.state.Unlock()
	w.nextHook++
	id := w.nextHook
	w.turns = append(w.turns, turnHook{id, f})
	return func() {
		w.state.Lock()
		defer w.state.Unlock()
		for i := range w.turns {
			if w.turns[i].id == id {
				w.turns = append(w.turns[:i:i], w.turns[i+1:]...)
				return
			}
		}
	}
}

// Settle makes the transitions that are due by now; every other call does so too.
func (w *Store) Settle() { w.read(func(time.Time) {}) }

type turnHook struct {
	id int
	f  func(aws.Transition)
}
