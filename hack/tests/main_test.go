package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/tier"
)

// TestRead: of what go test -json prints, only failures, packages and what was not proven are
// shown, and all of it is counted.
func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		lines    string
		shown    []string
		hidden   []string
		unproven []string
		left     int
		passed   int
	}{
		"passed": {`{"Action":"start","Package":"x/nephele/a"}
{"Action":"output","Package":"x/nephele/a","Test":"TestA","Output":"    a_test.go:3: chatter\n"}
{"Action":"pass","Package":"x/nephele/a","Test":"TestA","Elapsed":1.5}
{"Action":"output","Package":"x/nephele/a","Output":"ok x\n"}
{"Action":"pass","Package":"x/nephele/a","Elapsed":2}
`, []string{"ok      2.0s  a\n"}, []string{"chatter", "cached"}, nil, 0, 1},
		"from the cache": {`{"Action":"output","Package":"x/nephele/a","Output":"ok x (cached)\n"}
{"Action":"pass","Package":"x/nephele/a","Elapsed":0}
`, []string{"a (cached)\n"}, nil, nil, 0, 0},
		"failed": {`{"Action":"output","Package":"x/nephele/a","Test":"TestA","Output":"    a_test.go:3: wrong\n"}
{"Action":"fail","Package":"x/nephele/a","Test":"TestA"}
{"Action":"output","Package":"x/nephele/a","Output":"FAIL x\n"}
{"Action":"fail","Package":"x/nephele/a"}
`, []string{"a_test.go:3: wrong\n", "FAIL x"}, nil, nil, 0, 0},
		"the process died": {`{"Action":"output","Package":"x/nephele/a","Test":"TestA","Output":"panic: test timed out\n"}
{"Action":"output","Package":"x/nephele/a","Output":"FAIL x\n"}
{"Action":"fail","Package":"x/nephele/a"}
`, []string{"panic: test timed out"}, nil, nil, 0, 0},
		"does not compile": {`{"Action":"build-output","ImportPath":"x/nephele/a","Output":"a.go:1:1: oh\n"}
`, []string{"a.go:1:1: oh"}, nil, nil, 0, 0},
		"skipped": {`{"Action":"output","Package":"x/nephele/a","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"x/nephele/a","Test":"TestA","Output":"    a_test.go:2: seed 7\n"}
{"Action":"output","Package":"x/nephele/a","Test":"TestA","Output":"    a_test.go:3: no browser:\n"}
{"Action":"output","Package":"x/nephele/a","Test":"TestA","Output":"        not found\n"}
{"Action":"output","Package":"x/nephele/a","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"x/nephele/a","Test":"TestA"}
{"Action":"pass","Package":"x/nephele/a"}
`, []string{"not proven: TestA (a): no browser: not found\n"}, []string{"RUN", "SKIP"}, []string{"TestA (a): no browser: not found"}, 0, 0},
		"skipped for one reason": {strings.Repeat(`{"Action":"output","Package":"x/nephele/a","Test":"TestA","Output":"    a_test.go:3: no root\n"}
{"Action":"skip","Package":"x/nephele/a","Test":"TestA"}
`, 5) + `{"Action":"pass","Package":"x/nephele/a"}
`, []string{"not proven: TestA, TestA, TestA and 2 more (a): no root\n"}, nil, slices.Repeat([]string{"TestA (a): no root"}, 5), 0, 0},
		"left": {`{"Action":"output","Package":"x/nephele/a","Test":"TestA","Output":"    a_test.go:3: ` + tier.Left + `TestB proves some\n"}
{"Action":"skip","Package":"x/nephele/a","Test":"TestA"}
`, nil, []string{"TestA"}, nil, 1, 0},
		"no tests": {`{"Action":"output","Package":"x/nephele/a","Output":"?   x\n"}
{"Action":"skip","Package":"x/nephele/a"}
`, nil, []string{"x"}, nil, 0, 0},
		"another command": {"built\nnot proven: the page: no node\n", []string{"built\n"}, nil, []string{"the page: no node"}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r := &runner{out: &out, begin: time.Now()}
			if err := r.read(strings.NewReader(c.lines)); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.shown {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not shown: %q", want, out.String())
				}
			}
			for _, not := range c.hidden {
				if strings.Contains(out.String(), not) {
					t.Errorf("%q is shown: %q", not, out.String())
				}
			}
			if !slices.Equal(r.unproven, c.unproven) || r.left != c.left || r.passed != c.passed {
				t.Errorf("unproven %q, left %d, passed %d", r.unproven, r.left, r.passed)
			}
		})
	}
}

// TestLastLine: what was not proven is counted in the last line.
func TestLastLine(t *testing.T) {
	r := &runner{begin: time.Now(), passed: 5}
	if got := r.lastLine(); !strings.Contains(got, "5 tests") || strings.Contains(got, "NOT PROVEN") || strings.Contains(got, "left to") {
		t.Error(got)
	}
	r.unproven, r.left = []string{"a", "b"}, 3
	if got := r.lastLine(); !strings.Contains(got, "NOT PROVEN HERE: 2,") || !strings.Contains(got, "3 more are left") {
		t.Error(got)
	}
}

// TestPackagesOf finds the packages that own files.
func TestPackagesOf(t *testing.T) {
	t.Chdir("../..")
	got := packagesOf([]string{"internal/tier/tier.go", "internal/cloud/plan/testdata/worlds/x.json", "README.md", "standalone/e2e/a_test.go", "packaging/go.mod",
		"internal/tier/other.go", "test/cluster/x.go", "gone/away/x.go"})
	want := map[string][]string{".": {"./internal/tier", "./internal/cloud/plan"}, "standalone": {"./e2e"}}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestInOrder: a part that fails does not keep the others from being run, and fails the run.
func TestInOrder(t *testing.T) {
	var out strings.Builder
	r := &runner{out: &out, begin: time.Now()}
	bad, good := part{title: "bad"}.runs("go", "tool", "there-is-no-such-tool"), part{title: "good"}.runs("go", "env", "GOOS")
	if err := r.inOrder(t.Context(), []part{bad, good}); err == nil || !strings.Contains(err.Error(), "bad: go tool") || !strings.Contains(out.String(), "==> good") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if err := r.inOrder(t.Context(), []part{good}); err != nil {
		t.Error(err)
	}
}

// TestChoose: a name that is no part's is refused, with those that are.
func TestChoose(t *testing.T) {
	if got, err := choose(longParts(state{}), "race,worlds"); err != nil || len(got) != 2 || got[0].name != "race" || got[1].name != "worlds" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := choose(longParts(state{}), "races"); err == nil || !strings.Contains(err.Error(), "worlds") {
		t.Errorf("%v", err)
	}
}

// TestResultsDependOnWhatTestsRead: a result is of one machine, and that of a nested module's test
// of one state of the repository, in every tier.
func TestResultsDependOnWhatTestsRead(t *testing.T) {
	now, seen := state{sources: "sources", machine: "machine"}, 0
	for _, p := range slices.Concat(testParts(now), longParts(now)) {
		for _, c := range p.commands {
			if c[0] != "go" || c[1] != "test" {
				continue
			}
			seen++
			want := now.machine
			if slices.Contains(modules, p.dir) {
				want = now.whole()
			}
			if !slices.Contains(c, skipping(want)) {
				t.Errorf("%s: %q does not depend on %s", p.name, c, want)
			}
		}
	}
	if seen != 8 {
		t.Errorf("%d parts test modules, want 8", seen)
	}
}

// TestMachine: a program that is installed makes it another machine.
func TestMachine(t *testing.T) {
	without := func(program string) func(string) bool {
		return func(name string) bool { return name != program }
	}
	seen := map[string]string{}
	for _, program := range append([]string{""}, programs...) {
		got := machine(without(program))
		if got != machine(without(program)) {
			t.Errorf("without %q it is not the same twice", program)
		}
		if other, is := seen[got]; is {
			t.Errorf("without %q and without %q it is the same", program, other)
		}
		seen[got] = program
	}
	file := filepath.Join(t.TempDir(), "plugin.so")
	if isInstalled(file) || os.WriteFile(file, nil, 0o600) != nil || !isInstalled(file) || !isInstalled("go") {
		t.Error("what is installed is not found")
	}
}

// TestProgramsOfTestsAreKnown: each program that a test looks for by name is one by which machines
// differ.
func TestProgramsOfTestsAreKnown(t *testing.T) {
	lookup, seen := regexp.MustCompile(`LookPath\("([^"]+)"\)`), 0
	for _, dir := range []string{"internal", "packaging", "standalone", "test"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, found := range lookup.FindAllSubmatch(text, -1) {
				seen++
				if !slices.Contains(programs, string(found[1])) {
					t.Errorf("%s looks for %s, which programs does not list", path, found[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen == 0 {
		t.Error("no test looks for a program")
	}
}

// TestResultsAreOfOneState: the go command takes a former result for the same state of the
// repository, and for no other one.
func TestResultsAreOfOneState(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n", "x_test.go": "package x\n\nimport \"testing\"\n\nfunc TestX(*testing.T) {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := fmt.Sprint(time.Now().UnixNano())
	for _, c := range []struct {
		state  string
		cached bool
	}{{first, false}, {first, true}, {first + "0", false}} {
		words := inModule("x", "x", dir, 1).within(c.state).commands[0]
		cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), `"Test":"TestX"`) {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := strings.Contains(string(out), "(cached)"); got != c.cached {
			t.Errorf("state %s: from the cache %v, want %v\n%s", c.state, got, c.cached, out)
		}
	}
}
