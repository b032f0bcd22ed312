package traffic

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel/conntrack"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
)

// BenchmarkNewConnections opens connections to a host by four at once, in turns with and without a
// recorder, and tells what of the rate is left with it, what one recorded connection costs, and
// what was lost.
func BenchmarkNewConnections(b *testing.B) {
	host, peer := nfttest.NewHost(b), nfttest.NewHost(b)
	here, there := netip.MustParseAddr("172.30.0.1"), netip.MustParseAddr("172.30.0.2")
	nfttest.Connect(b, host, peer, []netip.Prefix{netip.PrefixFrom(here, 24)}, []netip.Prefix{netip.PrefixFrom(there, 24)})
	var table *kernel.Table
	var l net.Listener
	if err := host.Do(func() (err error) {
		if table, err = kernel.Open(kernel.DefaultTable); err != nil {
			return err
		}
		l, err = net.Listen("tcp", netip.AddrPortFrom(here, 80).String())
		return err
	}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = table.Close(), l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	program := policies()
	if _, err := table.Apply(program); err != nil {
		b.Fatal(err)
	}
	const each, workers = 750, 4
	open := func() (rate, seconds float64) {
		begun, busy := time.Now(), processor(b)
		var running sync.WaitGroup
		for range workers {
			running.Go(func() {
				err := peer.Do(func() error {
					for range each {
						c, err := net.Dial("tcp", l.Addr().String())
						if err != nil {
							return err
						}
						_ = c.(*net.TCPConn).SetLinger(0)
						_ = c.Close()
					}
					return nil
				})
				if err != nil {
					b.Error(err)
				}
			})
		}
		running.Wait()
		return each * workers / time.Since(begun).Seconds(), processor(b) - busy
	}
	recorded := func() (rate, seconds float64, lost int64) {
		var events *conntrack.EventReader
		if err := host.Do(func() (err error) { events, err = conntrack.OpenEvents(); return err }); err != nil {
			b.Fatal(err)
		}
		events.Local = func() ([]netip.Addr, error) { return []netip.Addr{here}, nil }
		r := New(false, clock.RealClock{})
		r.Judge = &inForce{program, time.Now().Add(-time.Hour)}
		ended := make(chan error, 1)
		go func() { ended <- events.Run(r.Event, r.Overrun, r.Unended) }()
		select {
		case <-events.Ready(): // the table of connections is read once at the start
		case err := <-ended:
			b.Fatal(err)
		}
		rate, seconds = open()
		events.Close()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		r.cut(false)
		return rate, seconds, each*workers - r.Status().Connections + 1_000_000*r.Status().Losses.Overruns
	}
	var left, cost, rates []float64
	var lost int64
	for range 15 * b.N {
		before, cpuBefore := open()
		rate, cpu, missing := recorded()
		after, cpuAfter := open()
		left = append(left, 200*rate/(before+after))
		cost = append(cost, (cpu-(cpuBefore+cpuAfter)/2)/(each*workers)*1e6)
		rates = append(rates, rate)
		lost += missing
	}
	median := func(list []float64) float64 { slices.Sort(list); return list[len(list)/2] }
	b.ReportMetric(median(rates), "conn/s")
	b.ReportMetric(median(left), "%-of-none")
	b.ReportMetric(median(cost), "cpu-us/conn")
	b.ReportMetric(float64(max(lost, 0)), "lost") // one of before may have been seen, too
	b.ReportMetric(0, "ns/op")
}

// processor is the processor time of the process in seconds.
func processor(b *testing.B) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
