package agentcmd

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/platform/certs"
)

// tokenOf makes a token of a ServiceAccount, with a signature that nobody looks at.
func tokenOf(account string, issued time.Time, life time.Duration) string {
	claims := fmt.Sprintf(`{"sub": "system:serviceaccount:vms:%s", "iat": %d, "exp": %d}`, account, issued.Unix(), issued.Add(life).Unix())
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// TestRenewToken renews tokens of hosts when it is time, in their kubeconfig, and leaves all else
// alone.
func TestRenewToken(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	asked, refuse := 0, false
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/vms/serviceaccounts/nephele-agent-web/token" {
			http.NotFound(w, r)
			return
		}
		var request authenticationv1.TokenRequest
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || request.Spec.ExpirationSeconds == nil || *request.Spec.ExpirationSeconds != int64(credential.Lifetime/time.Second) {
			t.Errorf("%+v, %v", request, err)
		}
		asked++
		if refuse {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if err := json.NewEncoder(w).Encode(authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "new"}}); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	to := &clientcmdapi.Cluster{Server: server.URL, InsecureSkipTLSVerify: true}
	for _, c := range []struct {
		what, token string
		refuse      bool
		want        string
	}{
		{"fresh", tokenOf("nephele-agent-web", now.Add(-24*time.Hour), credential.Lifetime), false, ""},
		{"a third of its life is over", tokenOf("nephele-agent-web", now.Add(-60*time.Hour), credential.Lifetime), false, "new"},
		{"the first, short one", tokenOf("nephele-agent-web", now.Add(-10*time.Minute), time.Hour), false, "new"},
		{"refused", tokenOf("nephele-agent-web", now.Add(-60*time.Hour), credential.Lifetime), true, ""},
		{"of somebody else", tokenOf("builder", now.Add(-60*time.Hour), credential.Lifetime), false, ""},
		{"no token of a ServiceAccount", "secret", false, ""},
		{"none", "", false, ""},
	} {
		asked, refuse = 0, c.refuse
		path := filepath.Join(t.TempDir(), "kubeconfig")
		text, err := credential.Kubeconfig(credential.Host{Namespace: "vms", Name: "web"}, to, &clientcmdapi.AuthInfo{Token: c.token})
		if err != nil {
			t.Fatal(err)
		}
		if err := credential.WritePrivate(path, text); err != nil {
			t.Fatal(err)
		}
		renewed, err := renewer{path}.renew(t.Context(), now)
		if renewed != (c.want != "") || (err != nil) != c.refuse || (asked > 0) != (c.want != "" || c.refuse) {
			t.Errorf("%s: renewed %t, %v, asked %d times", c.what, renewed, err, asked)
		}
		after, err := clientcmd.LoadFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := c.token
		if c.want != "" {
			want = c.want
		}
		if got := after.AuthInfos["vms-web"].Token; got != want {
			t.Errorf("%s: the token is %q, want %q", c.what, got, want)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", c.what, info.Mode(), err)
		}
	}
	if _, err := (renewer{filepath.Join(t.TempDir(), "none")}).renew(t.Context(), now); err == nil {
		t.Error("no file is no error")
	}
}

// TestHostsHearOfAuthorities: with its token a host renews by what authorities it knows the API
// server, if those published are the successors of what it knows.
func TestHostsHearOfAuthorities(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	var published string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1/namespaces/kube-system/configmaps/antrea-ca":
			if err := json.NewEncoder(w).Encode(map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "data": map[string]string{credential.ClusterAuthoritiesKey: published}}); err != nil {
				t.Error(err)
			}
		default:
			if err := json.NewEncoder(w).Encode(authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "new"}}); err != nil {
				t.Error(err)
			}
		}
	}))
	defer server.Close()
	dir, err := certs.Open(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := dir.Authority("other")
	if err != nil {
		t.Fatal(err)
	}
	known := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for what, c := range map[string]struct{ published, want string }{
		"another one before it": {string(other.CertPEM()) + known, string(other.CertPEM()) + known},
		"others":                {string(other.CertPEM()), known},
		"nothing":               {"", known},
		"no certificates":       {"x", known},
	} {
		published = c.published
		path := filepath.Join(t.TempDir(), "kubeconfig")
		text, err := credential.Kubeconfig(credential.Host{Namespace: "vms", Name: "web"}, &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: []byte(known)},
			&clientcmdapi.AuthInfo{Token: tokenOf("nephele-agent-web", now.Add(-60*time.Hour), credential.Lifetime)})
		if err == nil {
			err = credential.WritePrivate(path, text)
		}
		if err != nil {
			t.Fatal(err)
		}
		if renewed, err := (renewer{path}).renew(t.Context(), now); !renewed || err != nil {
			t.Error(what, renewed, err)
		}
		after, err := clientcmd.LoadFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(after.Clusters["nephele"].CertificateAuthorityData); got != c.want {
			t.Errorf("%s: %s", what, got)
		}
	}
}
