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
	// work. It is a few times of what it allocates when nothing happens. One that allocates
	// suddenBytes between two looks has begun to work.
	busyBytes   = 512 << 20
	suddenBytes = 128 << 20
	// roomyBytes is what the heap and all that belongs to it may take while the process is at work,
	// however little of it lives.
	roomyBytes = 400 << 20
)

// trimHeap keeps the memory small that the process takes from the system. A limit alone says when
// garbage is collected, and not how much has come since the last time: room saves collections. The
// heap of a process at work may grow to that limit, or to half as much again as what lives when
// that is large. When it waits, which is mostly, a third is enough, and the rest is given back.
// GOGC or GOMEMLIMIT in the environment takes precedence. The returned function ends all that.
func trimHeap() func() {
	debug.FreeOSMemory() // starting up has used much that is not kept
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	h := newHeap()
	formerLimit, formerPercent := debug.SetMemoryLimit(h.look()), debug.SetGCPercent(-1)
	ctx, end := context.WithCancel(context.Background())
	var trimming sync.WaitGroup
	trimming.Go(func() {
		ticks := time.NewTicker(trimPause)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				debug.SetMemoryLimit(h.look())
			}
		}
	})
	return func() {
		end()
		trimming.Wait()
		debug.SetGCPercent(formerPercent)
		debug.SetMemoryLimit(formerLimit)
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
	lately := at(1) - h.allocated[max(0, len(h.allocated)-2)]
	return limit(at(0), at(2)-at(3)-at(4)-at(5), at(1)-h.allocated[0] >= busyBytes || lately >= suddenBytes)
}

// limit is what the runtime may take where that much lives on the heap and is taken besides objects
// (stacks, gaps, notes of the runtime), in bytes.
func limit(live, besides uint64, works bool) int64 {
	if !works {
		return int64(besides + live*4/3)
	}
	return int64(max(roomyBytes, besides+live*3/2))
}
