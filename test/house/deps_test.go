package house

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	requirement = regexp.MustCompile(`^(?:require\s+)?([a-z0-9.-]+\.[a-z]+/\S+) v\S+(.*)$`)
	listed      = regexp.MustCompile("^\\| (`[^|]+`) \\| \\S.* \\|$")
)

// TestDependenciesAreExplained: docs/dependencies.md lists what the modules require directly, and
// nothing else.
func TestDependenciesAreExplained(t *testing.T) {
	read := func(file string) []string {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(raw), "\n")
	}
	required := map[string]string{}
	for _, file := range []string{"go.mod", "standalone/go.mod", "packaging/go.mod", "test/cluster/go.mod"} {
		for _, line := range read(file) {
			m := requirement.FindStringSubmatch(strings.TrimSpace(line))
			if m != nil && !strings.Contains(m[2], "// indirect") && m[1] != module {
				required[m[1]] = file
			}
		}
	}
	if len(required) < 10 {
		t.Fatalf("found only %d direct requirements", len(required))
	}
	explained := map[string]bool{}
	for _, line := range read("docs/dependencies.md") {
		if line == "## Tools" {
			break
		}
		if m := listed.FindStringSubmatch(line); m != nil {
			for name := range strings.SplitSeq(m[1], ", ") {
				explained[strings.Trim(name, "`")] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(required)) {
		if !explained[name] {
			t.Errorf("%s requires %s, and docs/dependencies.md does not say why", required[name], name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(explained)) {
		if required[name] == "" {
			t.Errorf("docs/dependencies.md explains %s, which no module requires directly", name)
		}
	}
}
