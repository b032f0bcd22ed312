package conntrack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
)

// Numbers of ctnetlink for events, from linux/netfilter/nfnetlink_conntrack.h and
// nfnetlink_compat.h.
const (
	ctGroupNew     = 1
	ctGroupDestroy = 3

	ctCountersOrig  = 9
	ctCountersReply = 10

	counterPackets = 1
	counterBytes   = 2

	// localAge is how old the addresses of the host may be by which connections that arrive are
	// told from those that leave.
	localAge = time.Second
	// eventsTogether is for how long events are let come before they are read, mostTogether how
	// many are read before the reader looks whether it is over. The buffer of the socket has room
	// for about 8,000.
	eventsTogether = 10 * time.Millisecond
	mostTogether   = 5000
)

// accountingFile turns counting of the packets of connections on, per network namespace.
const accountingFile = "/proc/sys/net/netfilter/nf_conntrack_acct"

// EventReader receives the events of all connections of the host.
type EventReader struct {
	// socket has the events, and table reads the table of connections after some were dropped.
	socket, table *netfilter.Socket
	living        *living
	pause         time.Duration
	closed        chan struct{}
	once          sync.Once
	// first is closed once the table was read for the first time.
	first     chan struct{}
	firstOnce sync.Once
	// Local returns the addresses of the host; by default the addresses of the network namespace of
	// the goroutine that runs Run.
	Local func() ([]netip.Addr, error)
	local map[netip.Addr]bool
	read  time.Time
}

// OpenEvents begins to receive, in the network namespace of the calling thread.
func OpenEvents() (*EventReader, error) {
	s, err := netfilter.Open(netfilter.AnswerBuffer)
	if err != nil {
		return nil, err
	}
	table, err := netfilter.Open(netfilter.AnswerBuffer)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	for _, group := range []int{ctGroupNew, ctGroupDestroy} {
		if err == nil {
			err = unix.SetsockoptInt(s.FD(), unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group)
		}
	}
	if err == nil { // so that Run sees that it is over
		err = unix.SetsockoptTimeval(s.FD(), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000})
	}
	if err != nil {
		_, _ = s.Close(), table.Close()
		return nil, fmt.Errorf("events of connections: %w", err)
	}
	return &EventReader{socket: s, table: table, living: newLiving(), pause: resyncPause, closed: make(chan struct{}), first: make(chan struct{}), Local: LocalAddresses}, nil
}

// Close ends Run.
func (r *EventReader) Close() { r.once.Do(func() { close(r.closed) }) }

// Ready is closed when Run has read the table of connections for the first time, which it does in
// the beginning, to know which of them are no news.
func (r *EventReader) Ready() <-chan struct{} { return r.first }

// Run calls each for every event until Close, from one goroutine or another. It calls overrun when
// the kernel has dropped events because too many came at once; how many it does not tell. Soon
// after, it calls each for the connections that have begun meanwhile and are still there, and
// unended with how many have ended meanwhile.
func (r *EventReader) Run(each func(Event), overrun func(), unended func(int)) error {
	var reading sync.WaitGroup
	defer func() { reading.Wait(); _, _ = r.socket.Close(), r.table.Close() }()
	dropped, silent, next := true, true, time.Time{} // what is there before the first event is no news
	// The kernel says once that it drops, and may go on until all that waits is taken in.
	drained := true
	last := silent // whether the last reading of the table is to tell nothing
	for {
		if r.living.again() {
			dropped, silent = true, last
		}
		if now := time.Now(); dropped && drained && !now.Before(next) && r.living.begin() {
			quiet := silent
			reading.Go(func() {
				r.resync(quiet, each)
				r.firstOnce.Do(func() { close(r.first) })
			})
			last = quiet
			dropped, silent, next = false, false, now.Add(r.pause)
		}
		select {
		case <-r.closed:
			return nil
		default:
		}
		if err := r.renewLocal(time.Now()); err != nil {
			return err
		}
		err := r.gather(func(kind, _ uint16, _ uint32, body []byte) error {
			ended := kind == unix.NFNL_SUBSYS_CTNETLINK<<8|ctDelete
			if !ended && kind != unix.NFNL_SUBSYS_CTNETLINK<<8|ctNew || len(body) < 4 {
				return nil
			}
			var x connection
			if err := x.parse(body); err != nil || !x.orig.source.IsValid() || !x.reply.source.IsValid() {
				return nil // of a kind that has no addresses
			}
			if ended {
				r.living.ends(&x)
			} else if !r.living.begins(&x) {
				return nil
			}
			e := Event{Ended: ended, Expected: x.expected, PickedUp: x.pickedUp}
			e.Packet, e.Way = x.packet(r.local)
			if ended {
				e.count(body)
			}
			each(e)
			return nil
		})
		switch {
		case errors.Is(err, unix.ENOBUFS):
			overrun()
			dropped, drained = true, false
		case errors.Is(err, unix.EAGAIN): // all was taken in
			drained = true
			if n := r.living.compare(); n > 0 {
				unended(n)
			}
		case err != nil && !errors.Is(err, unix.EAGAIN):
			return fmt.Errorf("read events of connections: %w", err)
		}
	}
}

// gather waits for a message, lets others come for a moment, and then calls each for all that are
// there. A reader that waits would be woken for every single event, by the processor that makes the
// connection: that costs more than all else of an event.
func (r *EventReader) gather(each func(kind, flags uint16, seq uint32, body []byte) error) error {
	if err := r.socket.Receive(each); err != nil {
		return err
	}
	time.Sleep(eventsTogether)
	for range mostTogether {
		if err := r.socket.ReceiveBy(unix.MSG_DONTWAIT, each); err != nil {
			return err
		}
	}
	return nil
}

// renewLocal reads the addresses of the host again if they are old. Old ones count while they
// cannot be read.
func (r *EventReader) renewLocal(now time.Time) error {
	if r.local != nil && now.Sub(r.read) < localAge {
		return nil
	}
	list, err := r.Local()
	if err != nil {
		if r.local != nil {
			return nil
		}
		return err
	}
	r.local, r.read = make(map[netip.Addr]bool, len(list)), now
	for _, a := range list {
		r.local[a] = true
	}
	return nil
}

// count reads the counters of a connection that has ended.
func (e *Event) count(body []byte) {
	for b := body[4:]; len(b) > 0; {
		kind, counters, rest, err := nextAttribute(b)
		if err != nil {
			return
		}
		b = rest
		packets, bytes := &e.Packets, &e.Bytes
		switch kind {
		case ctCountersOrig:
		case ctCountersReply:
			packets, bytes = &e.ReplyPackets, &e.ReplyBytes
		default:
			continue
		}
		for len(counters) > 0 {
			var data []byte
			if kind, data, counters, err = nextAttribute(counters); err != nil {
				return
			}
			if len(data) < 8 {
				continue
			}
			switch kind {
			case counterPackets:
				*packets = binary.BigEndian.Uint64(data)
			case counterBytes:
				*bytes = binary.BigEndian.Uint64(data)
			}
		}
	}
}

// Accounting reports whether the kernel counts the packets of connections that begin from now on.
func Accounting() bool {
	b, err := os.ReadFile(accountingFile)
	return err == nil && strings.TrimSpace(string(b)) == "1"
}
