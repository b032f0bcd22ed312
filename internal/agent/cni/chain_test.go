package cni_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/agent/cni"
)

var entry = cni.Entry{Type: cni.Type, Socket: cni.DefaultSocket, WhenAgentIsAway: cni.Close}

const (
	bridge = `{"type":"bridge","bridge":"cni0","ipam":{"type":"host-local"}}`
	ours   = `{"type":"nephele-cni","socket":"/run/nephele/agent.sock","whenAgentIsAway":"close"}`
	other  = `{"type":"nephele-cni","socket":"/elsewhere","whenAgentIsAway":"open"}`
)

func listOf(plugins ...string) string {
	return `{"cniVersion":"1.1.0","name":"pods","own":7,"plugins":[` + strings.Join(plugins, ",") + `]}`
}

// compact makes texts of the same JSON the same.
func compact(t *testing.T, text []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestChain(t *testing.T) {
	for name, c := range map[string]struct{ list, want, without, wrong string }{
		"one plugin":           {list: listOf(bridge), want: listOf(bridge, ours), without: listOf(bridge)},
		"chained":              {list: listOf(bridge, ours), want: listOf(bridge, ours), without: listOf(bridge)},
		"chained before one":   {list: listOf(bridge, ours, bridge), want: listOf(bridge, ours, bridge), without: listOf(bridge, bridge)},
		"chained otherwise":    {list: listOf(bridge, other), want: listOf(bridge, ours), without: listOf(bridge)},
		"chained twice":        {list: listOf(bridge, ours, ours), want: listOf(bridge, ours), without: listOf(bridge)},
		"chained as the first": {list: listOf(ours, bridge), want: listOf(bridge, ours), without: listOf(bridge)},
		"a single plugin":      {list: bridge, wrong: "plugins"},
		"no plugins":           {list: listOf(), wrong: "no plugins"},
		"no list":              {list: `{"plugins":7}`, wrong: "plugins"},
		"no JSON":              {list: "{", wrong: "list of CNI plugins"},
		"nothing":              {list: "", wrong: "list of CNI plugins"},
	} {
		got, changed, err := cni.Chain([]byte(c.list), entry)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v, want something about %q", name, err, c.wrong)
			}
			continue
		}
		if err != nil || compact(t, got) != compact(t, []byte(c.want)) || changed == (c.list == c.want) {
			t.Errorf("%s: %s, changed %t, %v", name, got, changed, err)
			continue
		}
		if again, changed, err := cni.Chain(got, entry); err != nil || changed || !bytes.Equal(again, got) {
			t.Errorf("%s, again: %s, changed %t, %v", name, again, changed, err)
		}
		if out, changed, err := cni.Unchain(got); err != nil || !changed || compact(t, out) != compact(t, []byte(c.without)) {
			t.Errorf("%s, taken out: %s, changed %t, %v", name, out, changed, err)
		}
	}
}

// TestInstall installs the plugin into the list that a runtime uses, finds it kept when somebody
// writes the list anew, and takes it out.
func TestInstall(t *testing.T) {
	conf, bin := t.TempDir(), t.TempDir()
	program := filepath.Join(t.TempDir(), "program")
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	write(program, "version 1", 0o700)
	i := cni.Installation{ConfDir: conf, BinDir: bin, Program: program, Entry: entry}
	if _, _, err := i.Install(); err == nil || !strings.Contains(err.Error(), "no configuration") {
		t.Errorf("without a list: %v", err)
	}
	first, second := filepath.Join(conf, "10-first.conflist"), filepath.Join(conf, "20-second.conflist")
	write(first, listOf(bridge), 0o600)
	write(second, listOf(bridge), 0o644)
	write(filepath.Join(conf, "00-no"), "no configuration", 0o600)
	install := func(want bool) {
		t.Helper()
		list, changed, err := i.Install()
		if err != nil || list != first || changed != want {
			t.Errorf("%s, changed %t, %v, want %s and %t", list, changed, err, first, want)
		}
	}
	install(true)
	install(false)
	info, err := os.Stat(first)
	if err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(read(first), cni.Type) || strings.Contains(read(second), cni.Type) {
		t.Errorf("%v, %v:\n%s", info.Mode(), err, read(first))
	}
	if info, err := os.Stat(filepath.Join(bin, cni.Type)); err != nil || info.Mode().Perm() != 0o755 || read(filepath.Join(bin, cni.Type)) != "version 1" {
		t.Errorf("the program is %v, %v", info, err)
	}
	write(first, listOf(bridge), 0o600) // as a plugin that starts anew does
	install(true)
	write(program, "version 2", 0o700)
	if err := os.Chtimes(program, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	install(true)
	install(false)
	if got := read(filepath.Join(bin, cni.Type)); got != "version 2" {
		t.Errorf("the program is %q", got)
	}
	lists, err := cni.Remove(conf)
	if err != nil || !slices.Equal(lists, []string{first}) || strings.Contains(read(first), cni.Type) {
		t.Errorf("taken out of %q, %v:\n%s", lists, err, read(first))
	}
	if lists, err := cni.Remove(conf); err != nil || len(lists) > 0 {
		t.Errorf("taken out of %q, %v", lists, err)
	}
	if _, err := os.Stat(filepath.Join(bin, cni.Type)); err != nil {
		t.Errorf("the program went: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(conf, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	write(filepath.Join(conf, "00-single.conf"), bridge, 0o600)
	if _, _, err := i.Install(); err == nil || !strings.Contains(err.Error(), "00-single.conf") {
		t.Errorf("a single plugin: %v", err)
	}
}
