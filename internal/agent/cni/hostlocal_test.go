package cni_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/agent/cni"
)

// TestReadHostLocal: of what lies in the folder only reserved addresses are believed.
func TestReadHostLocal(t *testing.T) {
	dir := t.TempDir()
	if got, err := cni.ReadHostLocal(filepath.Join(dir, "none")); err != nil || got != nil {
		t.Fatal(got, err)
	}
	for name, text := range map[string]string{
		"cbr0/10.244.1.7":         "c7\r\neth0",
		"cbr0/fd00__1":            "c8\neth0",
		"cbr0/last_reserved_ip.0": "10.244.1.7",
		"cbr0/lock":               "",
		"cbr0/10.244.1.8":         "",
		"cbr0/10.244.1.9":         strings.Repeat("x", 600),
		"cbr0/fe80::1%eth0":       "c9",
		"cbr0/10.244.1.10/file":   "c10",
		"file":                    "c11",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "file"), filepath.Join(dir, "cbr0/10.244.1.11")); err != nil {
		t.Fatal(err)
	}
	got, err := cni.ReadHostLocal(dir)
	var texts []string
	for _, r := range got {
		texts = append(texts, fmt.Sprintf("%s %s %s", r.Address, r.Network, r.Container))
	}
	if want := "10.244.1.7 cbr0 c7, fd00::1 cbr0 c8"; err != nil || strings.Join(texts, ", ") != want {
		t.Errorf("%s, %v, want %s", texts, err, want)
	}
}
