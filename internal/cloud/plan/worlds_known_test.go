package plan_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestKnownWorlds plays random accounts in which something once went wrong, as they were after they
// had been made smaller. A file is named after the seed, which decides what others do between the
// policy sets, and after what it is about.
func TestKnownWorlds(t *testing.T) {
	files, err := filepath.Glob("testdata/worlds/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".json"), func(t *testing.T) {
			t.Parallel()
			number, _, _ := strings.Cut(filepath.Base(name), "-")
			seed, err := strconv.ParseUint(number, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var e estate
			if err := json.Unmarshal(text, &e); err != nil {
				t.Fatal(err)
			}
			if err := subjectOf(t).checkEstate(&e, seed, &stats{}); err != nil {
				t.Error(shorten(err.Error()))
			}
		})
	}
}
