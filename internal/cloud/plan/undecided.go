package plan

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
	"github.com/nephele-io/nephele/internal/cloud/plan/words"
)

// undecided is the result if no design was made. Nothing is carried out, for a part of a plan may
// cut what the rest gives: only interfaces released in an emergency have their groups back.
func (c *planning) undecided() *Result {
	why := reason.Why(reason.TooMuchWork)
	out := &Result{Plan: Plan{Account: c.account.In.Account}}
	for _, s := range c.regions {
		out.Plan.Steps = append(out.Plan.Steps, s.freeing()...)
		out.Records.Count(s.guard)
		out.Refusals = append(out.Refusals, report.Refusal{Region: s.region.Snap.Region, Why: why, Kept: true})
		for _, vm := range s.guard.Order {
			out.VMs = append(out.VMs, c.unchanged(vm, why))
		}
	}
	_, suspended := report.OfServices(c.account.Unguarded)
	out.VMs = append(out.VMs, suspended...)
	out.Plan.Partial = len(out.Plan.Steps) > 0
	out.Policies = report.Tally(c.account.Policies, out.VMs, c.account.Unguarded)
	return out
}

// unchanged is the status of a VM for which nothing was decided, for a reason.
func (c *planning) unchanged(vm *guard.VM, why *reason.Reason) report.VMStatus {
	out := report.VMStatus{VM: vm.Ref, Mode: c.account.In.Modes[vm.Ref]}
	for _, n := range vm.NICs {
		is := report.AsObserved(n)
		if out.Mode == intent.BreakGlass && is.WhyUnproven == nil {
			is = report.InterfaceStatus{ID: n.ID, State: guard.Untouched}
		}
		out.Interfaces = append(out.Interfaces, is)
	}
	for _, p := range vm.Policies {
		on := report.VMPolicy{PolicyRef: p.Ref}
		if out.Mode == intent.Enforce {
			on.Why = cmp.Or(vm.Left(p), why)
		}
		out.Policies = append(out.Policies, on)
	}
	return out
}

// broken reports whether the glass of an interface is broken that is not free yet.
func (s *regional) broken(n *guard.NIC) bool {
	return s.region.Mode(n.NIC) == intent.BreakGlass && len(n.Groups.Ours) > 0 && !untouchable(n)
}

// freeing returns the steps that give interfaces released in an emergency their groups back.
// However a plan was made, these are its first steps, and nothing may make them wait.
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
