// Package turns decides which caller may work next. A bounded number of callers work at the same
// time, each once, and one turn is reserved for callers with wide rights, so that others cannot
// keep them waiting. The caller that has waited longest comes first.
//
// Turns is safe for concurrent use.
package turns

import (
	"context"
	"slices"
	"sync"
)

// Turns are the turns of some callers.
type Turns struct {
	mu sync.Mutex
	// open and kept are how many turns are free, the latter for callers with wide rights.
	open, kept int
	// working are the users whose reviews are worked on.
	working map[string]bool
	waiting []*waiter
}

// waiter is a caller that waits for a turn. Begin is closed when it has come.
type waiter struct {
	who   string
	wide  bool
	begin chan struct{}
	// fromKept tells that it is the kept one.
	fromKept bool
}

// New returns Turns for so many callers at the same time, and kept ones more with wide rights.
func New(open, kept int) *Turns {
	return &Turns{open: open, kept: kept, working: map[string]bool{}}
}

// Take waits for a turn, and returns what ends it; false if the context ends first.
func (t *Turns) Take(ctx context.Context, who string, wide bool) (leave func(), ok bool) {
	w := &waiter{who: who, wide: wide, begin: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.advance()
	t.mu.Unlock()
	select {
	case <-w.begin:
	case <-ctx.Done():
		t.mu.Lock()
		i := slices.Index(t.waiting, w)
		if i >= 0 {
			t.waiting = slices.Delete(t.waiting, i, i+1)
		}
		t.mu.Unlock()
		if i >= 0 {
			return nil, false
		}
	}
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.working, w.who)
		if w.fromKept {
			t.kept++
		} else {
			t.open++
		}
		t.advance()
	}), true
}

// advance begins what can begin. The caller holds the lock.
func (t *Turns) advance() {
	t.waiting = slices.DeleteFunc(t.waiting, func(w *waiter) bool {
		switch {
		case t.working[w.who]:
			return false
		case t.open > 0:
			t.open--
		case w.wide && t.kept > 0:
			t.kept--
			w.fromKept = true
		default:
			return false
		}
		t.working[w.who] = true
		close(w.begin)
		return true
	})
}
