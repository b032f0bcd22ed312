package conntrack

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
)

// TestLiving plays events and readings of the table in random orders, with events that are dropped:
// every connection is told once if it lives long enough to be in a reading or its event came, and
// ends that were dropped are counted.
func TestLiving(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		l := newLiving()
		at := func(n int) *connection { return &connection{raw: fmt.Appendf(nil, "%d", n)} }
		alive, told, lost := map[int]bool{}, map[int]int{}, 0
		type event struct {
			n     int
			ended bool
		}
		var queue []event
		take := func() {
			for _, e := range queue {
				if e.ended {
					l.ends(at(e.n))
				} else if l.begins(at(e.n)) {
					told[e.n]++
				}
			}
			queue = nil
		}
		next, ends := 0, 0
		step := func(drops bool) {
			if r.IntN(2) == 0 {
				next++
				alive[next] = true
				if !drops {
					queue = append(queue, event{next, false})
				}
			} else if next > 0 {
				if n := 1 + r.IntN(next); alive[n] {
					delete(alive, n)
					if !drops {
						queue = append(queue, event{n, true})
					} else if told[n] > 0 {
						ends++
					}
				}
			}
			if r.IntN(4) == 0 && !drops {
				take()
			}
		}
		for range 20 {
			for range r.IntN(30) {
				step(false)
			}
			take()
			for range r.IntN(30) {
				step(true)
			}
			if !l.begin() || l.begin() {
				t.Fatal("a reading does not begin, or begins twice")
			}
			for n := range next + 1 { // the table, while events come
				if alive[n] && l.sees(at(n), false) {
					told[n]++
				}
				if r.IntN(3) == 0 {
					step(false)
				}
			}
			l.done(true)
			take()
			lost += l.compare()
			for n := range alive {
				if told[n] != 1 {
					t.Fatalf("seed %d: connection %d is told %d times", seed, n, told[n])
				}
			}
		}
		for n, times := range told {
			if times > 1 {
				t.Errorf("seed %d: connection %d is told %d times", seed, n, times)
			}
		}
		if lost != ends {
			t.Errorf("seed %d: %d ends are lost, want %d", seed, lost, ends)
		}
		if len(l.told) != len(alive) {
			t.Errorf("seed %d: %d live, and %d are known", seed, len(alive), len(l.told))
		}
	}
}

// TestEndedWhileRead: a connection whose end is told before its row of the table is, is not told
// again, nor is the next one between the same ends. A reading that fails is to be made up for.
func TestEndedWhileRead(t *testing.T) {
	l, x := newLiving(), &connection{raw: []byte("x")}
	if !l.begin() || !l.begins(x) {
		t.Fatal("the beginning is not told")
	}
	l.ends(x)
	if l.sees(x, false) {
		t.Error("it is told once more by its row")
	}
	if !l.begins(x) || l.sees(x, false) {
		t.Error("another one between the same ends is not told once")
	}
	if l.done(false); !l.again() || l.again() {
		t.Error("a reading that has failed is not made up for once")
	}
	if !l.begin() {
		t.Fatal("no reading begins after one that has failed")
	}
	if l.done(true); l.again() || l.compare() != 1 {
		t.Error("a whole reading without the connection has not lost it")
	}
}

// TestResync makes more connections than the buffer for events has room for, before anybody reads,
// and wants every one reported once, and earlier ones not at all.
func TestResync(t *testing.T) {
	host, peer := nfttest.NewHost(t), nfttest.NewHost(t)
	here, there := netip.MustParseAddr("172.30.0.1"), netip.MustParseAddr("172.30.0.2")
	nfttest.Connect(t, host, peer, []netip.Prefix{netip.PrefixFrom(here, 24)}, []netip.Prefix{netip.PrefixFrom(there, 24)})
	var table *kernel.Table
	var events *EventReader
	err := host.Do(func() (err error) {
		if table, err = kernel.Open(kernel.DefaultTable); err != nil {
			return err
		}
		_, err = table.Apply(new(nft.Compiler).Compile(nft.Input{}).Program)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = table.Close() })
	nfttest.Serve(t, host, 9, 9, here)
	send := func(first, n int) { // an answered packet makes a connection
		t.Helper()
		err := peer.Do(func() error {
			for i := range n {
				c, err := net.DialUDP("udp", &net.UDPAddr{IP: there.AsSlice(), Port: first + i}, &net.UDPAddr{IP: here.AsSlice(), Port: 9})
				if err != nil {
					return err
				}
				for answer := make([]byte, 1); ; {
					_ = c.SetReadDeadline(time.Now().Add(time.Second))
					if _, err = c.Write([]byte("x")); err != nil {
						return err
					}
					if _, err := c.Read(answer); err == nil {
						break
					}
				}
				_ = c.Close()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	send(10_000, 100) // before
	if err := host.Do(func() (err error) { events, err = OpenEvents(); return err }); err != nil {
		t.Fatal(err)
	}
	events.pause = time.Millisecond
	events.Local = func() ([]netip.Addr, error) { return []netip.Addr{here}, nil }
	if err := unix.SetsockoptInt(events.socket.FD(), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1<<16); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	told, overruns := map[uint16]int{}, 0
	fromBefore := 0
	count := func() (int, int) { mu.Lock(); defer mu.Unlock(); return len(told), overruns }
	each := func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case e.Ended || e.Packet.Port != 9:
		case e.Packet.SourcePort < 20_000:
			fromBefore++
		default:
			told[e.Packet.SourcePort]++
		}
	}
	ended := make(chan error, 1)
	go func() {
		ended <- events.Run(each, func() { mu.Lock(); overruns++; mu.Unlock() }, func(int) {})
	}()
	for { // the first reading is over
		events.living.mu.Lock()
		known := len(events.living.told) >= 100 && !events.living.running && !events.living.read
		events.living.mu.Unlock()
		if known {
			break
		}
		time.Sleep(time.Millisecond)
	}
	want := 0
	for ; want < 30_000; want += 1000 {
		if _, dropped := count(); dropped > 0 {
			break
		}
		send(20_000+want, 1000)
	}
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if got, _ := count(); got >= want {
			break
		}
	}
	events.Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if overruns == 0 {
		t.Fatal("the kernel has dropped nothing")
	}
	for port, times := range told {
		if times != 1 {
			t.Errorf("port %d is told %d times", port, times)
		}
	}
	if len(told) != want || fromBefore > 0 {
		t.Errorf("%d are told, %d were made; %d from before", len(told), want, fromBefore)
	}
}
