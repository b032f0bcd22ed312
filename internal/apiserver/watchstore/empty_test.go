package watchstore

import (
	"sync"
	"testing"
)

// TestReadersOfAnEmptyStore: many may ask at once about objects of which there never was one. The
// race detector sees it if a question changes something.
func TestReadersOfAnEmptyStore(t *testing.T) {
	s := New(Options{})
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			if s.Concerns(NetworkPolicies, "uid", "key") || len(s.Attended("uid")) > 0 {
				t.Error("something is there")
			}
		})
	}
	asking.Wait()
}
