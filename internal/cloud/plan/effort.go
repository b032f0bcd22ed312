package plan

import (
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
)

// defaultAllowance is how much work a plan may take. It is enough for any account that AWS can
// hold: see docs/performance.md.
const defaultAllowance = 80_000_000

// undecided is the result if no design was made.
func (c *planning) undecided() *Result {
	out := &Result{}
	for _, s := range c.regions {
		for _, vm := range s.Order {
			status := report.VMStatus{VM: vm.Ref}
			for _, n := range vm.NICs {
				status.Interfaces = append(status.Interfaces, report.InterfaceStatus{ID: n.ID})
			}
			for _, p := range vm.Policies {
				status.Policies = append(status.Policies, report.VMPolicy{PolicyRef: p.Ref, Why: vm.Left(p)})
			}
			if m := c.In.Modes[vm.Ref]; m != intent.Enforce {
				status.Suspended(m)
			}
			out.VMs = append(out.VMs, status)
		}
	}
	_, suspended := report.OfServices(c.Unguarded)
	out.VMs = append(out.VMs, suspended...)
	return c.hold(out, intent.Why(intent.TooMuchWork))
}

// hold returns the result of a plan that is not to be carried out: a part of it may cut what the
// rest gives. Only interfaces whose glass is broken have their groups back.
func (c *planning) hold(planned *Result, why *intent.Reason) *Result {
	out := &Result{Plan: Plan{Account: c.In.Account}, VMs: planned.VMs, Drift: planned.Drift, Notes: planned.Notes, Refusals: planned.Refusals}
	now := map[string]report.InterfaceStatus{}
	for _, s := range c.regions {
		out.Plan.Steps = append(out.Plan.Steps, s.freeing()...)
		out.Records.Count(s.Target)
		out.Refusals = append(out.Refusals, report.Refusal{Region: s.Snap.Region, Why: why, Kept: true})
		for _, n := range s.NICs {
			now[s.keyOf(n)] = report.AsObserved(n)
		}
	}
	for _, vm := range out.VMs {
		for i, n := range vm.Interfaces {
			vm.Interfaces[i] = now[vm.VM.Region+"/"+n.ID]
			if vm.Mode == intent.BreakGlass && vm.Interfaces[i].WhyUnproven == nil {
				vm.Interfaces[i] = report.InterfaceStatus{ID: n.ID, State: guard.Untouched}
			}
		}
		for i := range vm.Policies {
			if p := &vm.Policies[i]; vm.Mode == intent.Enforce && !p.Realized && p.Why == nil {
				p.Why = why
			}
		}
	}
	out.Plan.Partial = len(out.Plan.Steps) > 0
	out.Policies = report.Tally(c.Policies, out.VMs, c.Unguarded)
	return out
}
