package turns

import (
	"context"
	"testing"
)

// TestTurns: one user has one turn at a time, a user that may see everything has one that is kept,
// and the longest wait comes first.
func TestTurns(t *testing.T) {
	turns := New(2, 1)
	take := func(who string, wide bool) func() {
		t.Helper()
		leave, ok := turns.Take(t.Context(), who, wide)
		if !ok {
			t.Fatalf("%s has no turn", who)
		}
		return leave
	}
	waits := func(who string, wide bool) {
		t.Helper()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if leave, ok := turns.Take(gone, who, wide); ok {
			leave()
			t.Errorf("%s does not wait", who)
		}
	}
	a := take("a", false)
	waits("a", false) // though there is another turn
	waits("a", true)
	b := take("b", false)
	waits("c", false)
	admin := take("admin", true)
	waits("admin", true)
	waits("other admin", true)
	// Two wait, and come in order.
	begun := make(chan string, 2)
	first, second := make(chan func(), 1), make(chan func(), 1)
	queue := func(who string, into chan func()) {
		turns.mu.Lock()
		before := len(turns.waiting)
		turns.mu.Unlock()
		go func() {
			leave, _ := turns.Take(t.Context(), who, false)
			begun <- who
			into <- leave
		}()
		for {
			turns.mu.Lock()
			n := len(turns.waiting)
			turns.mu.Unlock()
			if n > before {
				return
			}
		}
	}
	queue("c", first)
	queue("d", second)
	admin() // what is kept is not for them
	waits("e", false)
	a()
	if who := <-begun; who != "c" {
		t.Errorf("%s came first", who)
	}
	b()
	if who := <-begun; who != "d" {
		t.Errorf("%s came second", who)
	}
	(<-first)()
	(<-second)()
	if turns.open != 2 || turns.kept != 1 || len(turns.working)+len(turns.waiting) != 0 {
		t.Errorf("left: %+v", turns)
	}
}
