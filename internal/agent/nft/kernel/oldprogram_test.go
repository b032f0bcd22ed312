package kernel_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
)

// TestProgramOfTheHost plays what administrators and scripts do with the nft program of the host,
// which may be older than the kernel and not know all that our table has: they list rules, store
// them, load them again after a flush, and delete what they do not know. Nothing of that changes
// what is in force, and their own rules are loaded.
func TestProgramOfTheHost(t *testing.T) {
	host := nfttest.NewHost(t)
	path, err := exec.LookPath("nft")
	if err != nil {
		t.Skip("not proven: nft is not here")
	}
	if version, err := exec.Command(path, "--version").Output(); err == nil {
		t.Logf("%s", version)
	}
	table := open(t, host)
	p := programs(700, 1)[0]
	if _, err := table.Apply(p); err != nil {
		t.Fatal(err)
	}
	if !table.Owned() {
		t.Skip("not proven: this kernel knows no tables that belong to a process")
	}
	nft := func(args ...string) (out string, err error) {
		var said bytes.Buffer
		cmd := exec.Command(path, args...)
		cmd.Stdout, cmd.Stderr = &said, &said
		err = host.Do(cmd.Run)
		return said.String(), err
	}
	listed, err := nft("list", "ruleset")
	if err != nil || !strings.Contains(listed, "table inet nephele") {
		t.Fatalf("%v: %s", err, listed)
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name  string
		args  []string
		fails bool
	}{
		{"what was listed is loaded again", []string{"-f", file("again", listed)}, true},
		{"after a flush", []string{"-f", file("flushed", "flush ruleset\n"+listed)}, true},
		{"our table is deleted", []string{"delete", "table", "inet", "nephele"}, true},
		{"our chains are flushed", []string{"flush", "table", "inet", "nephele"}, true},
		{"everything is flushed", []string{"flush", "ruleset"}, false},
		{"rules of the host's own are loaded as scripts do", []string{"-f", file("own", "flush ruleset\ntable inet own { chain in { type filter hook input priority 0; tcp dport 22 accept; }; }\n")}, false},
	} {
		out, err := nft(c.args...)
		if (err != nil) != c.fails {
			t.Errorf("%s: %v, %s", c.name, err, out)
		}
		verify(t, table, p)
	}
	if out, err := nft("list", "table", "inet", "own"); err != nil {
		t.Errorf("the rules of the host's own: %v, %s", err, out)
	}
	// The next process goes on from what is there.
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	next := open(t, host)
	if w, err := next.Apply(p); err != nil || w.Messages > 1 {
		t.Errorf("%+v, %v", w, err)
	}
	verify(t, next, p)
}
