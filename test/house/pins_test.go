package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	pinned  = regexp.MustCompile(`^scratch$|@sha256:[0-9a-f]{64}$|:\d+\.\d+\.\d+(-[a-z0-9.]+)?$`)
	runs    = regexp.MustCompile(`go (?:run|install) ([^\s@]+@\S+)`)
	release = regexp.MustCompile(`@v\d+\.\d+\.\d+$`)
	images  = regexp.MustCompile(`(?m)^\s*(?:newTag|tag):\s*(\S+)|^\s*image:\s*(\S+)`)
	version = regexp.MustCompile(`^v?\d+\.\d+\.\d+`)
)

// TestWhatIsFetchedIsPinned: images and tools are named by an exact version or a digest.
func TestWhatIsFetchedIsPinned(t *testing.T) {
	read := func(file string) string {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "node_modules" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir():
		case filepath.Base(path) == "Makefile", filepath.Ext(path) == ".sh", strings.HasPrefix(path, ".github"):
			for _, m := range runs.FindAllStringSubmatch(read(path), -1) {
				if !release.MatchString(m[1]) {
					t.Errorf("%s runs %s", path, m[1])
				}
			}
		case strings.HasPrefix(filepath.ToSlash(path), "config/") && filepath.Ext(path) == ".yaml":
			for _, m := range images.FindAllStringSubmatch(read(path), -1) {
				// A name alone is what kustomization.yaml, or the chart, puts another one in the
				// place of.
				if name := m[1] + m[2]; name != "nephele" && name != "strongswan" && !version.MatchString(name) && !pinned.MatchString(name) {
					t.Errorf("%s: image or tag %s may be another one tomorrow", path, name)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
