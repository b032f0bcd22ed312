package browser

import (
	"bufio"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/tier"
)

var figureVMs = flag.String("figure-vms", "300", "how many VMs TestFigures shows, separated by commas; 2000,10000 in docs/performance.md")

// madeUp serves the page with a made-up world of so many VMs, and returns its address.
func madeUp(t *testing.T, web string, vms int) string {
	t.Helper()
	cmd := exec.Command("node", filepath.Join(web, "test", "serve.mjs"), "0", fmt.Sprint(vms))
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	link, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return strings.TrimSpace(link)
}

// TestFigures measures the page in a browser with many VMs. It promises no times, as tests do not;
// but everything is there in the end, and the map groups, so that its size does not follow that of
// the fleet.
func TestFigures(t *testing.T) {
	tier.OnlyLong(t, "it measures; TestConsole opens the same screens")
	web := tools(t)
	for text := range strings.SplitSeq(*figureVMs, ",") {
		var vms int
		_, err := fmt.Sscan(text, &vms)
		must(t, err)
		got := play(t, web, "measure", madeUp(t, web, vms), map[string]string{"vms": text})
		for _, what := range []string{"overview", "map", "filterMap", "filter"} {
			took, ok := got[what].(map[string]any)
			if !ok {
				t.Fatalf("%d VMs: %v", vms, got)
			}
			t.Logf("%d VMs: %s: %.0f ms by the clock, %.0f ms of the page's processor time", vms, what, took["ms"], took["cpu"])
		}
		t.Logf("%d VMs: %.0f nodes on the map, %.0f frames a second while it moves, %.0f MB of heap on the map, %.0f MB in the list",
			vms, got["nodes"], got["fps"], got["heapMap"], got["heap"])
		if nodes, _ := got["nodes"].(float64); nodes > 1500 {
			t.Errorf("%d VMs: the map has %.0f nodes at once", vms, nodes)
		}
	}
}
