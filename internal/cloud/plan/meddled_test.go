package plan_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
)

// meddle changes the cloud by hand: it gives groups of others new rules, and puts interfaces under
// control into some of these groups.
func (e *estate) meddle(f *fakeCloud, r *rand.Rand, drifted map[int]bool) error {
	for i := range e.Groups {
		if r.IntN(2) == 0 {
			if err := e.editNative(f, i, e.fitting(f, i, e.randomNative(r, i))); err != nil {
				return err
			}
		}
	}
	for i, n := range e.NICs {
		nic := f.nic(nicID(i))
		if nic.Tags[cloud.TagFormer] == "" || r.IntN(2) == 0 {
			continue
		}
		groups := slices.Clone(nic.GroupIDs)
		for k, g := range e.Groups {
			if g.Net == n.Net && r.IntN(2) == 0 && len(groups) < f.limits.GroupsPerInterface && !slices.Contains(groups, groupID(k)) {
				groups = append(groups, groupID(k))
			}
		}
		drifted[i] = true
		if err := f.apply(nic.NetworkID, cloud.Op{Kind: cloud.OpSetInterfaceGroups, Target: nic.ID, GroupIDs: groups}); err != nil {
			return err
		}
	}
	return nil
}

// TestMeddledWorlds is TestWorlds with few machines, which somebody puts into groups by hand before
// they are given back. What keeps one of them under control is mostly a matter of two or three.
func TestMeddledWorlds(t *testing.T) {
	t.Parallel()
	checkWorlds(t, worldsOneIn(1), func(e *estate) {
		e.Meddled, e.Limits.RulesPerGroup = true, 60
		e.NICs = e.NICs[:min(len(e.NICs), 4)]
		e.History = append(e.History[:1:1], policySet{Address: e.History[0].Address, Applied: e.History[0].Applied})
	})
}
