package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDecisions: every decision says whether it holds and since when, and has its parts in the
// usual order; the index names all of them.
func TestDecisions(t *testing.T) {
	files, err := filepath.Glob("docs/decisions/[0-9]*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	index, err := os.ReadFile("docs/decisions/README.md")
	if err != nil {
		t.Fatal(err)
	}
	status := regexp.MustCompile(`(?s)^# (\d{4}) [^\n]+\n\nStatus: (accepted|replaced by \[\d{4}\])(.*?)\n\n`)
	section := regexp.MustCompile(`(?m)^## (.+)$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		head := status.FindStringSubmatch(string(text))
		switch {
		case head == nil || head[1] != name[:4]:
			t.Errorf("%s does not begin with its number and a status", file)
			continue
		case !regexp.MustCompile(`Date:\s20\d\d-\d\d-\d\d\.`).MatchString(head[3]):
			t.Errorf("%s has no date", file)
		}
		if !strings.Contains(string(index), "["+name[:4]+"]("+name+")") {
			t.Errorf("%s is missing in the index", file)
		}
		var is []string
		for _, s := range section.FindAllStringSubmatch(string(text), -1) {
			is = append(is, s[1])
		}
		want := []string{"Context", "Decision", "Alternatives", "Consequences"}
		if head[2] != "accepted" {
			want = []string{"Context", "What still holds"}
		}
		is = slices.DeleteFunc(is, func(s string) bool { return !slices.Contains(want, s) })
		if !slices.Equal(is, want) {
			t.Errorf("%s has the sections %q, not %q", file, is, want)
		}
	}
}
