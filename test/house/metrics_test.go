package house

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	metricName    = regexp.MustCompile(`"(nephele_[a-z_]+)"`)
	describedRow  = regexp.MustCompile("(?m)^\\| `?nephele_[^|]*\\|")
	describedName = regexp.MustCompile(`nephele_[a-z_]+`)
)

// TestMetricsAreDescribed: docs/reference/metrics.md has every metric of ours, and no other.
func TestMetricsAreDescribed(t *testing.T) {
	made := map[string]bool{}
	err := filepath.WalkDir("internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, m := range metricName.FindAllStringSubmatch(string(raw), -1) {
			made[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	page, err := os.ReadFile("docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range describedRow.FindAllString(string(page), -1) {
		for _, name := range describedName.FindAllString(row, -1) {
			described[name] = true
		}
	}
	if len(made) < 12 {
		t.Fatalf("found only %d metrics", len(made))
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		if !described[name] {
			t.Errorf("docs/reference/metrics.md lacks %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(described)) {
		if !made[name] {
			t.Errorf("docs/reference/metrics.md describes %s, which is no metric", name)
		}
	}
}
