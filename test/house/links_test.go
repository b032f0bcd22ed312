package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	linkTo   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	fenced   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	marked   = regexp.MustCompile("[`*]|\\]\\([^)]*\\)|[\\[]")
	unlinked = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	pageIn   = regexp.MustCompile(`\bdocs/([\w/-]+\.md)(#[\w-]+)?`)
)

// anchors are the headings of a page as links name them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := unlinked.ReplaceAllString(strings.ToLower(marked.ReplaceAllString(m[1], "")), "")
		out[strings.ReplaceAll(name, " ", "-")] = true
	}
	return out
}

// TestLinks: pages that other pages and the code name are there, and so are their sections.
func TestLinks(t *testing.T) {
	pages := map[string]map[string]bool{}
	there := func(from, path, anchor string) {
		t.Helper()
		if pages[path] == nil {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Errorf("%s links to %s, which is not there", from, path)
				return
			}
			pages[path] = anchors(string(text))
		}
		if anchor != "" && strings.HasSuffix(path, ".md") && !pages[path][anchor] {
			t.Errorf("%s links to %s#%s, and there is no such heading", from, path, anchor)
		}
	}
	links, names := 0, 0
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() == "bin" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return filepath.SkipDir
		case !d.Type().IsRegular() || path == "test/house/links_test.go":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch filepath.Ext(path) {
		case ".md":
			for _, m := range linkTo.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
				target, anchor, _ := strings.Cut(m[1], "#")
				if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
					continue
				}
				full := path
				if target != "" {
					full = filepath.Join(filepath.Dir(path), target)
				}
				if info, err := os.Stat(full); err == nil && info.IsDir() {
					continue
				}
				links++
				there(path, full, anchor)
			}
		case ".go", ".ts", ".tsx", ".yaml", ".sh":
			for _, m := range pageIn.FindAllStringSubmatch(string(text), -1) {
				names++
				there(path, "docs/"+m[1], strings.TrimPrefix(m[2], "#"))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 100 || names < 10 {
		t.Errorf("%d links and %d names of pages were found: this shows nothing", links, names)
	}
}
