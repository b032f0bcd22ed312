package up

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// trimPause is between two looks at the heap, and quietBytes is what may be allocated in it at
	// most for the process to count as quiet: a few times of what it does when nothing happens.
	trimPause  = time.Minute
	quietBytes = 256 << 20
	// trimBytes is what has to be gained at least.
	trimBytes = 48 << 20
)

// trimHeap gives back what starting up has used beyond what is kept, which is more than half, and
// lets the heap grow by half of that only: memory is scarcer than time in a process that mostly
// waits. GOGC in the environment takes precedence. Whenever the process is quiet again after it was
// not, it gives back what it has used. The returned function ends all that.
func trimHeap() func() {
	restore := func() {}
	if os.Getenv("GOGC") == "" {
		former := debug.SetGCPercent(50)
		restore = func() { debug.SetGCPercent(former) }
	}
	debug.FreeOSMemory()
	ctx, end := context.WithCancel(context.Background())
	var trimming sync.WaitGroup
	trimming.Go(func() {
		ticks := time.NewTicker(trimPause)
		defer ticks.Stop()
		var last runtime.MemStats
		runtime.ReadMemStats(&last)
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			if worthTrimming(&last, &now) {
				debug.FreeOSMemory()
			}
			last = now
		}
	})
	return func() {
		end()
		trimming.Wait()
		restore()
	}
}

// worthTrimming reports whether little was allocated between two looks, and much memory is held
// that is not in use: spans that are free, and what was allocated since the last collection.
func worthTrimming(last, now *runtime.MemStats) bool {
	free := now.HeapIdle - now.HeapReleased
	grown := now.HeapAlloc - min(now.HeapAlloc, now.NextGC*2/3)
	return now.TotalAlloc-last.TotalAlloc < quietBytes && free+grown > trimBytes
}
