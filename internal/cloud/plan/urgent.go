package plan

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/words"
)

// freeing returns the steps that give interfaces whose glass is broken their groups back. However a
// plan was made, these are its first steps, and nothing may make them wait.
func (s *regional) freeing() (out []Step) {
	for _, n := range s.NICs {
		if s.Mode(n.NIC) != intent.BreakGlass || n.Alien != nil || n.Network.Foreign != nil || len(n.Ours) == 0 || n.Unproven != nil || n.Blocked != "" {
			continue
		}
		groups := slices.Sorted(slices.Values(s.Restorable(n.NIC)))
		out = append(out, Step{Scope: s.Snap.Scope, Network: n.NetworkID, Urgent: true, Op: cloud.Op{
			Kind: cloud.OpSetInterfaceGroups, Target: n.ID, GroupIDs: groups, Reason: words.Of(intent.Why(intent.GiveBack)),
		}})
	}
	return out
}

// WithoutPlanned returns the input with the planned VMs enforced: what it leads to is what they are
// spared.
func (in Input) WithoutPlanned() Input {
	modes := map[intent.VMRef]intent.Mode{}
	for vm, m := range in.Modes {
		if m != intent.Planned {
			modes[vm] = m
		}
	}
	in.Modes = modes
	return in
}
