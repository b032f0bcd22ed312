package apiserver_test

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/apiserver/webhook"
	"github.com/nephele-io/nephele/internal/platform/certs"
)

// TestWebhooksForKubeAPIServerOnly: with an authority for callers, no other caller is answered, and
// holding such a certificate gives no right to anything else.
func TestWebhooksForKubeAPIServerOnly(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, err := certs.Open(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := dir.Authority("askers")
	if err != nil {
		t.Fatal(err)
	}
	for name, profile := range map[string]certs.Profile{
		"asker": {CommonName: "kube-apiserver", Client: true}, "other": {CommonName: "somebody", Client: true}, "server": {CommonName: "kube-apiserver", Server: true},
	} {
		if _, err := dir.Certificate(name, authority, profile); err != nil {
			t.Fatal(err)
		}
	}
	delegated, err := apiserver.Delegated(t.Context(), c.client(t))
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	empty := webhook.Reading{Reader: fake.NewClientBuilder().WithScheme(scheme).Build()}
	for name, names := range map[string][]string{"any name": nil, "one name": {"kube-apiserver"}} {
		t.Run(name, func(t *testing.T) {
			access, err := delegated.WithWebhookClients(dir.CertFile("askers"), names)
			if err != nil {
				t.Fatal(err)
			}
			w := &world{store: watchstore.New(watchstore.Options{}), reports: &reportBook{}, dir: t.TempDir(), access: &access, webhooks: webhook.Handlers(empty, empty)}
			w.start(t, "127.0.0.1:0")
			w.store.Publish(watchstore.Changes{})
			ask := func(cert, key, token string) int {
				config := &tls.Config{InsecureSkipVerify: true}
				if cert != "" {
					pair, err := tls.LoadX509KeyPair(cert, key)
					if err != nil {
						t.Fatal(err)
					}
					// A client that is asked for a certificate shows only one of an authority that
					// the server names.
					config.Certificates = []tls.Certificate{pair}
				}
				transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
				defer transport.CloseIdleConnections()
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+w.address+"/validate/annp", bytes.NewReader(review(`[{"action":"Drop"}]`)))
				if err != nil {
					t.Fatal(err)
				}
				if token != "" {
					request.Header.Set("Authorization", "Bearer "+token)
				}
				response, err := transport.RoundTrip(request)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				return response.StatusCode
			}
			eventually(t, "ready", func() error { return w.client(t, "", "").Get().AbsPath("/readyz").Do(t.Context()).Error() })
			if code := ask(dir.CertFile("asker"), dir.KeyFile("asker"), ""); code != http.StatusOK {
				t.Errorf("kube-apiserver: %d", code)
			}
			want := http.StatusOK
			if names != nil {
				want = http.StatusUnauthorized
			}
			if code := ask(dir.CertFile("other"), dir.KeyFile("other"), ""); code != want {
				t.Errorf("another name of the authority: %d, want %d", code, want)
			}
			for who, x := range map[string]struct {
				cert, key, token string
				want             int
			}{
				"a stranger":           {want: http.StatusForbidden},
				"a token":              {token: "good", want: http.StatusForbidden},
				"a client certificate": {cert: c.dir.CertFile("of-client-ca"), key: c.dir.KeyFile("of-client-ca"), want: http.StatusForbidden},
				"the front proxy":      {cert: c.dir.CertFile("of-front-proxy-ca"), key: c.dir.KeyFile("of-front-proxy-ca"), want: http.StatusUnauthorized},
				"a foreign authority":  {cert: c.dir.CertFile("of-foreign-ca"), key: c.dir.KeyFile("of-foreign-ca"), want: http.StatusForbidden},
				"a server":             {cert: dir.CertFile("server"), key: dir.KeyFile("server"), want: http.StatusUnauthorized},
			} {
				if code := ask(x.cert, x.key, x.token); code != x.want {
					t.Errorf("%s: %d, want %d", who, code, x.want)
				}
			}
			// The certificate says nothing elsewhere, though its name may be known there.
			cfg := w.config("", "")
			cfg.CertFile, cfg.KeyFile = dir.CertFile("asker"), dir.KeyFile("asker")
			client, err := rest.RESTClientFor(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Get().Resource("networkpolicies").Do(t.Context()).Error(); err == nil {
				t.Error("the API takes the certificate for somebody")
			}
			if err := w.client(t, "good", "").Get().Resource("networkpolicies").Do(t.Context()).Error(); err != nil {
				t.Errorf("the API for others: %v", err)
			}
		})
	}
	if _, err := delegated.WithWebhookClients(filepath.Join(t.TempDir(), "none"), nil); err == nil {
		t.Error("an authority that is not there opens the webhooks to unknown callers")
	}
	empty0 := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty0, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := delegated.WithWebhookClients(empty0, nil); err == nil {
		t.Error("a file without an authority opens the webhooks to unknown callers")
	}
}
