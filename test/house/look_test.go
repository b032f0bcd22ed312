package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWhereToLook: each function that the page on the architecture sends a reader to is declared
// in the packages or files that the row names.
func TestWhereToLook(t *testing.T) {
	const page, section = "docs/ARCHITECTURE.md", "## Where to look\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), section)
	table, _, _ = strings.Cut(table, "\n## ")
	quoted, rows := regexp.MustCompile("`([^`]+)`"), 0
	for line := range strings.Lines(table) {
		var functions []string
		var code strings.Builder
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			if !strings.Contains(m[1], "/") {
				functions = append(functions, m[1])
				continue
			}
			files := []string{m[1]}
			if filepath.Ext(m[1]) != ".go" {
				if files, err = filepath.Glob(filepath.Join(m[1], "*.go")); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range files {
				if strings.HasSuffix(f, "_test.go") {
					continue
				}
				source, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				code.Write(source)
			}
		}
		for _, f := range functions {
			if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + f + `\(`).MatchString(code.String()) {
				t.Errorf("%s: the row %q names the function %s, which is not declared there", page, strings.TrimSpace(line), f)
			}
			rows++
		}
	}
	if rows < 10 {
		t.Errorf("%d functions were found below %q: this shows nothing", rows, section)
	}
}
