package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
)

// onlyTo applies a policy that lets the host connect to one address, and nowhere else.
func (f *fixture) onlyTo(cidr string, generation int64) {
	f.engine.PutPolicy(policy.Policy{Kind: policy.AntreaNetworkPolicy, Namespace: "vms", Name: "p", UID: "p", Generation: generation, Priority: 5,
		AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: &policy.Selector{MatchLabels: map[string]string{"app": "web"}}}},
		Egress:    []policy.Rule{{Name: "out", Action: policy.Allow, Peers: []policy.Peer{{IPBlock: &policy.IPBlock{CIDR: cidr}}}}}})
	f.source.store.Publish(convert.Delta(f.engine.Commit()))
}

// TestTakesBackWhatCutsTheHost changes policies such that what the owner must reach cannot be
// reached, and then fails the probes by themselves.
func TestTakesBackWhatCutsTheHost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	nfttest.Serve(t, f.peer, 90, 90, peerAddr)
	server := netip.AddrPortFrom(peerAddr, 90).String()
	var down atomic.Bool
	dial := func(ctx context.Context) error {
		return f.host.Do(func() error {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
			if err != nil {
				return err
			}
			return c.Close()
		})
	}
	f.probe = func(ctx context.Context) error {
		if down.Load() {
			return errors.New("down")
		}
		return dial(ctx)
	}
	f.onlyTo("10.1.0.0/24", 1)
	a, _ := f.start()
	is := func(generation int64, failure bool) func() bool {
		return func() bool {
			r := f.reports.of("p")
			return r.Generation == generation && r.RealizationFailure == failure
		}
	}
	f.eventually("the first version is enforced", is(1, false))
	f.onlyTo("10.2.0.0/24", 2)
	f.eventually("it is enforced", is(2, false))
	f.eventually("and taken back", func() bool { return is(2, true)() && a.Status().State == agent.StateHeld })
	if r := f.reports.of("p"); !strings.Contains(r.Message, server) {
		t.Errorf("%+v", r)
	}
	if err := dial(t.Context()); err != nil {
		t.Errorf("what was in force before is not: %v", err)
	}
	f.onlyTo("10.1.0.2/32", 3)
	f.eventually("a good version is enforced", func() bool { return is(3, false)() && a.Status().State == agent.StateEnforcing })
	f.eventually("the probe succeeds", func() bool { return a.Status().Faults.Probe == "" })

	// What fails for another reason is not blamed on a change.
	f.onlyTo("10.1.0.0/30", 4)
	down.Store(true)
	f.eventually("it is enforced", is(4, false))
	f.eventually("and taken back, as the probe fails", is(4, true))
	f.eventually("which does not help, so it is enforced again", func() bool { return is(4, false)() && a.Status().State == agent.StateEnforcing })
	if s := a.Status(); s.Faults.Probe != "down" {
		t.Errorf("%+v", s)
	}
	f.onlyTo("10.1.0.0/24", 5)
	f.eventually("changes come into force while the probe fails", is(5, false))
}

func TestParseProbe(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	address := s.Listener.Addr().String()
	for _, text := range []string{"tcp " + address, s.URL, s.URL + "/healthz"} {
		probe, err := agent.ParseProbe(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := probe(t.Context()); err != nil {
			t.Error(err)
		}
	}
	status = http.StatusServiceUnavailable
	probe, err := agent.ParseProbe(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Probes(probe)(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("an answer 503: %v", err)
	}
	s.Close()
	for _, text := range []string{"tcp " + address, s.URL} {
		if probe, err = agent.ParseProbe(text); err != nil {
			t.Fatal(err)
		}
		if err := probe(t.Context()); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
			t.Errorf("nobody answers: %v", err)
		}
	}
	for _, text := range []string{"", "tcp", "tcp 10.0.0.1", "udp 10.0.0.1:53", "ftp://x", "https://", "tcp a b"} {
		if _, err := agent.ParseProbe(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	if agent.Probes() != nil {
		t.Error("no probes are a probe")
	}
}
