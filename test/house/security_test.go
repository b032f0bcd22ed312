package house

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// mostWords is how long docs/security.md is at most.
const mostWords = 1000

// TestSecurityPages: each line of the tables of docs/security.md, and of the list of threats that
// docs/reference/threats.md is made of, names a test that exists. So does every other line of these
// pages that names one. The first is short enough to be read.
func TestSecurityPages(t *testing.T) {
	t.Parallel()
	known, declared := map[string]bool{}, regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
	for _, f := range parseTree(t) {
		if !f.test {
			continue
		}
		text, err := os.ReadFile(f.path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			known[m[1]] = true
		}
	}
	for page, atLeast := range map[string]int{"docs/security.md": 25, "docs/reference/threats.md": 60} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if lines := namedTests(t, page, string(text), known); lines < atLeast {
			t.Errorf("only %d lines of %s are read", lines, page)
		}
		if words := len(strings.Fields(string(text))); page == "docs/security.md" && words > mostWords {
			t.Errorf("%s has %d words; at most %d", page, words, mostWords)
		}
	}
}

// namedTests fails the test for each line of a table with a column of tests that names none, and
// for each test that does not exist, and returns how many lines there are.
func namedTests(t *testing.T, page, text string, known map[string]bool) (lines int) {
	named := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	tests := false
	for n, line := range strings.Split(text, "\n") {
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			if !known[m[1]] {
				t.Errorf("%s:%d: there is no test %s", page, n+1, m[1])
			}
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			tests = false
		case strings.HasSuffix(line, "| Tests |"), strings.HasSuffix(line, "| Test |"):
			tests = true
		case tests && !strings.HasPrefix(line, "|---"):
			lines++
			cells := strings.Split(line, "|")
			if !named.MatchString(cells[len(cells)-2]) {
				t.Errorf("%s:%d: no test holds this", page, n+1)
			}
		}
	}
	return lines
}
