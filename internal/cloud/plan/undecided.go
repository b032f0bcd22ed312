package plan

import (
	"cmp"

	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
)

// undecided is the result if no design was made. Nothing is carried out, for a part of a plan may
// cut what the rest gives: only interfaces whose glass is broken have their groups back.
func (c *planning) undecided() *Result {
	why := reason.Why(reason.TooMuchWork)
	out := &Result{Plan: Plan{Account: c.account.In.Account}}
	for _, s := range c.regions {
		out.Plan.Steps = append(out.Plan.Steps, s.freeing()...)
		out.Records.Count(s.design)
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
