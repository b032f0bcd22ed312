package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cli/flowscmd"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
)

// flowsArgs are the arguments of a command about the example of docs/flows.md.
func flowsArgs(command string, more ...string) []string {
	root := filepath.Join("..", "..")
	return append(strings.Fields(command), append([]string{"-f", filepath.Join(root, "config", "samples", "quickstart.yaml"), "--snapshot", previewtest.HybridCloud}, more...)...)
}

// TestFlowsCommand reads files as a user does: good ones, and what else may lie in a folder.
func TestFlowsCommand(t *testing.T) {
	example := filepath.Join("..", "..", "docs", "examples", "flows")
	whole := func(more ...string) ran { return nephele(t, "", flowsArgs("flows --logs "+example, more...)...) }
	for _, c := range []struct {
		flags string
		code  int
		flows int
	}{
		{"", ExitDone, 5}, {"--denied", ExitDone, 1}, {"--accepted", ExitDone, 4}, {"--to border_02", ExitDone, 3}, {"--from 203.0.113.0/24", ExitDone, 2},
		{"--from quickstart/CVP --port 22", ExitDone, 2}, {"--policy quickstart/switches", ExitDone, 3}, {"--policy switches --denied", ExitDone, 1},
		{"--differs", ExitDone, 0}, {"--affected", ExitNo, 1}, {"--limit 2", ExitDone, 2}, {"--since 2026-03-01T12:01:30Z", ExitDone, 2}, {"--minutes", ExitDone, 5},
		{"--since 1d", ExitDone, 0},
	} {
		r := whole(append(strings.Fields(c.flags), "-o", "json")...)
		var got flowscmd.Answer
		if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != c.code || len(got.Flows) != c.flows {
			t.Errorf("%s: exit %d, want %d; %d flows, want %d; %v\n%s", c.flags, r.code, c.code, len(got.Flows), c.flows, err, r.err)
		}
	}
	for flags, want := range map[string]string{
		"--logs /nowhere/at/all": "--logs: lstat /nowhere/at/all: no such file or directory",
		"--logs " + t.TempDir():  "there are no files in",
		"--since yesterday":      `--since "yesterday": want how long ago, such as 30m, 12h or 7d, or a time`,
		"--denied --accepted":    "--denied and --accepted: give one of them",
		"-o xml":                 `--output "xml": want table or json`,
	} {
		logs := []string{"--logs", example}
		if strings.HasPrefix(flags, "--logs") {
			logs = nil
		}
		if r := nephele(t, "", flowsArgs("flows", append(logs, strings.Fields(flags)...)...)...); r.code != ExitBadInput || !strings.Contains(r.err, want) {
			t.Errorf("%s: exit %d: %s; want %q", flags, r.code, r.err, want)
		}
	}
	if r := nephele(t, "", flowsArgs("flows")...); r.code != ExitBadInput || !strings.Contains(r.err, "--filename: it is about flow logs; give --logs") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	logs := t.TempDir()
	for name, text := range map[string]string{
		"broken.parquet": "PAR1 and nothing", "half.log.gz": "\x1f\x8b\x08\x00", "AWSLogs/other.log": "2 1 eni-1 - - - - - - - 1772366400 1772366400 - NODATA\n",
		"notes.txt": "these are notes\n", ".hidden": "x", "AWSLogs/bad.log": "2 123456789012 eni-0a 10.0.0.9\n",
	} {
		if err := os.MkdirAll(filepath.Join(logs, "AWSLogs"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(logs, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := nephele(t, "", flowsArgs("flows", "--logs", logs, "--logs", example)...)
	for _, want := range []string{"broken.parquet: a broken file of Parquet", "half.log.gz: not a whole gzip file", "notes.txt: line 1: the flow log lacks the fields", "bad.log: line 1: 4 fields: want 14: left out"} {
		if r.code != ExitDone || !strings.Contains(r.err, want) || strings.Contains(r.err, ".hidden") || strings.Count(r.stdout, "\n") != 6 {
			t.Errorf("exit %d, no %q in\n%s%s", r.code, want, r.err, r.stdout)
		}
	}
	if r := nephele(t, "", flowsArgs("flows", "--logs", filepath.Join(logs, "broken.parquet"))...); r.code != ExitBadInput || !strings.Contains(r.err, "a broken file of Parquet") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}

// TestFlowsRules counts what rules decided, and names those that decided nothing.
func TestFlowsRules(t *testing.T) {
	example := filepath.Join("..", "..", "docs", "examples", "flows")
	r := nephele(t, "", flowsArgs("flows --rules --logs "+example)...)
	for _, want := range []string{
		"2            03-01 12:01  allow by rule \"management\" (AntreaNetworkPolicy quickstart/switches", "own group Arista Demo, egress all to 0.0.0.0/0",
		"0            -            allow by rule \"ping\"",
	} {
		if r.code != ExitDone || !strings.Contains(r.stdout, want) {
			t.Errorf("exit %d, no %q in\n%s%s", r.code, want, r.stdout, r.err)
		}
	}
	unused := nephele(t, "", flowsArgs("flows --unused --logs "+example)...)
	if unused.code != ExitDone || strings.Contains(unused.stdout, "management") || !strings.Contains(unused.stdout, "ping") || !strings.Contains(unused.err, "seen from 2026-03-01T12:00:00Z to 2026-03-01T12:03:00Z") {
		t.Errorf("exit %d:\n%s%s", unused.code, unused.stdout, unused.err)
	}
}

// TestRecommendCommand writes files that "nephele plan" takes.
func TestRecommendCommand(t *testing.T) {
	example, out := filepath.Join("..", "..", "docs", "examples", "flows"), filepath.Join(t.TempDir(), "out")
	r := nephele(t, "", flowsArgs("recommend quickstart --logs "+example, "-o", out)...)
	if r.code != ExitNo || !strings.Contains(r.err, "Of 3 flows that were seen and are allowed today they cut 0; of those that were dropped they open 1") {
		t.Fatalf("exit %d: %s", r.code, r.err)
	}
	files, err := filepath.Glob(filepath.Join(out, "*.yaml"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v: %v", err, files)
	}
	if plan := nephele(t, "", flowsArgs("plan", "-f", out, "--staged")...); plan.code == ExitBadInput {
		t.Errorf("exit %d: %s", plan.code, plan.err)
	}
	for args, want := range map[string]string{
		"recommend quickstart":                                        "--filename: it is about flow logs",
		"recommend quickstart --priority 0 --logs " + example:         "--priority 0: want a number from 1 to 10000",
		"recommend quickstart --outside everywhere --logs " + example: `--outside "everywhere": want a range`,
	} {
		if r := nephele(t, "", flowsArgs(args)...); r.code != ExitBadInput || !strings.Contains(r.err, want) {
			t.Errorf("%s: exit %d: %s; want %q", args, r.code, r.err, want)
		}
	}
	if r := nephele(t, "", flowsArgs("recommend nobody --logs "+example)...); r.code != ExitNo || !strings.Contains(r.err, "nothing was seen that machines of namespace nobody let in") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}
