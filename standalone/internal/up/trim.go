package up

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/nephele-io/nephele/internal/platform/program"
)

const (
	// trimPause is between two looks at the heap, trimLooks of which are remembered: a minute.
	trimPause = time.Second
	trimLooks = 60
	// busyBytes is what is allocated in the time remembered by a process that is at work. It is a
	// few times of what it allocates when nothing happens. One that allocates suddenBytes in
	// suddenLooks has begun to work.
	busyBytes   = 512 << 20
	suddenBytes = 96 << 20
	suddenLooks = 5
	// roomyBytes is how large the heap of a process at work may become, however little of it lives,
	// before garbage is collected.
	roomyBytes = 320 << 20
	// restPercent and workPercent are how much may come to what lives before that, at least.
	restPercent, workPercent = 33, 40
)

// trimHeap keeps the memory small that the process takes from the system. While it is at work, room
// saves collections: a small heap may become several times as large as what lives on it, a large
// one larger by two fifths. When it waits, which is mostly, a third is enough, and the rest is
// given back. Bounding all of the memory instead would not do: the gaps that work leaves between
// what lives would count, though they are what is filled next. With GOGC or GOMEMLIMIT in the
// environment nothing of all this is done. What is resident of the program itself is given back
// every minute. The returned function ends all that.
func trimHeap() func() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	debug.FreeOSMemory() // starting up has used much that is not kept
	program.GiveBack()
	former := debug.SetGCPercent(restPercent)
	ctx, end := context.WithCancel(context.Background())
	var trimming sync.WaitGroup
	trimming.Go(func() {
		ticks := time.NewTicker(trimPause)
		defer ticks.Stop()
		h := newHeap()
		for percent, looks := restPercent, 1; ; looks++ {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
			before := percent
			if percent = h.look(); percent != before {
				debug.SetGCPercent(percent)
			}
			if percent == restPercent && before != restPercent {
				debug.FreeOSMemory()
			}
			if looks%trimLooks == 0 {
				program.GiveBack()
			}
		}
	})
	return func() {
		end()
		trimming.Wait()
		debug.SetGCPercent(former)
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
	for _, name := range []string{"/gc/heap/live:bytes", "/gc/heap/allocs:bytes"} {
		h.samples = append(h.samples, metrics.Sample{Name: name})
	}
	return h
}

// look returns how much may come to what lives, in percent of it, until garbage is collected.
func (h *heap) look() int {
	metrics.Read(h.samples)
	live, allocated := h.samples[0].Value.Uint64(), h.samples[1].Value.Uint64()
	h.allocated = append(h.allocated, allocated)
	if len(h.allocated) > trimLooks {
		h.allocated = h.allocated[1:]
	}
	lately := allocated - h.allocated[max(0, len(h.allocated)-1-suddenLooks)]
	return percentOf(live, allocated-h.allocated[0] >= busyBytes || lately >= suddenBytes)
}

// percentOf is how much may come to that many bytes that live.
func percentOf(live uint64, works bool) int {
	switch {
	case !works:
		return restPercent
	case live >= roomyBytes:
		return workPercent
	}
	return max(workPercent, int((roomyBytes-live)*100/max(live, 1<<20)))
}
