package house

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var requirement = regexp.MustCompile(`^(?:require\s+)?([a-z0-9.-]+\.[a-z]+/\S+) v\S+(?: // (.*))?$`)

// TestDependenciesAreExplained: behind each direct requirement of a module, in the first go.mod
// that has it, a comment says what it is for. docs/reference/dependencies.md is made of these.
func TestDependenciesAreExplained(t *testing.T) {
	explained, found := map[string]bool{module: true}, 0
	for _, file := range []string{"go.mod", "standalone/go.mod", "packaging/go.mod", "test/cluster/go.mod"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var unexplained []string
		for line := range strings.Lines(string(raw)) {
			m := requirement.FindStringSubmatch(strings.TrimSpace(line))
			switch {
			case m == nil || strings.HasPrefix(m[2], "indirect"):
			case m[2] != "":
				explained[m[1]] = true
				found++
			case !explained[m[1]]:
				unexplained = append(unexplained, m[1])
			}
		}
		for _, name := range unexplained {
			t.Errorf("%s requires %s: write behind it // and what it is for, then make generate", file, name)
		}
	}
	if found < 60 {
		t.Errorf("found only %d direct requirements with a reason", found)
	}
}
