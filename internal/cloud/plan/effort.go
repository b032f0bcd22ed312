package plan

import (
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
	"github.com/nephele-io/nephele/internal/cloud/plan/target"
)

// allowance is how much work may be done: for a plan, and to try what would do where something is
// refused.
type allowance struct{ round, advice int }

// defaultAllowance is for any account that AWS can hold: see docs/performance.md.
var defaultAllowance = allowance{round: 80_000_000, advice: 10_000_000}

func (in Input) allowed() allowance {
	if in.allowance != nil {
		return *in.allowance
	}
	return defaultAllowance
}

// roundTooLong is why nothing is changed at all where the effort becomes too much: a part of a plan
// may cut what the rest gives. Only interfaces whose glass is broken have their groups back.
const roundTooLong = "nothing is changed, and what is enforced stays as it is: to plan this takes more work than is allowed for one round; " +
	"let fewer policies select these VMs, or tell fewer kinds of VMs apart"

// undecided is the result if no design was made.
func (in Input) undecided(lower target.Lowerer) *Result {
	in.effort.Most = in.effort.Spent + in.allowed().round // the first steps of a round are as many as there are objects
	c := newPlanning(in, lower)
	out := &Result{}
	for _, s := range c.regions {
		for _, vm := range s.Order {
			status := report.VMStatus{VM: vm.Ref}
			for _, n := range vm.NICs {
				status.Interfaces = append(status.Interfaces, report.InterfaceStatus{ID: n.ID})
			}
			for _, p := range vm.Policies {
				status.Policies = append(status.Policies, report.VMPolicy{PolicyRef: p.Ref, Message: vm.Left[p]})
			}
			if m := in.Modes[vm.Ref]; m != intent.Enforce {
				status.Suspended(m)
			}
			out.VMs = append(out.VMs, status)
		}
	}
	return c.hold(out, roundTooLong)
}

// hold returns the result of a plan that is not to be carried out.
func (c *planning) hold(planned *Result, why string) *Result {
	out := &Result{Plan: Plan{Account: c.in.Account}, VMs: planned.VMs, Drift: planned.Drift, Notes: planned.Notes, Refusals: planned.Refusals}
	now := map[string]report.InterfaceStatus{}
	for _, s := range c.regions {
		out.Plan.Steps = append(out.Plan.Steps, s.freeing()...)
		out.Records.Count(s.Target)
		out.Refusals = append(out.Refusals, report.Refusal{Region: s.Snap.Region, Message: why, Kept: true})
		for _, n := range s.NICs {
			now[s.keyOf(n)] = report.AsObserved(n)
		}
	}
	for _, vm := range out.VMs {
		for i, n := range vm.Interfaces {
			vm.Interfaces[i] = now[vm.VM.Region+"/"+n.ID]
			if vm.Mode == intent.BreakGlass && vm.Interfaces[i].Unproven == "" {
				vm.Interfaces[i] = report.InterfaceStatus{ID: n.ID, State: target.Untouched}
			}
		}
		for i := range vm.Policies {
			if p := &vm.Policies[i]; vm.Mode == intent.Enforce && !p.Realized && p.Message == "" {
				p.Message = why
			}
		}
	}
	out.Plan.Partial = len(out.Plan.Steps) > 0
	out.Policies = report.Tally(c.Policies, out.VMs)
	out.sort()
	return out
}
