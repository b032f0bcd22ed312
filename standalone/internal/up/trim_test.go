package up

import (
	"runtime/debug"
	"testing"
)

// TestPercent: a process that waits keeps little memory, one that works has room, and what lives
// always has some.
func TestPercent(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		name  string
		live  uint64
		works bool
		want  int
	}{
		{"it waits", 180 * mb, false, 33},
		{"it works, and is small", 80 * mb, true, 300},
		{"it works, and is of some size", 180 * mb, true, 77},
		{"it works, and is large", 800 * mb, true, 40},
		{"it is large, and waits", 900 * mb, false, 33},
		{"nothing is known of it", 0, true, 32000},
	} {
		if got := percentOf(c.live, c.works); got != c.want {
			t.Errorf("%s: %d %%, want %d", c.name, got, c.want)
		}
	}
}

// TestLook: what is allocated at once, or little by little, is work; what comes seldom is not.
func TestLook(t *testing.T) {
	const mb = 1 << 20
	for name, c := range map[string]struct {
		each, of int
		works    bool
	}{
		"at once": {200 * mb, 1, true}, "little by little": {12 * mb, trimLooks, true}, "seldom": {60 * mb, 4, false},
	} {
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
		if works := h.look() != restPercent; works != c.works {
			t.Errorf("%s: at work: %v, want %v", name, works, c.works)
		}
	}
	sink = nil
	h := newHeap()
	for range trimLooks * 2 {
		h.look()
	}
	if len(h.allocated) != trimLooks {
		t.Errorf("%d looks are remembered, want %d", len(h.allocated), trimLooks)
	}
}

// sink keeps the compiler from leaving out allocations.
var sink []byte

// TestTrimHeap: the end takes back what was set.
func TestTrimHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(123)
	defer debug.SetGCPercent(before)
	end := trimHeap()
	if got := debug.SetGCPercent(restPercent); got != restPercent {
		t.Errorf("garbage is collected after %d %%, want %d", got, restPercent)
	}
	end()
	if got := debug.SetGCPercent(123); got != 123 {
		t.Errorf("garbage is collected after %d %% in the end, was 123", got)
	}
	t.Setenv("GOGC", "200")
	end = trimHeap()
	defer end()
	if got := debug.SetGCPercent(123); got != 123 {
		t.Errorf("garbage is collected after %d %% though the environment says otherwise", got)
	}
}
