//go:build linux

package agentcmd

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/disk"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// TestFarewell: an agent that is uninstalled reports of every policy, and in its info, that nothing
// is enforced any more.
func TestFarewell(t *testing.T) {
	var mu sync.Mutex
	var calls []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		said := strings.Contains(string(body), uninstalledText)
		calls = append(calls, r.Method+" "+r.URL.Path)
		switch {
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"AntreaAgentInfo","apiVersion":"crd.antrea.io/v1beta1","metadata":{"name":"web","resourceVersion":"1"}}`)
		case !said, r.Method == http.MethodPut && !strings.Contains(string(body), `"Uninstalled"`):
			t.Errorf("%s %s says %q", r.Method, r.URL.Path, body)
		}
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '" + server.URL + "'}}]\ncontexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := agentFlags{cluster: terminal.Cluster{Kubeconfig: kubeconfig}}
	policy := func(name string) *v1beta2.NetworkPolicy {
		return &v1beta2.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 3}}
	}
	kept := &disk.State{Key: "vms/web", Computed: &enforcer.Computed{Policies: []*v1beta2.NetworkPolicy{policy("p"), policy("q")}}}
	if err := f.farewell(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	want := []string{"GET /apis/crd.antrea.io/v1beta1/antreaagentinfos/web", "PUT /apis/crd.antrea.io/v1beta1/antreaagentinfos/web",
		"POST /apis/controlplane.antrea.io/v1beta2/networkpolicies/p/status", "POST /apis/controlplane.antrea.io/v1beta2/networkpolicies/q/status"}
	if !slices.Equal(calls, want) {
		t.Errorf("called %q", calls)
	}
}
