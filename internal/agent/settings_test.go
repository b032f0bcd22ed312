package agent_test

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/policy"
)

// heard is what a controller was told last.
type heard struct {
	mu   sync.Mutex
	last agent.Status
}

func (h *heard) info(_ context.Context, s *agent.Status) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = *s
	return nil
}

func (h *heard) status() agent.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// changing are settings of the kernel that change.
type changing struct {
	mu        sync.Mutex
	forwards  []string
	now, most int
}

func (c *changing) set(f func(c *changing)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

func (c *changing) Forwards() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.forwards)
}

func (c *changing) Connections() (now, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.most
}

// TestTellsSoon: the controller hears within seconds, and not only with the next sign of life a
// minute later, of what bears on enforcement: filters of others, routing, a clock that differs, a
// table of connections that is full, and a disk that fails.
func TestTellsSoon(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var told heard
	var kernelSays changing
	var skew atomic.Int64
	f.info, f.settings, f.skew = told.info, &kernelSays, func() time.Duration { return time.Duration(skew.Load()) }
	f.allow(80, 1, "")
	f.start()
	f.eventually("enforcing is told", func() bool { s := told.status(); return s.State == agent.StateEnforcing })
	trouble := func(with string) func() bool {
		return func() bool {
			s := told.status()
			return slices.ContainsFunc(s.Troubles(), func(t agent.Trouble) bool { return t.With == with && t.Text != "" })
		}
	}
	kernelSays.set(func(c *changing) { c.forwards = []string{"IPv4"} })
	f.eventually("routing is told", func() bool { s := told.status(); return slices.Equal(s.Host.Forwards, []string{"IPv4"}) })
	kernelSays.set(func(c *changing) { c.now, c.most = 1000, 1000 })
	f.eventually("a full table is told", trouble("the table of connections"))
	skew.Store(int64(-time.Hour))
	f.eventually("the clock is told", trouble("the clock"))
	o := others{}
	if err := f.host.Do(func() (err error) { o, err = newOthers(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.CloseLasting() })
	if err := o.ufw(); err != nil {
		t.Fatal(err)
	}
	f.eventually("filters of others are told", func() bool { s := told.status(); return len(s.Host.Foreign) == 1 })
	if err := os.RemoveAll(f.dir); err != nil {
		t.Fatal(err)
	}
	f.allow(81, 2, "")
	f.eventually("the disk is told", trouble("disk"))
	f.source.away.Store(true)
}

// TestSettingsOfBridges: where a bridge stops showing netfilter what goes from port to port, that
// is told within seconds as a failure of the policies on its Pods, and so is when it does again.
func TestSettingsOfBridges(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var told heard
	f.info = told.info
	var l *nfttest.Lab
	var wiring *kernel.Wiring
	onHost := func(do func() error) {
		if err := l.Node.Do(do); err != nil {
			t.Error(err)
		}
	}
	f.podSettings = func() (out string) {
		onHost(func() error { out = wiring.Settings(); return nil })
		return out
	}
	lab, client := onNode(f, func(a netip.Addr) (out string, err error) {
		onHost(func() error { out, err = wiring.Bypass(a); return nil })
		return out, err
	})
	l = lab
	onHost(func() (err error) { wiring, err = kernel.OpenWiring(); return err })
	t.Cleanup(wiring.Close)
	for n := range nfttest.PodCount {
		if _, err := client.CoreV1().Pods(nfttest.PodRef(n).Namespace).Create(t.Context(), pod(n), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.denies("pods", 1, policy.AppliedTo{PodSelector: &policy.Selector{MatchLabels: map[string]string{"app": "0"}}})
	f.start()
	f.eventually("enforced", func() bool { r := f.reports.of("pods"); return r.Generation == 1 && !r.RealizationFailure })
	set := func(value string) {
		t.Helper()
		onHost(func() error {
			return os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte(value), 0o644)
		})
	}
	for range 2 {
		begun := time.Now()
		set("0")
		f.eventually("the policy fails", func() bool {
			r := f.reports.of("pods")
			return r.RealizationFailure && strings.Contains(r.Message, "bridge-nf-call-iptables")
		})
		f.eventually("the controller hears of it", func() bool { s := told.status(); return strings.Contains(s.Partial(), "bridge-nf-call-iptables") })
		t.Logf("told after %s", time.Since(begun))
		set("1")
		f.eventually("the policy is enforced", func() bool { return !f.reports.of("pods").RealizationFailure })
		f.eventually("the controller hears of that, too", func() bool { s := told.status(); return s.Partial() == "" })
	}
}
