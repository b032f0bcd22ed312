package azure

import (
	"context"
	"sync"
)

// turns gives one caller at a time the turn at an object. The zero value has none.
type turns struct {
	mu    sync.Mutex
	taken map[string]chan struct{}
}

// take waits for the turn at an object. The function that it returns gives it back.
func (t *turns) take(ctx context.Context, id string) (func(), error) {
	for {
		t.mu.Lock()
		if t.taken == nil {
			t.taken = map[string]chan struct{}{}
		}
		ahead := t.taken[id]
		if ahead == nil {
			done := make(chan struct{})
			t.taken[id] = done
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				delete(t.taken, id)
				close(done)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-ahead:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
