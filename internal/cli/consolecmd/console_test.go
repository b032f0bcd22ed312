package consolecmd

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
)

// lines is what a command prints while it runs.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func needs(cfg *rest.Config) Needs {
	return Needs{
		Register: func(*pflag.FlagSet) {}, Version: "v1", Log: func(*cobra.Command) logr.Logger { return logr.Discard() },
		Cluster: func() (*rest.Config, string, error) { return cfg, "here", nil },
	}
}

// start runs the command until the test ends, and returns what it prints once that has a word.
func start(t *testing.T, n Needs, word string, args ...string) string {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	out := &lines{}
	cmd := Command(n)
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(out)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Errorf("the command ended: %v", err)
		}
	})
	for late := time.Now().Add(time.Minute); !strings.Contains(out.String(), word); time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the command ended: %v\n%s", err, out)
		default:
		}
		if time.Now().After(late) {
			t.Fatalf("the command does not say %q:\n%s", word, out)
		}
	}
	return out.String()
}

func apiServer(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":{"userInfo":{"username":%q}}}`, r.Header.Get("Authorization"))
	}))
	t.Cleanup(s.Close)
	return s
}

func TestLink(t *testing.T) {
	s := apiServer(t)
	cfg := &rest.Config{Host: s.URL, BearerToken: "mine", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	out := start(t, needs(cfg), "Ctrl-C")
	_, link, _ := strings.Cut(out, "\n\n  ")
	link, _, _ = strings.Cut(link, "\n")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusSeeOther {
		t.Errorf("the link %q answers %s", link, res.Status)
	}
}

// TestConsoleOfACluster: with a certificate that is read from a directory, over HTTP/2, at an API
// server that is named.
func TestConsoleOfACluster(t *testing.T) {
	s := apiServer(t)
	dir := t.TempDir()
	write := func(name string, raw []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey("console.example", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	write("tls.crt", cert)
	write("tls.key", key)
	raw, err := certutil.EncodeCertificates(s.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close()
	start(t, needs(&rest.Config{Host: "https://elsewhere.example"}), "answers for https://console.example", "--url=https://console.example", "--listen="+at,
		"--api-server="+s.URL, "--api-server-ca="+write("ca.crt", raw), "--tls-dir="+dir)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(cert)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: "console.example"},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", at)
		},
	}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), "POST", "https://console.example/api/login", strings.NewReader(`{"token":"mine"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://console.example")
	req.Header.Set("Content-Type", "application/json")
	var res *http.Response
	for late := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if res, err = client.Do(req.Clone(t.Context())); err == nil {
			break
		}
		if time.Now().After(late) {
			t.Fatal(err)
		}
		req.Body = io.NopCloser(strings.NewReader(`{"token":"mine"}`))
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK || res.ProtoMajor != 2 || !strings.HasPrefix(res.Header.Get("Set-Cookie"), "__Host-") {
		t.Errorf("login: %s %s %v", res.Proto, res.Status, res.Header)
	}
}

func TestFlagsThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		args, want string
	}{
		{"--listen=0.0.0.0:0", "not an address of loopback"},
		{"--listen=nonsense", "console"},
		{"--oidc-issuer=https://x", "give --url"},
		{"--tls-dir=x", "give --url"},
		{"--url=http://x --listen=127.0.0.1:0", "https only"},
		{"--url=https://x/path --listen=127.0.0.1:0", "https://HOST"},
		{"--url=https://x --token-login=false", "nobody could log in"},
		{"--url=https://x --api-server=http://y", "--api-server"},
		{"--url=https://x --api-server-ca=y", "needs --api-server"},
		{"--url=https://x --oidc-client-id=y", "need --oidc-issuer"},
		{"--url=https://x --oidc-issuer=http://y --oidc-client-id=z", "issuer"},
		{"--url=https://x --oidc-issuer=https://y", "client"},
		{"--url=https://x --oidc-issuer=https://y --oidc-client-id=z --oidc-client-secret-file=/none", "secret-file"},
		{"--url=https://x --oidc-issuer=https://y --oidc-client-id=z --oidc-ca=/none", "--oidc-ca"},
		{"--url=https://x --tls-dir=/none", "--tls-dir"},
	} {
		cmd := Command(needs(&rest.Config{Host: "https://cluster.example"}))
		cmd.SetArgs(strings.Fields(c.args))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SilenceUsage = true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a word on %q", c.args, err, c.want)
		}
	}
}
