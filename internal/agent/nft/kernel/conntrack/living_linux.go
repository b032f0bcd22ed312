package conntrack

import (
	"errors"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
)

const (
	// mostLiving bounds the connections of which it is known that their beginning was told. Each
	// takes about 40 bytes.
	mostLiving = 1 << 19
	// resyncPause is how long after the table of connections was read it is not read again.
	resyncPause = 10 * time.Second
)

// living are the connections of which the beginning was told and the end was not. When the kernel
// drops events, its table of connections tells which have begun meanwhile: those that are there and
// not among these. Of those that began and ended meanwhile nothing is known.
type living struct {
	seed maphash.Seed

	mu sync.Mutex
	// told are the connections, by their tuples, each with the reading of the table before which it
	// was seen last.
	told    map[uint64]uint32
	reading uint32
	// partial tells that there were more than told has room for.
	partial bool
	// running tells that the table is read now, and read that it was and is not compared yet.
	running, read bool
	// found are those that this reading has told, until their event comes after all; ended are
	// those that have ended while it runs, with whether their beginning was told.
	found, ended map[uint64]bool
	// failed tells that the last reading has failed.
	failed bool
}

func newLiving() *living {
	return &living{seed: maphash.MakeSeed(), told: map[uint64]uint32{}}
}

// of is what stands for a connection.
func (l *living) of(x *connection) uint64 {
	var h maphash.Hash
	h.SetSeed(l.seed)
	_, _ = h.Write(x.raw)
	_, _ = h.Write(x.zone)
	return h.Sum64()
}

// begins notes an event. It is false if the table has told the beginning already.
func (l *living) begins(x *connection) bool {
	k := l.of(x)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.found[k] {
		delete(l.found, k)
		return false
	}
	delete(l.ended, k) // another one between the same ends
	l.add(k)
	return true
}

func (l *living) add(k uint64) {
	if len(l.told) >= mostLiving {
		l.partial = true
		return
	}
	l.told[k] = l.reading
}

// ends notes an event.
func (l *living) ends(x *connection) {
	k := l.of(x)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running {
		_, known := l.told[k]
		l.ended[k] = known
	}
	delete(l.told, k)
	delete(l.found, k)
}

// begin notes that the table is read from now on. It is false if that goes on already.
func (l *living) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running || l.read {
		return false
	}
	l.running, l.found, l.ended = true, map[uint64]bool{}, map[uint64]bool{}
	l.reading++
	return true
}

// sees notes a connection of the table. It is true if its beginning is to be told.
func (l *living) sees(x *connection, silent bool) bool {
	k := l.of(x)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.told[k]; known {
		l.told[k] = l.reading
		return false
	}
	tell := !silent && !l.partial
	if known, is := l.ended[k]; is {
		return tell && !known // the kernel has read its row before it ended
	}
	l.add(k)
	l.found[k] = tell
	return tell
}

// done notes that the table was read, or was not to its end.
func (l *living) done(whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running, l.read, l.failed, l.ended = false, whole, !whole, nil
}

// again reports, once, that the last reading has failed.
func (l *living) again() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	failed := l.failed
	l.failed = false
	return failed
}

// compare forgets, once all events from before the end of the reading were taken in, what the table
// has not any more, and returns how many that are: their ends were not told.
func (l *living) compare() (lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.read {
		return 0
	}
	l.read = false
	for k, at := range l.told {
		if at != l.reading {
			delete(l.told, k)
			lost++
		}
	}
	if l.partial = len(l.told) >= mostLiving; l.partial {
		return 0
	}
	return lost
}

// resync reads the table of connections and calls each for every connection whose beginning was not
// reported. If silent, it only remembers them.
func (r *EventReader) resync(silent bool, each func(Event)) {
	whole := false
	defer func() { r.living.done(whole) }()
	addresses, err := r.Local()
	if err != nil {
		return
	}
	local := make(map[netip.Addr]bool, len(addresses))
	for _, a := range addresses {
		local[a] = true
	}
	err = r.table.Ask(unix.NFNL_SUBSYS_CTNETLINK, ctGet, unix.AF_UNSPEC, true, nil, func(_ uint16, body []byte) error {
		select {
		case <-r.closed:
			return errClosed
		default:
		}
		x, err := parseConnection(body)
		if err != nil || !x.orig.source.IsValid() || !x.reply.source.IsValid() {
			return nil // of a kind that has no addresses
		}
		if r.living.sees(&x, silent) {
			e := Event{Expected: x.expected, PickedUp: x.pickedUp, Found: true}
			e.Packet, e.Way = x.packet(local)
			each(e)
		}
		return nil
	})
	whole = err == nil || errors.Is(err, netfilter.ErrInterrupted)
}

var errClosed = errors.New("closed")
