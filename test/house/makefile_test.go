package house

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestRecipesParse: the shell can read every recipe of the Makefile. A comma in the argument of a
// make function splits it, which nobody sees before the line's turn has come.
func TestRecipesParse(t *testing.T) {
	mk, err := exec.LookPath("make")
	if err != nil {
		t.Skip("make is not installed")
	}
	raw, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := regexp.MustCompile(`(?m)^([a-z-]+):.*## `).FindAllStringSubmatch(string(raw), -1)
	if len(targets) < 20 {
		t.Fatalf("found %d targets", len(targets))
	}
	for _, target := range targets {
		recipe, err := exec.Command(mk, "--no-print-directory", "-n", target[1]).Output()
		if err != nil {
			t.Errorf("make -n %s: %v", target[1], err)
			continue
		}
		// Each line of a recipe goes to a shell of its own, but for those that end in a backslash.
		for line := range strings.Lines(strings.ReplaceAll(string(recipe), "\\\n", " ")) {
			if out, err := exec.Command("bash", "-n", "-c", line).CombinedOutput(); err != nil {
				t.Errorf("make %s: %v: %s\n%s", target[1], err, out, line)
			}
		}
	}
}
