package chart

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var updateReadme = flag.Bool("update-readme", false, "write the README of the chart anew")

// TestReadme: the README of the chart says of every value what values.yaml does.
func TestReadme(t *testing.T) {
	raw, err := os.ReadFile(controller + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := readme(string(raw))
	path := controller + "/README.md"
	if *updateReadme {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what values.yaml says (%v): cd packaging && go test ./chart -run TestReadme -args -update-readme", path, err)
	}
	if n := strings.Count(want, "\n| `"); n < 80 {
		t.Errorf("only %d values", n)
	}
}

var valueLine = regexp.MustCompile(`^( *)([A-Za-z]+):(?: (.*))?$`)

// readme makes the README of the values: their paths, what they are if nothing else is said, and
// the comments above them.
func readme(values string) string {
	var b strings.Builder
	b.WriteString("# The chart nephele\n\nThe controller of Nephele. Install `nephele-crds` first, then this one:\n" +
		"`helm install nephele charts/nephele -n kube-system`.\n[Installing](../../docs/operate.md) says what comes before and after.\n" +
		"`helm test nephele` asks whether something needs attention.\nWritten by `packaging/chart` from `values.yaml`.\n\n| Value | Default | Meaning |\n|---|---|---|\n")
	var path, comment []string
	for line := range strings.SplitSeq(values, "\n") {
		trimmed := strings.TrimSpace(line)
		if text, is := strings.CutPrefix(trimmed, "# "); is {
			comment = append(comment, text)
			continue
		}
		m := valueLine.FindStringSubmatch(line)
		if m == nil {
			comment = nil
			continue
		}
		path = append(path[:len(m[1])/2], m[2])
		if m[3] != "" || len(comment) > 0 {
			value := ""
			if m[3] != "" {
				value = "`" + strings.ReplaceAll(m[3], "|", "\\|") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.Join(path, "."), value, strings.ReplaceAll(strings.Join(comment, " "), "|", "\\|"))
		}
		comment = nil
	}
	return b.String()
}
