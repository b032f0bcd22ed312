package house

import (
	"bufio"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityPage: each line of the tables of docs/security.md that says what holds names a test
// that exists, and so does every other test that the page names.
func TestSecurityPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "git", "grep", "-hoE", `^func Test[A-Za-z0-9_]+\(`, "--", "*_test.go").Output()
	if err != nil {
		t.Skipf("the tests cannot be listed: %v", err)
	}
	known := map[string]bool{}
	for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); {
		known[strings.TrimSuffix(strings.TrimPrefix(s.Text(), "func "), "(")] = true
	}
	named := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	tests, lines := false, 0
	for n, line := range strings.Split(string(page), "\n") {
		all := named.FindAllStringSubmatch(line, -1)
		for _, m := range all {
			if !known[m[1]] {
				t.Errorf("docs/security.md:%d: there is no test %s", n+1, m[1])
			}
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			tests = false
		case strings.HasSuffix(line, "| Tests |"):
			tests = true
		case tests && !strings.HasPrefix(line, "|---"):
			lines++
			cells := strings.Split(line, "|")
			if !named.MatchString(cells[len(cells)-2]) {
				t.Errorf("docs/security.md:%d: no test holds this", n+1)
			}
		}
	}
	if lines < 60 {
		t.Errorf("only %d lines are read", lines)
	}
}
