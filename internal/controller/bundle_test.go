package controller

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// TestBundle: a bundle has what this process has computed, its metrics, profiles and recent log.
func TestBundle(t *testing.T) {
	logs := t.TempDir()
	now := time.Now()
	text := "time=" + now.Add(-3*time.Hour).Format(time.RFC3339) + " msg=old\ntime=" + now.Format(time.RFC3339) + " msg=new password=hunter22\n"
	if err := os.WriteFile(filepath.Join(logs, "controller.log"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	store := watchstore.New(watchstore.Options{})
	var policies watchstore.Changes
	for _, name := range []string{"b", "a"} {
		policy := &v1beta2.NetworkPolicy{}
		policy.Name = name
		policies.Policies = append(policies.Policies, watchstore.PolicyChange{Policy: policy})
	}
	store.Publish(policies)
	read := func(o Options) map[string]string {
		t.Helper()
		var packed bytes.Buffer
		o.Version = "v9"
		if err := bundle(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), store, clock.RealClock{}, o)(t.Context(), &packed, now.Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		zip, err := gzip.NewReader(&packed)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for r := tar.NewReader(zip); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return out
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			out[strings.TrimPrefix(h.Name, "nephele-support/")] = string(content)
		}
	}
	got := read(Options{LogDir: logs})
	lines := strings.Split(got["computed/networkpolicies.jsonl"], "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], `"name":"a"`) || !strings.Contains(lines[1], `"name":"b"`) {
		t.Errorf("computed policies: %q", lines)
	}
	for name, part := range map[string]string{"version.txt": "v9", "goroutines.txt": "TestBundle", "heap.txt": "heap profile", "metrics.txt": "# TYPE "} {
		if !strings.Contains(got[name], part) {
			t.Errorf("%s lacks %q: %.200s", name, part, got[name])
		}
	}
	if log := got["logs/controller.log"]; !strings.Contains(log, "msg=new") || strings.Contains(log, "msg=old") || strings.Contains(log, "hunter22") {
		t.Errorf("log: %q", log)
	}
	if left := read(Options{})["contents.json"]; !strings.Contains(left, "logs: they are not in files: kubectl logs has them") {
		t.Errorf("without files: %s", left)
	}
}
