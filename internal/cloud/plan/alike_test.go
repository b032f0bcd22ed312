package plan_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// TestMarksAreLong: two groups of different owners, of which the first 48 bits of what identifies
// their meaning are the same, do not pass for one another: each VM goes on admitting what its own
// group admits, and no more. Such rules are found in a minute.
func TestMarksAreLong(t *testing.T) {
	sources := []string{"10.50.79.205", "10.28.219.101"}
	e := small()
	for i, from := range sources {
		e.Groups[1+i].Rules = []cloud.Rule{{Direction: cloud.Ingress, Match: cloud.NewMatch(cloud.TCP, 1000, 1000), Peer: cloud.Peer{CIDR: netip.MustParsePrefix(from + "/32")}}}
	}
	e.History[0].Applied[0], e.History[0].Address[0] = []int{0, 1}, []int{2}
	e.History[0].Policies[0].Rules[0].Action = "Drop"
	f := e.cloud()
	settle(t, e, f, nil)
	if slices.Equal(f.nic(nicID(0)).GroupIDs, f.nic(nicID(1)).GroupIDs) {
		t.Error("both hold the same group of ours")
	}
	for i := range sources {
		for j, from := range sources {
			if got := admits(f, i, from, "", 1000); got != (i == j) {
				t.Errorf("VM %d admits %s: %t", i, from, got)
			}
		}
	}
	// What is in tags is as it was, so that no group is another class's after an upgrade.
	classes := map[string]bool{}
	for i := range f.snap.Groups {
		if class := f.snap.Groups[i].Tags[cloud.TagClass]; class != "" {
			classes[class] = true
			if len(class) != 12 {
				t.Errorf("the class %q", class)
			}
		}
	}
	if long := strings.Repeat("0123456789abcdef", 2); intent.ShortMark(long) != long[:12] || intent.ShortMark("") != "" {
		t.Error("a short mark is another one")
	}
}
