package up

import (
	"runtime"
	"testing"
)

// TestWorthTrimming: memory is given back when the process is quiet and holds much that it does not
// use, and not while it works.
func TestWorthTrimming(t *testing.T) {
	const mb = 1 << 20
	// What lives is 200 MB, so the next collection is due at 300.
	for _, c := range []struct {
		name                                string
		allocated, inUse, idle, released, n uint64
		want                                bool
	}{
		{"it works", 2000 * mb, 290 * mb, 300 * mb, 0, 300 * mb, false},
		{"quiet after work", 100 * mb, 210 * mb, 150 * mb, 10 * mb, 300 * mb, true},
		{"quiet, and much was allocated since the last collection", 90 * mb, 290 * mb, 20 * mb, 10 * mb, 300 * mb, true},
		{"all given back", 50 * mb, 210 * mb, 150 * mb, 140 * mb, 300 * mb, false},
		{"less in use than what lived", 50 * mb, 150 * mb, 10 * mb, 0, 300 * mb, false},
	} {
		last := runtime.MemStats{TotalAlloc: 5000 * mb}
		now := runtime.MemStats{TotalAlloc: last.TotalAlloc + c.allocated, HeapAlloc: c.inUse, HeapIdle: c.idle, HeapReleased: c.released, NextGC: c.n}
		if got := worthTrimming(&last, &now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
