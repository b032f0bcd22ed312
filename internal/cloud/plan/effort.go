package plan

import "slices"

// effort counts the work of one call of Compute, and ends what takes too much of it. A unit is about a microsecond; but work is counted, not
// timed, so that the same input always has the same result.
type effort struct{ spent, most int }

// allowance is how much work may be done: for a plan, and to try what would do where something is refused.
type allowance struct{ round, advice int }

// defaultAllowance is for any account that AWS can hold: see docs/performance.md.
var defaultAllowance = allowance{round: 80_000_000, advice: 10_000_000}

func (in Input) allowed() allowance {
	if in.allowance != nil {
		return *in.allowance
	}
	return defaultAllowance
}

// overspent is what the computation panics with if the effort becomes too much. It never leaves Compute.
type overspent struct{}

func (e *effort) spend(units int) {
	if e.spent += units; e.spent > e.most {
		panic(overspent{})
	}
}

// within does something for which so much work is allowed. It reports whether that was enough.
func (e *effort) within(units int, do func()) (enough bool) {
	e.most = e.spent + units
	defer func() {
		switch r := recover(); r {
		case nil:
		case overspent{}:
			enough = false
		default:
			panic(r)
		}
	}()
	do()
	return true
}

// roundTooLong is why nothing is changed at all where the effort becomes too much: a part of a plan may cut what the rest gives. Only interfaces
// whose glass is broken have their groups back.
const roundTooLong = "nothing is changed, and what is enforced stays as it is: to plan this takes more work than is allowed for one round; " +
	"let fewer policies select these VMs, or tell fewer kinds of VMs apart"

// undecided is the result if no design was made.
func (in Input) undecided(lower Lowerer) *Result {
	in.effort.most = in.effort.spent + in.allowed().round // the first steps of a round are as many as there are objects
	c := newPlanning(in, lower)
	out := &Result{}
	for _, s := range c.regions {
		for _, vm := range s.order {
			status := VMStatus{VM: vm.ref}
			for _, n := range vm.nics {
				status.Interfaces = append(status.Interfaces, InterfaceStatus{ID: n.ID})
			}
			for _, p := range vm.policies {
				status.Policies = append(status.Policies, VMPolicy{PolicyRef: p.ref, Message: vm.left[p]})
			}
			if m := in.Modes[vm.ref]; m != Enforce {
				status.suspended(m)
			}
			out.VMs = append(out.VMs, status)
		}
	}
	return c.hold(out, roundTooLong)
}

// hold returns the result of a plan that is not to be carried out.
func (c *planning) hold(planned *Result, why string) *Result {
	out := &Result{Plan: Plan{Account: c.in.Account}, VMs: planned.VMs, Drift: planned.Drift, Notes: planned.Notes, Refusals: planned.Refusals}
	now := map[string]InterfaceStatus{}
	for _, s := range c.regions {
		out.Plan.Steps = append(out.Plan.Steps, s.freeing()...)
		(&reporter{s.regionState}).records(&out.Records)
		out.Refusals = append(out.Refusals, Refusal{Region: s.snap.Region, Message: why, Kept: true})
		for _, n := range s.nics {
			now[s.keyOf(n)] = n.observed()
		}
	}
	for _, vm := range out.VMs {
		for i, n := range vm.Interfaces {
			vm.Interfaces[i] = now[vm.VM.Region+"/"+n.ID]
			if vm.Mode == BreakGlass && vm.Interfaces[i].Unproven == "" {
				vm.Interfaces[i] = InterfaceStatus{ID: n.ID, State: Untouched}
			}
		}
		for i := range vm.Policies {
			if p := &vm.Policies[i]; vm.Mode == Enforce && !p.Realized && p.Message == "" {
				p.Message = why
			}
		}
	}
	out.Plan.Partial = len(out.Plan.Steps) > 0
	out.Policies = tally(c.policies, out.VMs)
	out.sort()
	return out
}

// observed is the state of the interface as it is.
func (n *nic) observed() InterfaceStatus {
	switch {
	case len(n.ours) == 0:
		return InterfaceStatus{ID: n.ID, State: Untouched}
	case n.unproven != "":
		return InterfaceStatus{ID: n.ID, State: Guarded, Unproven: n.unproven}
	case n.recorded == nil:
		return InterfaceStatus{ID: n.ID, State: Member}
	default:
		return InterfaceStatus{ID: n.ID, State: Guarded, Former: slices.Clone(n.recorded)}
	}
}
