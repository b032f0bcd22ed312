//go:build !race

package compute_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/nephele-io/nephele/internal/policy/policytest"
)

// mostAllocated is how many bytes a single change may allocate, from the informer's call to the
// last event received by the last subscriber.
const mostAllocated = 2000

// TestSingleChangesAllocateLittle: what a single change allocates, with all that receive it, is
// little, however much there is that it does not touch. Bytes are counted, which the load of the
// machine does not change.
func TestSingleChangesAllocateLittle(t *testing.T) {
	s := policytest.SmallNamespaces(2_500)
	objects, keys := decoded(s), keysOf(s)
	r := newRig(t, objects, keys)
	defer r.stop()
	r.run()
	r.synced.Wait()
	for _, c := range changes(s, objects) {
		t.Run(c.name, func(t *testing.T) {
			const warm, counted = 200, 600
			steps := make([]step, warm+counted)
			for i := range steps {
				steps[i] = c.step(i)
			}
			defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties pools
			for _, s := range steps[:warm] {
				r.change(s)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for _, s := range steps[warm:] {
				r.change(s)
			}
			runtime.ReadMemStats(&after)
			if each := (after.TotalAlloc - before.TotalAlloc) / counted; each > mostAllocated {
				t.Errorf("%d bytes a change, want at most %d", each, mostAllocated)
			} else {
				t.Logf("%d bytes a change", each)
			}
		})
	}
}
