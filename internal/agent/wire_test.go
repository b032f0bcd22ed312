package agent_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/serving"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/platform/certs"
)

// serve serves what is computed as the controller does, over TLS, and lets the agent use that.
func (f *fixture) serve() {
	f.t.Helper()
	access, err := apiserver.Closed()
	if err != nil {
		f.t.Fatal(err)
	}
	dir, err := certs.Open(f.t.TempDir(), time.Now)
	if err != nil {
		f.t.Fatal(err)
	}
	cert, err := serving.Open(dir, []string{"policies"}, nil, clock.RealClock{})
	if err != nil {
		f.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	server, err := apiserver.New(
		apiserver.Options{Listener: listener, Certificate: cert, Access: access.WithEnforcer("token"), Store: f.source.store, Reports: f.reports, Logger: logr.Discard()},
	)
	if err != nil {
		f.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Start(f.t.Context()); err != nil {
			f.t.Error(err)
		}
	}()
	f.t.Cleanup(func() { <-done })
	client, err := enforcer.NewClient(enforcer.ClientOptions{Config: func() (*rest.Config, error) { return server.EnforcerConfig("token", "policies"), nil }})
	if err != nil {
		f.t.Fatal(err)
	}
	reporter := enforcer.NewReporter(enforcer.ReporterOptions{Client: client, Clock: clock.RealClock{}, Log: logr.Discard()})
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		_ = reporter.Start(f.t.Context())
	}()
	f.t.Cleanup(func() { <-reported })
	f.from, f.to = client, reporter
}

// TestOverTheWire follows a real server, and asks the agent on the host what it does.
func TestOverTheWire(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.serve()
	a, _ := f.start()
	f.allow(80, 1, "")
	f.eventually("reported to the server", func() bool { r := f.reports.of("p"); return r.Generation == 1 && r.NodeName == hostKey })
	if !f.reaches(80) || f.open(81) {
		t.Fatal("not as the policy says")
	}
	path := filepath.Join(t.TempDir(), "run", "agent.sock")
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- a.Serve(ctx, path) }()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	var s agent.Status
	f.eventually("answered", func() bool {
		r, err := c.Get("http://agent/status")
		if err != nil {
			return false
		}
		defer func() { _ = r.Body.Close() }()
		return json.NewDecoder(r.Body).Decode(&s) == nil
	})
	if s.Key != hostKey || len(s.Policies) != 1 || !s.Server.Connected {
		t.Errorf("status %+v", s)
	}
	ask := func(path, body string) (int, agent.Answer) {
		t.Helper()
		r, err := c.Post("http://agent"+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		var answer agent.Answer
		if r.StatusCode == http.StatusOK {
			if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
				t.Fatal(err)
			}
		}
		return r.StatusCode, answer
	}
	if code, answer := ask("/explain", `{"peer":"10.1.0.2","local":"10.1.0.1","protocol":6,"port":81}`); code != 200 || answer.Allowed || answer.By != "isolated" {
		t.Errorf("explained %d %+v", code, answer)
	}
	for path, bad := range map[string]string{"/explain": `{"peer":"10.1.0.2","local":"::1"}`, "/release": `{"for":99999999999999999}`, "/release?": `[`} {
		if code, _ := ask(path, bad); code != http.StatusBadRequest {
			t.Errorf("%s %s: %d", path, bad, code)
		}
	}
	if !f.reaches(80) || f.open(81) {
		t.Error("a bad request has changed what is enforced")
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestParseFailsafe(t *testing.T) {
	t.Parallel()
	f, err := agent.ParseFailsafe("in tcp 22 10.0.0.7/8,fd00::/8")
	if err != nil || f.Port != 22 || len(f.CIDRs) != 2 || f.CIDRs[0].String() != "10.0.0.0/8" {
		t.Errorf("%+v, %v", f, err)
	}
	for _, bad := range []string{"", "in tcp 22", "up tcp 22 ::/0", "in icmp 22 ::/0", "in tcp 0 ::/0", "in tcp 70000 ::/0", "in tcp 22 ::", "in tcp 22 10.0.0.0/8,"} {
		if f, err := agent.ParseFailsafe(bad); err == nil {
			t.Errorf("%q is taken for %+v", bad, f)
		}
	}
}
