package e2e

import (
	"os"
	"strings"
	"testing"
)

// TestDemoOfClusters tells the story of several clusters once; it leaves nothing behind.
func TestDemoOfClusters(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	code, out, errOut := runIn(t, 2*waitLimit, []string{"TMPDIR=" + tmp}, "demo", "--clusters", "--once")
	if code != 0 || !strings.Contains(out, "All 17 checks held.") {
		t.Errorf("%d\n%s\n%s", code, out, errOut)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
