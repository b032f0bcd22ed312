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
		name          string
		live, besides uint64
		works         bool
		want          int64
	}{
		{"it waits", 180 * mb, 40 * mb, false, 280 * mb},
		{"it works, and is small", 180 * mb, 40 * mb, true, 400 * mb},
		{"it works, and is large", 800 * mb, 60 * mb, true, 1260 * mb},
		{"it is large, and waits", 900 * mb, 60 * mb, false, 1260 * mb},
	} {
		if got := limit(c.live, c.besides, c.works); got != c.want {
			t.Errorf("%s: %d MB, want %d", c.name, got/mb, c.want/mb)
		}
	}
}

// TestWorks: what is allocated at once, or little by little, gives room; what comes seldom does not.
func TestWorks(t *testing.T) {
	const mb = 1 << 20
	for name, c := range map[string]struct {
		each, of int
		works    bool
	}{
		"at once": {200 * mb, 1, true}, "little by little": {60 * mb, trimLooks, true}, "seldom": {60 * mb, 4, false},
	} {
		sink = nil
		runtime.GC()
		h := newHeap()
		h.look()
		for n := range trimLooks - 1 {
			if n%(trimLooks/c.of) == 0 {
				sink = make([]byte, c.each)
			}
			h.look()
		}
		if c.of == 1 { // it is the last that counts
			sink = make([]byte, c.each)
		}
		small := h.look() < roomyBytes
		if small == c.works {
			t.Errorf("%s: at work: %v, want %v", name, !small, c.works)
		}
	}
	sink = nil
}

// sink keeps the compiler from leaving out allocations.
var sink []byte

// TestTrimHeap: what the runtime says of itself leads to a limit above what lives, which the end
// takes back.
func TestTrimHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	defer debug.SetGCPercent(percent)
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
	if after := debug.SetGCPercent(100); after != 100 {
		t.Errorf("the heap may grow by %d %% after the end, was 100", after)
	}
	runtime.KeepAlive(held)
}
