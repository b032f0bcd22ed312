package up

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// trimPause is between two looks at the heap, trimLooks of which are remembered.
	trimPause = 5 * time.Second
	trimLooks = 12
	// busyBytes is what is allocated in the time remembered, a minute, by a process that is at
	// work. It is a few times of what it allocates when nothing happens.
	busyBytes = 512 << 20
	// roomyBytes is what the heap and all that belongs to it may take while the process is at work,
	// however little of it lives.
	roomyBytes = 400 << 20
)

// trimHeap keeps the memory small that the process takes from the system. While it is at work, the
// heap may become twice as large as what lives on it as long as it is small, and half as large
// again when it is large: room saves collections. When it waits, which is mostly, a third is
// enough, and the rest is given back. GOGC or GOMEMLIMIT in the environment takes precedence. The
// returned function ends all that.
func trimHeap() func() {
	debug.FreeOSMemory() // starting up has used much that is not kept
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	former := debug.SetMemoryLimit(-1)
	ctx, end := context.WithCancel(context.Background())
	var trimming sync.WaitGroup
	trimming.Go(func() {
		ticks := time.NewTicker(trimPause)
		defer ticks.Stop()
		h := newHeap()
		for {
			debug.SetMemoryLimit(h.look())
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
		}
	})
	return func() {
		end()
		trimming.Wait()
		debug.SetMemoryLimit(former)
	}
}

// heap follows what the process does with memory.
type heap struct {
	samples []metrics.Sample
	// allocated is what was allocated since the start, at the last looks.
	allocated []uint64
}

func newHeap() *heap {
	h := &heap{}
	for _, name := range []string{
		"/gc/heap/live:bytes", "/gc/heap/allocs:bytes", "/memory/classes/total:bytes", "/memory/classes/heap/objects:bytes",
		"/memory/classes/heap/free:bytes", "/memory/classes/heap/released:bytes",
	} {
		h.samples = append(h.samples, metrics.Sample{Name: name})
	}
	return h
}

// look returns what the runtime may take from now on.
func (h *heap) look() int64 {
	metrics.Read(h.samples)
	at := func(i int) uint64 { return h.samples[i].Value.Uint64() }
	h.allocated = append(h.allocated, at(1))
	if len(h.allocated) > trimLooks {
		h.allocated = h.allocated[1:]
	}
	return limit(at(0), at(2)-at(3)-at(4)-at(5), at(1)-h.allocated[0])
}

// limit is what the runtime may take where that much lives on the heap, is taken besides objects
// (stacks, gaps, notes of the runtime), and was allocated of late, all in bytes.
func limit(live, besides, allocated uint64) int64 {
	if allocated < busyBytes {
		return int64(besides + live*4/3)
	}
	return int64(max(roomyBytes, besides+live*3/2))
}
