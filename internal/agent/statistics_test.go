package agent_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
)

// book adds up what an agent sends.
type book struct {
	mu      sync.Mutex
	refuse  bool
	calls   int
	perRule map[string]v1beta2.TrafficStats
	t       *testing.T
}

func (b *book) take(_ context.Context, s *v1beta2.NodeStatsSummary) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if b.refuse {
		return errors.New("refused")
	}
	for _, p := range s.AntreaNetworkPolicies {
		for _, r := range p.RuleTrafficStats {
			if r.TrafficStats.Packets <= 0 || r.TrafficStats.Bytes <= 0 || r.TrafficStats.Sessions <= 0 {
				b.t.Errorf("sent %+v", r)
			}
			sum := b.perRule[r.Name]
			b.perRule[r.Name] = v1beta2.TrafficStats{Packets: sum.Packets + r.TrafficStats.Packets, Bytes: sum.Bytes + r.TrafficStats.Bytes, Sessions: sum.Sessions + r.TrafficStats.Sessions}
		}
	}
	return nil
}

func (b *book) of(rule string) v1beta2.TrafficStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.perRule[rule]
}

// TestStatistics counts real connections, while rules are replaced, the controller takes nothing
// for a time, and the agent is started again.
func TestStatistics(t *testing.T) {
	t.Parallel()
	f, b := newFixture(t), &book{perRule: map[string]v1beta2.TrafficStats{}, t: t}
	// Minutes go by when the test says so.
	now := clocktesting.NewFakeClock(time.Now())
	f.clock, f.statistics = jumping{clock.RealClock{}, now}, b.take
	f.allow(80, 1, "")
	a, stop := f.start()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 })
	connect := func(port uint16, n int) {
		t.Helper()
		for range n {
			if !f.reaches(port) {
				t.Fatal("a connection failed that the policy allows")
			}
		}
	}
	connect(80, 5)
	now.Step(time.Minute)
	f.eventually("five were counted", func() bool { return b.of("in").Sessions == 5 })
	if s := b.of("in"); s.Packets < 5 || s.Bytes < 5*40 {
		t.Errorf("counted %+v", s)
	}
	// Replaced before it was read: nothing is lost.
	connect(80, 3)
	f.allow(81, 2, "")
	f.eventually("another port", func() bool { return f.reports.of("p").Generation == 2 })
	connect(81, 2)
	b.mu.Lock()
	b.refuse = true
	b.mu.Unlock()
	now.Step(time.Minute)
	f.eventually("nobody took it", func() bool { return a.Status().Faults.Statistics != "" })
	connect(81, 1)
	b.mu.Lock()
	b.refuse = false
	b.mu.Unlock()
	now.Step(time.Minute)
	f.eventually("all eleven were counted", func() bool { return b.of("in").Sessions == 11 && a.Status().Faults.Statistics == "" })
	// What a former process has sent is not sent again.
	stop()
	_, stop = f.start()
	f.eventually("enforced again", func() bool { return f.open(81) })
	now.Step(time.Minute)
	f.eventually("counts go on", func() bool {
		connect(81, 1)
		now.Step(time.Minute)
		return b.of("in").Sessions > 11
	})
	if got := b.of("in").Sessions; got > 11+int64(f.port) {
		t.Errorf("%d sessions", got)
	}
	stop()
}

// slow is a table whose counters take a second to read.
type slow struct {
	agent.Table
	now   *clocktesting.FakeClock
	whole atomic.Int32
}

func (s *slow) Counters(chains ...string) (map[string][]kernel.Counter, error) {
	if len(chains) == 0 {
		s.now.Step(time.Second)
		s.whole.Add(1)
	}
	return s.Table.Counters(chains...)
}

// TestSlowCounters: counters that take long to read are read less often, and nothing is lost.
func TestSlowCounters(t *testing.T) {
	t.Parallel()
	f, b := newFixture(t), &book{perRule: map[string]v1beta2.TrafficStats{}, t: t}
	now := clocktesting.NewFakeClock(time.Now())
	table := &slow{now: now}
	f.clock, f.statistics = jumping{clock.RealClock{}, now}, b.take
	f.wrap = func(k *kernel.Table) agent.Table { table.Table = k; return table }
	f.allow(80, 1, "")
	_, stop := f.start()
	defer stop()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 })
	// Before the first rules are written, and then to send what they have counted.
	const read = 2
	f.eventually("read first", func() bool { return table.whole.Load() >= read })
	for range 3 {
		if !f.reaches(80) {
			t.Fatal("a connection failed that the policy allows")
		}
	}
	now.Step(6 * time.Minute)
	f.allow(81, 2, "") // the agent looks at everything after that
	f.eventually("another port", func() bool { return f.reports.of("p").Generation == 2 })
	if n := table.whole.Load(); n != read || b.of("in").Sessions > 0 {
		t.Errorf("read %d times before 400 seconds are over, %+v sent", n-read, b.of("in"))
	}
	now.Step(time.Minute)
	f.eventually("three were counted", func() bool { return b.of("in").Sessions == 3 })
}

// jumping is the real clock, ahead by what another one has gone.
type jumping struct {
	clock.RealClock
	ahead *clocktesting.FakeClock
}

var begun = time.Now()

func (j jumping) Now() time.Time                  { return j.ahead.Now().Add(time.Since(begun)) }
func (j jumping) Since(t time.Time) time.Duration { return j.Now().Sub(t) }
