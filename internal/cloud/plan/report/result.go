package report

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/target"
	"github.com/nephele-io/nephele/internal/cloud/signs"
)

// reporter tells what becomes of a region.
type reporter struct {
	*target.Target
	borders *borders
}

// Region is what is told about a region.
type Region struct {
	VMs      []VMStatus
	Refusals []Refusal
	Drift    []Drift
	Records  Records
	Cuts     []guard.Cut
	Notes    []intent.Note
}

// Of returns what becomes of the VMs of a region, given the interfaces and groups that steps
// change.
func Of(of *target.Target, dirty map[string]bool) (out Region) {
	s := &reporter{of, newBorders(of.Snap)}
	out.VMs = slices.Grow(out.VMs, len(s.Order))
	for _, vm := range s.Order {
		status := s.vmStatus(vm, dirty)
		status.Obstructed = s.obstructions(vm)
		if status.Mode == intent.Enforce {
			out.Refusals = append(out.Refusals, s.vmRefusals(vm)...)
		}
		out.VMs = append(out.VMs, status)
	}
	out.Drift = s.drift()
	out.Records.Count(s.Target)
	out.Cuts = s.Cuts()
	for _, notes := range s.Noted {
		out.Notes = append(out.Notes, notes...)
	}
	return out
}

// Tally returns the states of the policies from those on the VMs, and the native services that they
// apply to.
func Tally(policies []*intent.Policy, vms []VMStatus, services []intent.Unguarded) []PolicyStatus {
	if len(policies) == 0 {
		return nil
	}
	out := make([]PolicyStatus, len(policies))
	at := map[intent.PolicyRef]int{}
	for i, p := range policies {
		out[i].PolicyRef, at[p.Ref] = p.Ref, i
	}
	for _, vm := range vms {
		for _, on := range vm.Policies {
			p := &out[at[on.PolicyRef]]
			if vm.Mode == intent.Enforce {
				p.count(vm.VM, on)
			} else {
				p.Suspended = append(p.Suspended, vm.VM)
			}
		}
	}
	for _, s := range services {
		if s.Mode != intent.Enforce {
			continue
		}
		for _, policy := range s.Policies {
			p := &out[at[policy.Ref]]
			p.Unguarded = append(p.Unguarded, UnguardedService{Entity: s.Entity, VM: s.Subject, Why: s.Why()})
		}
	}
	return out
}

// OfServices are the refusals of policies on native services whose groups cannot be set, and the
// states of those whose mode does not let policies be enforced either, as those of VMs without
// interfaces.
func OfServices(services []intent.Unguarded) (refused []Refusal, suspended []VMStatus) {
	at := map[intent.VMRef]int{}
	for _, s := range services {
		i, known := at[s.Subject]
		if s.Mode != intent.Enforce && !known {
			i = len(suspended)
			at[s.Subject] = i
			suspended = append(suspended, VMStatus{VM: s.Subject, Mode: s.Mode})
		}
		for _, p := range s.Policies {
			if s.Mode == intent.Enforce {
				refused = append(refused, Refusal{Policy: p.Ref, Region: s.Subject.Region, Why: s.Why()})
				continue
			}
			same := func(on VMPolicy) bool { return on.PolicyRef == p.Ref }
			if on := &suspended[i].Policies; !slices.ContainsFunc(*on, same) { // two entities may stand for it
				*on = append(*on, VMPolicy{PolicyRef: p.Ref})
			}
		}
	}
	return refused, suspended
}

func (p *PolicyStatus) count(vm intent.VMRef, on VMPolicy) {
	switch {
	case on.Why != nil:
		p.Failed = append(p.Failed, FailedVM{VM: vm, Why: on.Why})
	case on.Realized:
		p.Realized = append(p.Realized, vm)
	default:
		p.Pending = append(p.Pending, vm)
	}
}

func (s *reporter) vmStatus(vm *guard.VM, dirty map[string]bool) VMStatus {
	out := VMStatus{VM: vm.Ref, Interfaces: slices.Grow([]InterfaceStatus(nil), len(vm.NICs)), Policies: slices.Grow([]VMPolicy(nil), len(vm.Policies))}
	pending := false
	var blocked *intent.Reason
	for _, n := range vm.NICs {
		st := InterfaceStatus{ID: n.ID, State: n.State, Network: n.NetworkID, Groups: s.Targets[n], Held: len(n.Ours) > 0, WhyElsewhere: n.Elsewhere, WhyUnproven: n.Unproven}
		if n.State == guard.Guarded {
			st.Former = slices.Clone(n.Former)
		}
		out.Interfaces = append(out.Interfaces, st)
		pending = pending || dirty[n.ID] || n.Restricted() != [2]bool{}
		for _, g := range s.Targets[n] {
			pending = pending || dirty[g]
		}
		if n.Waiting() {
			pending = true
			continue
		}
		if why := s.Controllable(n); why != nil && blocked == nil && !n.Managed {
			blocked = why
		}
		if why := n.Frozen(); why != nil && blocked == nil {
			blocked = intent.Why(intent.InterfaceStays, n.ID).From(why)
		}
	}
	guarded := slices.ContainsFunc(vm.NICs, func(n *guard.NIC) bool { return n.State == guard.Guarded })
	for _, p := range vm.Policies {
		on := VMPolicy{PolicyRef: p.Ref, Why: vm.WhyLeft(p)}
		if on.Why == nil {
			on.Why = blocked
		}
		if tightened := s.TightenedOn(vm, p); on.Why == nil && tightened != nil {
			on.Why, on.Lost = tightened, tightened.Objects
		}
		if on.Why == nil && !s.Left(vm.VM) {
			on.Why = narrowed(p)
		}
		on.Realized = on.Why == nil && !pending && (guarded || s.Left(vm.VM))
		if p.Reject && !s.Left(vm.VM) {
			on.Warnings = append(on.Warnings, intent.Why(intent.RejectIsDrop))
		}
		if d, ok := s.reducedBy(vm, p); ok {
			on.Warnings = append(on.Warnings, intent.Why(intent.ProtocolsReduced, string(d)))
		}
		if i := slices.IndexFunc(vm.NICs, func(n *guard.NIC) bool { return n.Managed }); i >= 0 {
			on.Warnings = append(on.Warnings, intent.Why(intent.NotControlled, vm.NICs[i].ID))
		}
		if on.Why == nil && len(vm.NICs) == 0 {
			on.Why = intent.Why(intent.NoInterface)
		}
		out.Policies = append(out.Policies, on)
	}
	if m := s.In.Modes[vm.Ref]; m != intent.Enforce {
		out.Suspended(m)
	}
	return out
}

// reducedBy returns a direction in which the policy has rules for the VM and the VM allows fewer
// protocols than the policies do.
func (s *reporter) reducedBy(vm *guard.VM, p *intent.Policy) (cloud.Direction, bool) {
	for _, n := range vm.NICs {
		if n.State != guard.Guarded || n.Frozen() != nil {
			continue
		}
		want := s.Wanted(n)
		for i, d := range flow.Directions() {
			if want[i].Reduced && slices.ContainsFunc(vm.Effective, func(b *intent.Bound) bool { return b.Policy == p && b.Direction == d }) {
				return d, true
			}
		}
	}
	return "", false
}

// narrowed says what of a policy the cloud cannot say, and so is narrower than the policy; nil if
// nothing is.
func narrowed(p *intent.Policy) *intent.Reason {
	if p.Narrowed == nil {
		return nil
	}
	return intent.Why(intent.Narrowed).From(p.Narrowed)
}

func (s *reporter) vmRefusals(vm *guard.VM) []Refusal {
	var out []Refusal
	for _, p := range vm.Policies {
		if why := vm.WhyLeft(p); why != nil {
			out = append(out, Refusal{
				Policy: p.Ref, VM: vm.Ref, Region: s.Snap.Region, Network: vm.Observed.NetworkID, Why: why, Lack: why.Shortage(), Kept: vm.Keeps(p),
			})
		}
	}
	for _, p := range vm.Policies {
		if why := narrowed(p); why != nil && vm.WhyLeft(p) == nil {
			out = append(out, Refusal{Policy: p.Ref, VM: vm.Ref, Region: s.Snap.Region, Network: vm.Observed.NetworkID, Why: why, Tightened: true})
		}
		if why := s.TightenedOn(vm, p); why != nil {
			out = append(out, Refusal{
				Policy: p.Ref, VM: vm.Ref, Region: s.Snap.Region, Network: vm.Observed.NetworkID, Why: why, Lack: why.Shortage(), Tightened: true, Lost: why.Objects,
			})
		}
	}
	for _, n := range vm.NICs {
		if why := s.Controllable(n); why != nil && len(vm.Effective) > 0 && !n.Waiting() {
			out = append(out, Refusal{VM: vm.Ref, Region: s.Snap.Region, Network: n.NetworkID, Why: why, Lack: why.Shortage()})
		}
		if why := n.Frozen(); why != nil && !vm.KeepsAny() && !n.Waiting() {
			out = append(out, Refusal{
				VM: vm.Ref, Region: s.Snap.Region, Network: n.NetworkID, Why: intent.Why(intent.InterfaceStays, n.ID).From(why), Lack: why.Shortage(), Kept: true,
			})
		}
	}
	return out
}

// drift lists what others changed on interfaces that we hold and groups that we own.
func (s *reporter) drift() []Drift {
	var out []Drift
	lost := map[string]bool{}
	for _, n := range s.NICs {
		if n.Unproven != nil {
			out = append(out, Drift{Region: s.Snap.Region, Object: n.ID, Why: n.Unproven, Kept: true})
			continue
		}
		if n.Recorded == nil || n.Alien != nil || n.State != guard.Guarded {
			continue
		}
		ours := len(n.Ours)
		extra := slices.DeleteFunc(without(n.Foreign, n.Recorded), func(id string) bool {
			g := s.Groups[id]
			if g == nil || !s.lostTags(g) {
				return false
			}
			ours++
			if !lost[id] {
				out = append(out, Drift{Region: s.Snap.Region, Object: id, Why: intent.Why(intent.TagsChanged, g.Name)})
			}
			lost[id] = true
			return true
		})
		if len(extra) > 0 {
			out = append(out, Drift{Region: s.Snap.Region, Object: n.ID, Why: intent.Why(intent.PutInto, extra...)})
		}
		if ours == 0 && !slices.Equal(n.Foreign, n.Recorded) {
			out = append(out, Drift{Region: s.Snap.Region, Object: n.ID, Why: intent.Why(intent.TakenOut)})
		}
	}
	for i := range s.Snap.Groups {
		g := &s.Snap.Groups[i]
		if !s.Ours(g) {
			continue
		}
		wanted := s.ByKey[g.ID]
		for _, r := range g.Rules {
			if !signs.Ours(r.Description) && (wanted == nil || !slices.Contains(wanted.Rules, r.Key())) {
				out = append(out, Drift{
					Region: s.Snap.Region, Object: g.ID, Why: intent.Why(intent.RuleAdded, r.Key().String()), Kept: s.Pinned[g.ID],
				})
			}
		}
	}
	return out
}

// lostTags reports whether a group that is not ours seems to have been: it has our kind of name,
// and nobody else's tags.
func (s *reporter) lostTags(g *cloud.Group) bool {
	by := g.Tags[cloud.TagCluster]
	return strings.HasPrefix(g.Name, cloud.NamePrefix) && (by == "" || by == s.In.ClusterID)
}
