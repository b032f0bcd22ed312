package up

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/standalone/internal/controlplane"
)

// TestShowMembers: what is said of members, and whether all are well.
func TestShowMembers(t *testing.T) {
	one := controlplane.Member{Name: "first", Peer: "10.0.0.1:2380", Leads: true, Reached: true}
	two, three := controlplane.Member{Name: "second", Peer: "10.0.0.2:2380", Reached: true}, controlplane.Member{Name: "third", Peer: "10.0.0.3:2380", Reached: true}
	away := func(m controlplane.Member) controlplane.Member { m.Reached, m.Leads = false, false; return m }
	for want, c := range map[string]struct {
		members []controlplane.Member
		fine    bool
	}{
		"There is one member.": {[]controlplane.Member{one}, true},
		"3 of 3 answer, and 2 are needed: 1 more may be missing.":                             {[]controlplane.Member{one, two, three}, true},
		"2 of 3 answer, and 2 are needed: 0 more may be missing.":                             {[]controlplane.Member{away(one), two, three}, false},
		"1 of 3 answer, and 2 are needed: nothing can be changed. What is in force stays so.": {[]controlplane.Member{one, away(two), away(three)}, false},
		"-       10.0.0.9:2380  added, not started yet    no\n":                               {[]controlplane.Member{{Peer: "10.0.0.9:2380", Learner: true}, one, two}, false},
		"third   10.0.0.3:2380  catching up               yes\n":                              {[]controlplane.Member{one, two, {Name: "third", Peer: three.Peer, Learner: true, Reached: true}}, true},
		"first  none: started without --peer-listen  member, others follow it  yes\n":         {[]controlplane.Member{{Name: "first", Peer: "http://localhost:2380", Leads: true, Reached: true}}, true},
	} {
		var out strings.Builder
		fine, err := showMembers(&out, c.members)
		if err != nil || fine != c.fine || !strings.Contains(out.String(), want) {
			t.Errorf("%t %v\n%s\nwant %s", fine, err, out.String(), want)
		}
	}
}

// TestHubRefusesBadInput: nothing is left behind by a command that fails.
func TestHubRefusesBadInput(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--out is missing":             {"add", "second", "--peer", "10.0.0.2:2380"},
		"file exists":                  {"add", "second", "--peer", "10.0.0.2:2380", "--out", there},
		"that runs on this machine":    {"add", "second", "--peer", "10.0.0.2:2380", "--out", filepath.Join(dir, "new")},
		"accepts 1 arg(s), received 0": {"remove"},
		"nothing that runs there":      {"list"},
	} {
		cmd := NewHubCommand(errors.New("no"))
		cmd.SetArgs(append(args, "--data-dir", filepath.Join(dir, "none")))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
