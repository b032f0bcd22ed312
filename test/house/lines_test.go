package house

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// proseColumns bounds comments and documentation, codeColumns code without its literals.
	// A tab counts four.
	proseColumns = 100
	codeColumns  = 180
	testColumns  = 260 // of the tables of tests
)

var (
	literal = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`?")
	// codeSpan is what must stay on one line in documentation.
	codeSpan = regexp.MustCompile("`[^`]*`|\\[[^\\]]*\\]\\([^)]*\\)")
)

// TestLineLength keeps lines readable: comments, documentation, and code.
func TestLineLength(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() == "generated" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return filepath.SkipDir
		case d.IsDir() || strings.HasPrefix(d.Name(), "zz_generated"):
			return nil
		}
		switch filepath.Ext(path) {
		case ".go":
			return eachLine(path, func(n int, line string) { goLine(t, path, n, line) })
		case ".md":
			var p page
			return eachLine(path, func(n int, line string) { p.line(t, path, n, line) })
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func eachLine(path string, each func(n int, line string)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		each(n, s.Text())
	}
	return s.Err()
}

func columns(line string) int { return utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) }

func goLine(t *testing.T, path string, n int, line string) {
	width := columns(line)
	if text, comment := strings.CutPrefix(strings.TrimLeft(line, "\t"), "// "); comment {
		if width > proseColumns && strings.Contains(strings.TrimSpace(text), " ") && !strings.HasPrefix(text, " ") && !strings.HasPrefix(text, "+") {
			t.Errorf("%s:%d: a comment has %d columns; at most %d", path, n, width, proseColumns)
		}
		return
	}
	for _, l := range literal.FindAllString(line, -1) {
		width -= utf8.RuneCountInString(l)
	}
	most := codeColumns
	if strings.HasSuffix(path, "_test.go") {
		most = testColumns
	}
	if width > most {
		t.Errorf("%s:%d: a line has %d columns besides its literals; at most %d", path, n, width, most)
	}
}

// page is a page of documentation that is read line by line.
type page struct{ fenced bool }

func (p *page) line(t *testing.T, path string, n int, line string) {
	text := strings.TrimSpace(line)
	if strings.HasPrefix(text, "```") {
		p.fenced = !p.fenced
	}
	if p.fenced || strings.HasPrefix(line, "    ") || strings.HasPrefix(text, "|") || strings.HasPrefix(text, "#") || strings.HasPrefix(text, "<") {
		return
	}
	if width := columns(line); width > proseColumns && width-len(codeSpan.FindString(line)) > proseColumns/2 {
		t.Errorf("%s:%d: a line has %d columns; at most %d", path, n, width, proseColumns)
	}
}
