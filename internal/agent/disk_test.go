//go:build linux

package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent"
)

// TestFullDisk keeps the state on a disk without room: enforcement goes on, the status says what is
// wrong, what was kept before stays whole, and with room again the next change is kept.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", f.dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("THIS TEST DID NOT RUN: it mounts a file system, which only root can do: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(f.dir, 0); err != nil {
			t.Error(err)
		}
	})
	f.allow(80, 1, "")
	a, stop := f.start()
	f.eventually("enforced", func() bool { return f.reports.of("p").Generation == 1 })
	state := filepath.Join(f.dir, "state")
	f.eventually("kept", func() bool { _, err := os.Stat(state); return err == nil })
	stop()
	filler, err := os.Create(filepath.Join(f.dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 1024))
	}
	if err := filler.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	a, stop = f.start()
	f.allow(81, 2, "")
	f.eventually("enforced without room", func() bool { return f.open(81) && !f.open(80) })
	f.eventually("told", func() bool {
		f.allow(81, f.reports.of("p").Generation+1, "") // it is written as rarely as it is
		return strings.Contains(a.Status().Faults.Store, "no space")
	})
	if after, err := os.ReadFile(state); err != nil || string(after) != string(before) {
		t.Errorf("what was kept has changed: %v", err)
	}
	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	stop() // it writes when it ends
	f.source.away.Store(true)
	a, _ = f.start()
	f.eventually("what was in force last is kept", func() bool { return a.Status().State == agent.StateKept && a.Status().Faults.Store == "" })
	if !f.reaches(81) || f.open(80) {
		t.Error("what was kept is not what was in force")
	}
}
