//go:build linux

package agentcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"github.com/nephele-io/nephele/internal/agent/cni"
)

// TestUnchainedStaysOut: who takes the plugin out beside a running agent does not find it put back.
func TestUnchainedStaysOut(t *testing.T) {
	dir := t.TempDir()
	list, program := filepath.Join(dir, "10-net.conflist"), filepath.Join(dir, "program")
	for path, text := range map[string]string{list: `{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge"}]}`, program: "x"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	in := func() bool {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), cni.Type)
	}
	c := &chaining{log: logr.Discard(), to: cni.Installation{ConfDir: dir, BinDir: t.TempDir(), Program: program, Entry: cni.Entry{Type: cni.Type, Socket: "/s", WhenAgentIsAway: cni.Close}}}
	if c.once(); !in() || c.trouble() != "" {
		t.Fatalf("it is not chained: %s", c.trouble())
	}
	c.leave()
	if _, err := cni.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if c.once(); in() || !strings.Contains(c.trouble(), "taken out") {
			t.Errorf("it is put back, or nothing is told: %q", c.trouble())
		}
	}
}
