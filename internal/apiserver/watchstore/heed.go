package watchstore

import (
	"context"
	"sync"
)

// heed lets the end of a context wake a receiver that waits for a channel of its own only. A select
// on ctx.Done would have all receivers with one context take turns at the lock of that channel,
// each time one of them falls asleep or wakes up.
type heed struct {
	mu    sync.Mutex
	ended bool
	// done is that of the context that is heeded; stop ends that.
	done <-chan struct{}
	stop func() bool
}

// to makes the end of ctx wake w, in place of the end of any other context. After end it does
// nothing and is false.
func (h *heed) to(ctx context.Context, w *Watcher) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	done := ctx.Done()
	if h.ended || done == h.done {
		return !h.ended
	}
	h.release()
	if h.done = done; done != nil {
		h.stop = context.AfterFunc(ctx, w.signal)
	}
	return true
}

// end heeds nothing any more.
func (h *heed) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	h.release()
}

func (h *heed) release() {
	if h.stop != nil {
		h.stop()
	}
	h.done, h.stop = nil, nil
}
