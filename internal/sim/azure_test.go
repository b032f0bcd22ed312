package sim

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
)

// TestAzureSide starts a server with an Azure side, talks to it by the certificate that it tells,
// and finds everything again after a restart.
func TestAzureSide(t *testing.T) {
	const tenant, subscription = "11111111-2222-4333-8444-555555555555", "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
	b := build.New(tenant, subscription, "westeurope")
	client := b.Principal("nephele", "secret")
	nsg := b.SecurityGroup("rg", "nsg", build.Rule("no-ssh", "Inbound", 100, "Deny", "Tcp", "", "", "22"))
	vnet := b.Network("rg", "v", []string{"10.1.0.0/16"}, []string{"s", "10.1.1.0/24"})
	b.Machine("rg", "one", vnet+"/subnets/s", "10.1.1.4", "")
	b.Machine("rg", "two", vnet+"/subnets/s", "10.1.1.5", nsg)
	file := filepath.Join(t.TempDir(), "state.json")
	start := func(s aws.State) *Server {
		t.Helper()
		server, err := Start(t.Context(), Options{State: s, StateFile: file, Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
		return server
	}
	get := func(c *http.Client, u, token string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return answerOf(t, c, r)
	}
	trusting := func(server *Server) *http.Client {
		t.Helper()
		_, pem := get(http.DefaultClient, server.URL()+"/_sim/azure/ca.pem", "")
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(pem)) {
			t.Fatalf("not a certificate: %s", pem)
		}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	}
	first := start(aws.State{Azure: &b.State})
	c := trusting(first)
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {client}, "client_secret": {"secret"}, "scope": {"https://management.azure.com/.default"}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, first.AzureURL()+"/"+tenant+"/oauth2/v2.0/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	status, text := answerOf(t, c, r)
	var token struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(text), &token); err != nil || status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	// A login by federation services knows no tenant, and gives the same.
	r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, first.AzureURL()+"/adfs/oauth2/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if status, text := answerOf(t, c, r); status != 200 || !strings.Contains(text, "access_token") {
		t.Fatalf("%d %s", status, text)
	}
	asg := "/subscriptions/" + subscription + "/resourceGroups/rg/providers/Microsoft.Network/applicationSecurityGroups/new?api-version=2025-03-01"
	r, err = http.NewRequestWithContext(t.Context(), http.MethodPut, first.AzureURL()+asg, strings.NewReader(`{"location": "westeurope"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token.Token)
	if status, text := answerOf(t, c, r); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	for port, want := range map[string]bool{"22": false, "23": true} {
		_, text := get(http.DefaultClient, first.URL()+"/_sim/azure/allowed?src=one&dst=two&port="+port, "")
		var v azure.Verdict
		if err := json.Unmarshal([]byte(text), &v); err != nil || v.Allowed != want {
			t.Errorf("port %s: %s", port, text)
		}
	}
	if status, text := get(http.DefaultClient, first.URL()+"/_sim/azure/allowed?src=one&dst=nobody", ""); status != 400 {
		t.Errorf("an unknown name: %d %s", status, text)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := start(aws.State{})
	if status, text := get(trusting(second), second.AzureURL()+asg, token.Token); status != 200 {
		t.Errorf("after a restart: %d %s", status, text)
	}
}

func answerOf(t *testing.T, c *http.Client, r *http.Request) (int, string) {
	t.Helper()
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// TestNoAzureSide: without a subscription there is no second listener.
func TestNoAzureSide(t *testing.T) {
	server, err := Start(t.Context(), Options{Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	if server.AzureURL() != "" || server.AzureCertificate() != nil {
		t.Errorf("there is an Azure side at %s", server.AzureURL())
	}
}
