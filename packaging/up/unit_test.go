// Package up has the systemd unit of "nephele up".
package up

import (
	"os/exec"
	"regexp"
	"testing"
)

// maxExposure is what systemd may rate the unit at, from 0, nothing, to 10, everything.
const maxExposure = "20" // in tenths

// TestHardening: the unit of "nephele up" is confined, as systemd itself judges it.
func TestHardening(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here")
	}
	out, err := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--threshold="+maxExposure, "--no-pager", "nephele-up.service").CombinedOutput()
	rated := regexp.MustCompile(`Overall exposure level for nephele-up.service: (\S+)`).FindSubmatch(out)
	if err != nil || rated == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("rated at %s", rated[1])
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", "--recursive-errors=no", "nephele-up.service").CombinedOutput(); err != nil && !regexp.MustCompile(`nephele is not executable`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}
