package apiserver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/serving"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/apiserver/webhook"
	"github.com/nephele-io/nephele/internal/platform/certs"
)

const servedName = "antrea.kube-system.svc"

// issue fills a directory as a mounted Secret is filled, by an authority of its own.
func issue(t *testing.T, dir, name string) {
	t.Helper()
	store, err := certs.Open(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := store.Authority("issuer")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Certificate("served", authority, certs.Profile{CommonName: "x", DNSNames: []string{name}, Server: true}); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{store.CertFile("served"): "tls.crt", store.KeyFile("served"): "tls.key", store.CertFile("issuer"): "ca.crt"} {
		raw, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMountedCertificate: a server serves with what somebody else has put into a directory, and
// with what he puts there later, and tells that the authority is another one.
func TestMountedCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	issue(t, dir, servedName)
	clk := clocktesting.NewFakeClock(time.Now())
	cert, err := serving.Mounted(dir, servedName, clk)
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t, "127.0.0.1:0")
	s, err := apiserver.New(apiserver.Options{
		Listener: l, Certificate: cert, Access: tokenAccess(), Store: watchstore.New(watchstore.Options{}), Reports: &reportBook{},
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- s.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	reached := func() bool {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(cert.CABundle())
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", l.Addr().String(), &tls.Config{RootCAs: roots, ServerName: servedName})
		if err == nil {
			err = conn.Close()
		}
		return err == nil
	}
	if !reached() {
		t.Error("the server is not believed")
	}
	before := string(cert.CABundle())
	issue(t, dir, servedName)
	for deadline := time.Now().Add(patience); string(cert.CABundle()) == before || !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the new certificate is not used")
		}
		clk.Step(time.Minute)
	}
	select {
	case <-cert.Changed():
	default:
		t.Error("nobody is told about the new authority")
	}
}

func TestMountedCertificateIsLookedAt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  string
	}{
		"another name": {func(t *testing.T, dir string) { issue(t, dir, "elsewhere.svc") }, servedName},
		"another authority": {func(t *testing.T, dir string) {
			other := t.TempDir()
			issue(t, other, servedName)
			raw, err := os.ReadFile(filepath.Join(other, "ca.crt"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "ca.crt"), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "ca.crt"},
		"no authority": {func(t *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, "ca.crt")) }, "ca.crt"},
		"no PEM":       {func(t *testing.T, dir string) { _ = os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("x"), 0o600) }, "PEM"},
		"no key":       {func(t *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, "tls.key")) }, "tls.key"},
	} {
		dir := t.TempDir()
		issue(t, dir, servedName)
		c.spoil(t, dir)
		if _, err := serving.Mounted(dir, servedName, clock.RealClock{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error about %s", name, err, c.want)
		}
	}
}

// TestWebhooksAreOpen: webhooks answer callers without credentials, and open nothing else.
func TestWebhooksAreOpen(t *testing.T) {
	t.Parallel()
	access := tokenAccess()
	known := access.Authenticator
	access.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if who, ok, err := known.AuthenticateRequest(r); ok || err != nil {
			return who, ok, err
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: user.Anonymous}}, true, nil
	})
	w := &world{
		store: watchstore.New(watchstore.Options{}), reports: &reportBook{}, dir: t.TempDir(), access: &access, webhooks: webhook.Handlers(nil, nil),
	}
	w.start(t, "127.0.0.1:0")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.ca)
	c := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer c.CloseIdleConnections()
	review := `{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "u", "operation": "CREATE", "object": {"spec": {"priority": 252}}}}`
	for path, want := range map[string]int{
		"/validate/annp": http.StatusOK, "/mutate/acnp": http.StatusOK,
		"/validate": http.StatusForbidden, "/validate/": http.StatusForbidden, "/validate/annp/x": http.StatusForbidden, "/metrics": http.StatusForbidden,
		"/apis/controlplane.antrea.io/v1beta2/networkpolicies": http.StatusForbidden,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+w.address+path, strings.NewReader(review))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s answers %d to anybody, want %d", path, answer.StatusCode, want)
		}
	}
}
