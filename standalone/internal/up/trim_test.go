package up

import (
	"runtime/debug"
	"testing"
)

// TestPercent: a process that works has room, and what lives always has some.
func TestPercent(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		name       string
		live, room uint64
		want       int
	}{
		{"small", 92 * mb, 368 * mb, 300},
		{"of some size", 184 * mb, 368 * mb, 100},
		{"in a burst", 192 * mb, 288 * mb, 50},
		{"large", 800 * mb, 368 * mb, 50},
		{"nothing is known of it", 0, 368 * mb, 36800},
	} {
		if got := percentOf(c.live, c.room); got != c.want {
			t.Errorf("%s: %d %%, want %d", c.name, got, c.want)
		}
	}
}

// TestLook: what is allocated at once, or little by little, is work; what comes seldom is not.
func TestLook(t *testing.T) {
	const mb = 1 << 20
	for name, c := range map[string]struct {
		each, of int
		room     uint64
	}{
		"at once": {200 * mb, 1, burstBytes}, "little by little": {60 * mb, trimLooks, roomyBytes}, "seldom": {60 * mb, 4, 0},
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
		got, want := h.look(), restPercent
		if c.room > 0 {
			want = percentOf(h.samples[0].Value.Uint64(), c.room)
		}
		if got != want {
			t.Errorf("%s: garbage is collected after %d %%, want %d", name, got, want)
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
