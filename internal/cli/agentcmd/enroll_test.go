package agentcmd

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nephele-io/nephele/internal/enroll"
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
		if strings.HasSuffix(r.URL.Path, "/api/v1") {
			fmt.Fprint(
				w,
				`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"serviceaccounts","kind":"ServiceAccount","namespaced":true},{"name":"serviceaccounts/token","kind":"TokenRequest","group":"authentication.k8s.io","version":"v1","namespaced":true}]}`,
			)
			return
		}
		if !strings.HasSuffix(r.URL.Path, "/serviceaccounts/nephele-agent-web/token") {
			fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
			return
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
	cfg := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	for _, c := range []struct {
		what, token string
		refuse      bool
		want        string
	}{
		{"fresh", tokenOf("nephele-agent-web", now.Add(-24*time.Hour), enroll.Lifetime), false, ""},
		{"a third of its life is over", tokenOf("nephele-agent-web", now.Add(-60*time.Hour), enroll.Lifetime), false, "new"},
		{"the first, short one", tokenOf("nephele-agent-web", now.Add(-10*time.Minute), time.Hour), false, "new"},
		{"refused", tokenOf("nephele-agent-web", now.Add(-60*time.Hour), enroll.Lifetime), true, ""},
		{"of somebody else", tokenOf("builder", now.Add(-60*time.Hour), enroll.Lifetime), false, ""},
		{"no token of a ServiceAccount", "secret", false, ""},
		{"none", "", false, ""},
	} {
		asked, refuse = 0, c.refuse
		path := filepath.Join(t.TempDir(), "kubeconfig")
		to, err := sameServer(cfg, "", "")
		if err != nil {
			t.Fatal(err)
		}
		text, err := hostKubeconfig(enroll.Host{Namespace: "vms", Name: "web"}, to, &clientcmdapi.AuthInfo{Token: c.token})
		if err != nil {
			t.Fatal(err)
		}
		if err := writePrivate(path, text); err != nil {
			t.Fatal(err)
		}
		renewed, err := renewer{path, testNeeds().Client}.renew(t.Context(), now)
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
	if _, err := (renewer{filepath.Join(t.TempDir(), "none"), testNeeds().Client}).renew(t.Context(), now); err == nil {
		t.Error("no file is no error")
	}
}

func TestParseHost(t *testing.T) {
	for _, text := range []string{"", "web", "/web", "vms/", "a/b/c"} {
		if _, err := enroll.ParseHost(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
