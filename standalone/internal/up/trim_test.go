package up

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestLimit: a process that waits keeps little memory, one that works has room, and what lives
// always has some.
func TestLimit(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		name                     string
		live, besides, allocated uint64
		want                     int64
	}{
		{"it waits", 180 * mb, 40 * mb, 100 * mb, 280 * mb},
		{"it works, and is small", 180 * mb, 40 * mb, 2000 * mb, 400 * mb},
		{"it works, and is large", 800 * mb, 60 * mb, 2000 * mb, 1260 * mb},
		{"it is large, and waits", 900 * mb, 60 * mb, 0, 1260 * mb},
	} {
		if got := limit(c.live, c.besides, c.allocated); got != c.want {
			t.Errorf("%s: %d MB, want %d", c.name, got/mb, c.want/mb)
		}
	}
}

// TestTrimHeap: what the runtime says of itself leads to a limit above what lives, which the end
// takes back.
func TestTrimHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	held := make([]byte, 64<<20)
	runtime.GC()
	h := newHeap()
	if got := h.look(); got < int64(len(held)) || got > int64(len(held))*10 {
		t.Errorf("at rest with %d bytes held: a limit of %d", len(held), got)
	}
	for range trimLooks * 2 {
		h.look()
	}
	if len(h.allocated) != trimLooks {
		t.Errorf("%d looks are remembered, want %d", len(h.allocated), trimLooks)
	}
	trimHeap()()
	if after := debug.SetMemoryLimit(-1); after != before {
		t.Errorf("the limit is %d after the end, was %d", after, before)
	}
	runtime.KeepAlive(held)
}
