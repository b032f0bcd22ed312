package export

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/internal/flows/live"
)

// counter is a Sink that is away now and then.
type counter struct {
	mu    sync.Mutex
	away  bool
	tried [][]*live.Entry
	got   []*live.Entry
}

func (s *counter) Send(_ context.Context, entries []*live.Entry, _ time.Time) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried = append(s.tried, slices.Clone(entries))
	if s.away {
		return 0, errors.New("away")
	}
	s.got = append(s.got, entries...)
	return 0, nil
}

func (s *counter) Close() error { return nil }

func (s *counter) set(away bool) { s.mu.Lock(); defer s.mu.Unlock(); s.away = away }

func (s *counter) counts() (tried, got int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tried), len(s.got)
}

// TestRepeats: what is not taken is sent again as it was, then the rest, and at the end what is
// left, each once and in order.
func TestRepeats(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	s := &counter{away: true}
	e := &Exporter{Name: "x", Sink: s, Clock: clk, Log: logr.Discard()}
	in := make(chan *live.Entry, 5*maxTogether)
	var all []*live.Entry
	add := func(n int) {
		for range n {
			x := &live.Entry{}
			all = append(all, x)
			in <- x
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { e.Run(ctx, in); close(ended) }()
	until := func(done func() bool) {
		for !done() {
			clk.Step(time.Second)
			time.Sleep(time.Millisecond)
		}
	}
	add(100)
	until(func() bool { tried, _ := s.counts(); return tried == 4 })
	if _, _, failing := e.Counts(); !failing {
		t.Error("it does not say that it fails")
	}
	s.mu.Lock()
	for _, batch := range s.tried {
		if !slices.Equal(batch, s.tried[0]) {
			t.Error("another batch is tried before one is taken")
		}
	}
	s.mu.Unlock()
	s.set(false)
	add(3 * maxTogether)
	until(func() bool { _, got := s.counts(); return got == len(all) })
	s.set(true)
	add(maxTogether + 1)
	until(func() bool { _, _, failing := e.Counts(); return failing })
	s.set(false)
	stop()
	<-ended
	if sent, refused, _ := e.Counts(); sent != int64(len(all)) || refused != 0 || !slices.Equal(s.got, all) {
		t.Errorf("%d sent, %d refused, %d of %d arrived", sent, refused, len(s.got), len(all))
	}
}

// TestAddresses: what cannot be meant is refused at the start.
func TestAddresses(t *testing.T) {
	for to, good := range map[string]bool{
		"udp://collector:4739": true, "tcp://[::1]:4739": true, "tls://collector:4740": true, "collector:4739": false, "udp://collector": false, "http://collector:80": false,
		"udp://user@collector:4739": false, "udp://collector:4739/path": false, "": false,
	} {
		if _, err := NewIPFIX(to, "c"); (err == nil) != good {
			t.Errorf("%q: %v", to, err)
		}
		if _, err := NewSyslog(to, "c"); (err == nil) != good {
			t.Errorf("%q: %v", to, err)
		}
	}
	for to, good := range map[string]bool{"http://c:4318": true, "https://c/loki/otlp/v1/logs": true, "c:4318": false, "ftp://c": false, "http://user:secret@c": false, "http://": false} {
		if _, err := NewOTLP(to, "", "v", "c"); (err == nil) != good {
			t.Errorf("%q: %v", to, err)
		}
	}
	for headers, good := range map[string]bool{"": true, "a=b": true, "a=b, c=d%20e": true, "a": false, "=b": false, "a=%zz": false} {
		if _, err := NewOTLP("http://c", headers, "v", "c"); (err == nil) != good {
			t.Errorf("headers %q: %v", headers, err)
		}
	}
}

// TestFile writes lines, at the end what is left.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flows.log")
	e := &Exporter{Name: "file", Sink: NewFile(path), Clock: clock.RealClock{}, Log: logr.Discard()}
	in := make(chan *live.Entry, 10)
	in <- &live.Entry{Verdict: "Allow"}
	in <- &live.Entry{Verdict: "Drop"}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	e.Run(ctx, in)
	raw, err := os.ReadFile(path)
	if err != nil || strings.Count(string(raw), "\n") != 2 || !strings.Contains(string(raw), `"verdict":"Allow"`) || !strings.Contains(string(raw), `"verdict":"Drop"`) {
		t.Errorf("%s, %v", raw, err)
	}
}
