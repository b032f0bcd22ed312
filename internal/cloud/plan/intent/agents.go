package intent

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// leave makes of the rules of a VM what its cloud has to do so that the agent in it decides: let
// everything in where a policy isolates, as far as let says so. Where none does, nothing remains,
// and the former groups decide. What a cloud cannot hold of a policy is the agent's business.
func (vm *VM) leave(let [2]bool) {
	var left []*Bound
	for i, d := range flow.Directions() {
		at := slices.IndexFunc(vm.Applied, func(b *Bound) bool { return b.Direction == d && b.Verdict == Allow })
		if !let[i] || at < 0 {
			continue
		}
		r := *vm.Applied[at].rule
		// What is known of a rule goes by its number. This one stands for others in every VM.
		r.Services, r.Named, r.Groups, r.Blocks, r.ordinal, r.number = nil, nil, nil, addrset.All(), leftToAgent-i, leftToAgent-i
		left = append(left, &Bound{rule: &r, any: true})
	}
	vm.Applied, vm.Problems = left, map[*Policy]*reason.Reason{}
}

// leftToAgent, and what is below it, are no positions in a policy, and no numbers of other rules.
const leftToAgent = -1_000_000

// Left reports whether the VM is left to the agent in it.
func (s *Region) Left(vm *VM) bool {
	_, left := s.Account.In.Agents[vm.Ref]
	return left
}
