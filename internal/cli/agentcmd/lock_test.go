//go:build linux

package agentcmd

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestOneAgent: the lock of a host's state has one holder, and an error names it to others.
func TestOneAgent(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockState(dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("already, as process %d", os.Getpid())) {
		t.Errorf("a second one has it, too: %v", err)
	}
	unlock()
	unlock, err = lockState(dir)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
