package plan

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/words"
)

// broken reports whether the glass of an interface is broken that is not free yet.
func (s *regional) broken(n *guard.NIC) bool {
	return s.region.Mode(n.NIC) == intent.BreakGlass && len(n.Ours) > 0 && !untouchable(n)
}

// freeing returns the steps that give interfaces whose glass is broken their groups back. However a
// plan was made, these are its first steps, and nothing may make them wait.
func (s *regional) freeing() (out []Step) {
	for _, n := range s.guard.NICs {
		if !s.broken(n) {
			continue
		}
		groups := slices.Sorted(slices.Values(s.region.Restorable(n.NIC)))
		out = append(out, Step{Scope: s.region.Snap.Scope, Network: n.NetworkID, Urgent: true, Op: cloud.Op{
			Kind: cloud.OpSetInterfaceGroups, Target: n.ID, GroupIDs: groups, Reason: words.Of(reason.Why(reason.GiveBack)),
		}})
	}
	return out
}
