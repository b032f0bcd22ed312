package agent_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/disk"
	"github.com/nephele-io/nephele/internal/agent/disk/disktest"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// TestRestartGoesOnFromWhatIsNewer kills an agent a moment after a change, and restarts it without
// the controller: with what was on its disk then the new policy stays in force. With a disk that
// was behind, or that is another host's, a newer agent's or cannot be, the rules of the kernel
// stay, and one sentence says why.
func TestRestartGoesOnFromWhatIsNewer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.allow(80, 1, "")
	_, stop := f.start()
	f.eventually("the first is in force", func() bool { return f.reports.of("p").Generation == 1 })
	behind := disktest.Copy(t, f.dir)
	f.allow(81, 2, "")
	f.eventually("the second is in force", func() bool { return f.reports.of("p").Generation == 2 })
	killed := disktest.Copy(t, f.dir)
	stop()
	f.source.away.Store(true)
	edited := func(change func(k *disk.State)) string {
		t.Helper()
		dir := disktest.Copy(t, killed)
		s, err := disk.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		k, err := s.Load()
		if err != nil {
			t.Fatal(err)
		}
		change(k)
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, name := range files {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		text, err := json.Marshal(k)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		if err := os.WriteFile(filepath.Join(dir, "state"), append([]byte(hex.EncodeToString(sum[:])+"\n"), text...), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	truncated := edited(func(*disk.State) {})
	if err := os.Truncate(filepath.Join(truncated, "state"), 200); err != nil {
		t.Fatal(err)
	}
	defer f.neverOpens(80)()
	for _, c := range []struct{ name, dir, says string }{
		{"killed a moment after the change", killed, ""},
		{"a disk that was behind", behind, "older than the rules in the kernel"},
		{"another host's", edited(func(k *disk.State) { k.Key, k.Computed = "vms/other", &enforcer.Computed{} }), "was computed for vms/other"},
		{"a newer agent's", edited(func(k *disk.State) { k.Version, k.Computed = 99, &enforcer.Computed{} }), "written by a newer agent"},
		{"of a revision that cannot be", edited(func(k *disk.State) { k.Revision, k.Computed = 1<<60, &enforcer.Computed{} }), "which cannot be"},
		{"truncated", truncated, "damaged"},
		{"nothing", t.TempDir(), ""},
	} {
		f.dir = c.dir
		a, stop := f.start()
		f.eventually(c.name+" is told", func() bool { s := a.Status(); return s.State != "" && strings.Contains(s.Faults.Store, c.says) })
		if c.says == "" && c.name != "nothing" {
			f.eventually("kept", func() bool { return a.Status().State == agent.StateKept })
		}
		if !f.reaches(81) || f.open(80) {
			t.Errorf("%s: the rules of the kernel have changed", c.name)
		}
		stop()
	}
	f.source.away.Store(false)
	f.dir = behind
	a, _ := f.start()
	f.eventually("the controller is heard", func() bool { return a.Status().State == agent.StateEnforcing && a.Status().Faults.Store == "" })
	if !f.reaches(81) {
		t.Error("not as the policy says")
	}
}

// TestRestartsOpenNothing restarts an agent again and again, each time as it was killed: with what
// its disk had at that moment, and too early for the controller. What the policy keeps closed since
// the first change is never open.
func TestRestartsOpenNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.allow(81, 1, "")
	_, stop := f.start()
	f.eventually("the first is in force", func() bool { return f.reports.of("p").Generation == 1 })
	f.allow(80, 2, "")
	f.eventually("the second is in force", func() bool { return f.reports.of("p").Generation == 2 })
	now := disktest.Copy(t, f.dir)
	stop()
	f.source.away.Store(true)
	defer f.neverOpens(81)()
	for range 10 {
		f.dir = disktest.Copy(t, now)
		a, stop := f.start()
		f.eventually("kept", func() bool { return a.Status().State == agent.StateKept })
		now = disktest.Copy(t, f.dir)
		stop()
	}
}
