package plan

import (
	"cmp"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/report"
)

// Compute plans for an account: the operations that bring the cloud from what was observed to what
// the policies want, or a safe part of the way (Plan.Partial). What is wanted does not look at the
// way there, and the way is found by one checker. It does not panic: what it cannot cope with is
// left out, and among Result.Faults.
func Compute(in Input, lower Lowerer) *Result {
	out, fault := attempt(in, lower)
	if fault != nil {
		return isolate(in, lower, fault)
	}
	return out
}

// Fault is something that the planner panics on, which is a mistake of ours. It is left out, as if
// the cloud could not hold it, and everything else is planned.
type Fault struct {
	// Policy is the UID of a policy that is refused because of it, or Interface an interface that
	// stays as it is; of a whole region only Region is set. All are empty if nothing could be
	// planned.
	Policy, Interface, Region string
	// Text is what the planner panicked with, and Stack where.
	Text, Stack string
}

// attempt is compute that returns its panic.
func attempt(in Input, lower Lowerer) (out *Result, fault *Fault) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case intent.Stopped{}:
			out = &Result{Plan: Plan{Account: in.Account}, Stopped: true}
		default:
			out, fault = nil, &Fault{Text: fmt.Sprint(r), Stack: string(debug.Stack())}
		}
	}()
	return compute(in, lower), nil
}

// mostAttempts bounds how often one call of Compute plans to find what it panics on, of each kind.
// To find one of 10,000 policies takes 28 at most.
const mostAttempts = 60

// isolation looks for the least that has to be left out.
type isolation struct {
	in    Input
	lower Lowerer
	first *Fault
}

// isolate plans without what the planner panics on: policies or interfaces, whichever are fewer, or
// else regions.
func isolate(in Input, lower Lowerer, first *Fault) *Result {
	s := &isolation{in: in, lower: lower, first: first}
	var policies []string
	for _, p := range in.Policies {
		policies = append(policies, cmp.Or(string(p.UID), p.Name))
	}
	out, faulty := least(s, policies, s.withoutPolicies)
	if other, left := least(s, s.interfaces(), s.withoutInterfaces); other != nil && (out == nil || len(left) < len(faulty) || len(left) == len(faulty) && !guards(out, left)) {
		for _, n := range left {
			other.Faults = append(other.Faults, Fault{Interface: n.ID, Region: n.Region, Text: first.Text, Stack: first.Stack})
		}
		return other
	}
	if out != nil {
		for _, uid := range faulty {
			out.Faults = append(out.Faults, Fault{Policy: uid, Text: first.Text, Stack: first.Stack})
		}
		return out
	}
	regions := make([]string, len(in.Regions))
	for i, r := range in.Regions {
		regions[i] = r.Snapshot.Region
	}
	out, unplanned := least(s, regions, s.withoutRegions)
	if out == nil || len(unplanned) == len(regions) {
		out = &Result{Plan: Plan{Account: in.Account}, Failed: true, Faults: []Fault{*first}}
		out.Refusals = []report.Refusal{{Why: s.why(), Kept: true}}
		out.say()
		return out
	}
	for _, region := range unplanned {
		out.Faults = append(out.Faults, Fault{Region: region, Text: first.Text, Stack: first.Stack})
		out.Refusals = append(out.Refusals, report.Refusal{Region: region, Why: s.why(), Kept: true})
	}
	out.Plan.Partial = true
	out.say()
	return out
}

// guards reports whether a result enforces a policy on one of the interfaces.
func guards(out *Result, nics []InterfaceKey) bool {
	return slices.ContainsFunc(out.VMs, func(vm report.VMStatus) bool {
		here := slices.ContainsFunc(vm.Interfaces, func(n report.InterfaceStatus) bool {
			return slices.Contains(nics, InterfaceKey{Region: vm.VM.Region, ID: n.ID})
		})
		return here && slices.ContainsFunc(vm.Policies, func(p report.VMPolicy) bool { return p.Why == nil })
	})
}

func (s *isolation) why() *reason.Reason {
	return reason.Why(reason.PlannerFault).Quoting(s.first.Text)
}

// interfaces returns the interfaces of the VMs that are selected.
func (s *isolation) interfaces() []InterfaceKey {
	selected := map[VMRef]bool{}
	for _, set := range []map[EntityRef]VMRef{s.in.Entities, s.in.Services} {
		for _, vm := range set {
			selected[vm] = true
		}
	}
	var out []InterfaceKey
	for _, r := range s.in.Regions {
		for i := range r.Snapshot.Interfaces {
			if n := &r.Snapshot.Interfaces[i]; selected[VMRef{Region: r.Snapshot.Region, ID: n.VMID}] {
				out = append(out, InterfaceKey{Region: r.Snapshot.Region, ID: n.ID})
			}
		}
	}
	return out
}

func (s *isolation) withoutPolicies(left []string) Input {
	in := s.in
	in.Faulty = map[string]string{}
	for _, uid := range left {
		in.Faulty[uid] = s.first.Text
	}
	return in
}

func (s *isolation) withoutInterfaces(left []InterfaceKey) Input {
	in := s.in
	in.Blocked = maps.Clone(in.Blocked)
	if in.Blocked == nil {
		in.Blocked = map[InterfaceKey]string{}
	}
	for _, n := range left {
		in.Blocked[n] = "a fault of Nephele, please report it: " + s.first.Text
	}
	return in
}

func (s *isolation) withoutRegions(left []string) Input {
	in := s.in
	in.Regions = slices.DeleteFunc(slices.Clone(in.Regions), func(r Region) bool { return slices.Contains(left, r.Snapshot.Region) })
	return in
}

// least plans without as few of the candidates as it finds: nil if leaving out all of them does not
// help. Each that is left out is needed, unless that takes too many attempts.
func least[T any](s *isolation, candidates []T, without func([]T) Input) (*Result, []T) {
	if len(candidates) == 0 {
		return nil, nil
	}
	attempts := 0
	try := func(left []T) *Result {
		if attempts++; attempts > mostAttempts {
			return nil
		}
		out, _ := attempt(without(left), s.lower)
		return out
	}
	if try(candidates) == nil {
		return nil, nil
	}
	// shrink leaves out as few of part as possible, besides base; without all of both it works.
	var shrink func(base, part []T) []T
	shrink = func(base, part []T) []T {
		if len(part) <= 1 {
			return part
		}
		one, other := part[:len(part)/2], part[len(part)/2:]
		for _, half := range [][]T{one, other} {
			if try(slices.Concat(base, half)) != nil {
				return shrink(base, half)
			}
		}
		needed := shrink(slices.Concat(base, other), one)
		return slices.Concat(needed, shrink(slices.Concat(base, needed), other))
	}
	found := shrink(nil, candidates)
	out, _ := attempt(without(found), s.lower)
	return out, found
}
