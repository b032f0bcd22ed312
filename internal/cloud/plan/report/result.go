package report

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/signs"
)

// Outcome is what is reported about regions.
type Outcome struct {
	// VMs has one entry per selected VM that was observed, sorted by region and ID.
	VMs []VMStatus
	// Refusals are the things that cannot be done, sorted. Each one also shows in the statuses.
	Refusals []Refusal
	// Drift is what others have changed by hand on objects that we control; the plan repairs it.
	Drift []Drift
	// Records tells how far the records of former groups are proven. It is empty without
	// Input.Seal.
	Records Records
	// Cuts are what interfaces that are not ours lose, sorted by region, interface and group, where
	// Input.Dependents allows that.
	Cuts []guard.Cut
	// Notes are remarks for people that refuse nothing: interfaces that cannot be controlled,
	// former groups that are gone, ...
	Notes []intent.Note
}

// reporter tells what becomes of a region.
type reporter struct {
	region  *intent.Region
	guard   *guard.States
	design  *form.Design
	borders *borders
}

// Add adds what becomes of a region, given the design of its groups, and the interfaces and groups
// that steps change. Nothing is sorted before all is told.
func (out *Outcome) Add(states *guard.States, design *form.Design, dirty map[string]bool) {
	s := &reporter{region: states.Region, guard: states, design: design, borders: newBorders(states.Region.Snap)}
	out.VMs = slices.Grow(out.VMs, len(s.guard.Order)) // there may be thousands
	for _, vm := range s.guard.Order {
		status := s.vmStatus(vm, dirty)
		if status.Mode == intent.Enforce {
			status.Obstructed = s.obstructions(vm)
			out.Refusals = append(out.Refusals, s.vmRefusals(vm)...)
		}
		out.VMs = append(out.VMs, status)
	}
	out.Drift = append(out.Drift, s.drift()...)
	out.Records.Count(states)
	out.Cuts = append(out.Cuts, s.guard.Cuts()...)
	for _, notes := range s.region.Noted {
		out.Notes = append(out.Notes, notes...)
	}
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
			switch p := &out[at[on.PolicyRef]]; {
			case vm.Mode != intent.Enforce:
				p.Suspended = append(p.Suspended, vm.VM)
			case on.Why != nil:
				p.Failed = append(p.Failed, FailedVM{VM: vm.VM, Why: on.Why})
			case on.Realized:
				p.Realized = append(p.Realized, vm.VM)
			default:
				p.Pending = append(p.Pending, vm.VM)
			}
		}
	}
	for _, s := range services {
		if s.Mode != intent.Enforce {
			continue
		}
		for _, policy := range s.Policies {
			p := &out[at[policy.Ref]]
			p.Unguarded = append(p.Unguarded, UnguardedService{Entity: s.Entity, VM: s.Subject, Why: s.Why})
		}
	}
	return out
}

// OfServices are the refusals of policies on native services whose groups cannot be set, and the
// states of services whose mode does not let policies be enforced either, as of VMs without
// interfaces.
func OfServices(services []intent.Unguarded) (refused []Refusal, suspended []VMStatus) {
	at := map[intent.VMRef]int{}
	for _, s := range services {
		if s.Mode == intent.Enforce {
			for _, p := range s.Policies {
				refused = append(refused, Refusal{Policy: p.Ref, Region: s.Subject.Region, Why: s.Why})
			}
			continue
		}
		i, known := at[s.Subject]
		if !known {
			i, at[s.Subject] = len(suspended), len(suspended)
			suspended = append(suspended, VMStatus{VM: s.Subject, Mode: s.Mode})
		}
		on := &suspended[i]
		for _, p := range s.Policies {
			same := func(o VMPolicy) bool { return o.PolicyRef == p.Ref }
			if !slices.ContainsFunc(on.Policies, same) { // two entities may stand for it
				on.Policies = append(on.Policies, VMPolicy{PolicyRef: p.Ref})
			}
		}
	}
	return refused, suspended
}

func (s *reporter) vmStatus(vm *guard.VM, dirty map[string]bool) VMStatus {
	out := VMStatus{
		VM: vm.Ref, Mode: s.region.Account.In.Modes[vm.Ref],
		Interfaces: slices.Grow([]InterfaceStatus(nil), len(vm.NICs)), Policies: slices.Grow([]VMPolicy(nil), len(vm.Policies)),
	}
	for _, n := range vm.NICs {
		st := InterfaceStatus{
			ID: n.ID, State: n.State(), Network: n.NetworkID, Groups: s.design.Targets[n],
			Held: len(n.Groups.Ours) > 0, WhyElsewhere: n.Elsewhere(), WhyUnproven: n.Record.Unproven,
		}
		if n.State() == guard.Guarded {
			st.Former = slices.Clone(n.Groups.Former)
		}
		out.Interfaces = append(out.Interfaces, st)
	}
	left, pending, blocked := s.region.Left(vm.VM), s.pending(vm, dirty), s.blocked(vm)
	guarded := slices.ContainsFunc(vm.NICs, func(n *guard.NIC) bool { return n.State() == guard.Guarded })
	for _, p := range vm.Policies {
		on := VMPolicy{PolicyRef: p.Ref}
		if out.Mode == intent.Enforce { // else nothing more is said of it
			on.Why = cmp.Or(vm.WhyLeft(p), blocked)
			on.Realized = on.Why == nil && !pending && (guarded || left)
			if on.Why == nil && len(vm.NICs) == 0 && !left {
				on.Why = reason.Why(reason.NoInterface)
			}
			on.Warnings = s.warnings(vm, p)
		}
		out.Policies = append(out.Policies, on)
	}
	return out
}

// pending reports whether something is still to be done for a VM, or waits.
func (s *reporter) pending(vm *guard.VM, dirty map[string]bool) bool {
	return slices.ContainsFunc(vm.NICs, func(n *guard.NIC) bool {
		return dirty[n.ID] || n.Restricted() != [2]bool{} || n.Waiting() || slices.ContainsFunc(s.design.Targets[n], func(g string) bool { return dirty[g] })
	})
}

// blocked is why some interface of a VM stays without what policies say, and not for a while only.
func (s *reporter) blocked(vm *guard.VM) *reason.Reason {
	for _, n := range vm.NICs {
		if n.Waiting() {
			continue
		}
		if why := s.beyondUs(vm, n); why != nil {
			return why
		}
		if why := n.Frozen(); why != nil {
			return reason.Why(reason.InterfaceStays, n.ID).From(why)
		}
	}
	return nil
}

// beyondUs is why an interface of a VM cannot be made to enforce what policies say; nil if it can,
// or if nothing is left for the cloud to enforce there.
func (s *reporter) beyondUs(vm *guard.VM, n *guard.NIC) *reason.Reason {
	if len(vm.Effective) == 0 {
		return nil
	}
	return s.guard.Controllable(n)
}

// warnings are what of a policy differs on a VM without being refused.
func (s *reporter) warnings(vm *guard.VM, p *intent.Policy) (out []*reason.Reason) {
	if p.Reject && !s.region.Left(vm.VM) {
		out = append(out, reason.Why(reason.RejectIsDrop))
	}
	if d := s.reducedBy(vm, p); d != "" {
		out = append(out, reason.Why(reason.ProtocolsReduced, string(d)))
	}
	return out
}

// reducedBy returns a direction in which the policy has rules for the VM and the VM allows fewer
// protocols than the policies do; empty if there is none.
func (s *reporter) reducedBy(vm *guard.VM, p *intent.Policy) cloud.Direction {
	for _, n := range vm.NICs {
		if n.State() != guard.Guarded || n.Frozen() != nil {
			continue
		}
		want := s.guard.Wanted(n)
		for i, d := range flow.Directions() {
			if want[i].Reduced && slices.ContainsFunc(vm.Effective, func(b *intent.Bound) bool { return b.Policy == p && b.Direction == d }) {
				return d
			}
		}
	}
	return ""
}

func (s *reporter) vmRefusals(vm *guard.VM) (out []Refusal) {
	refuse := func(r Refusal) {
		r.VM, r.Region, r.Lack, r.Direction = vm.Ref, s.region.Snap.Region, r.Why.Shortage(), r.Why.Direction()
		out = append(out, r)
	}
	network := vm.Observed.NetworkID
	for _, p := range vm.Policies {
		if why := vm.WhyLeft(p); why != nil {
			refuse(Refusal{Policy: p.Ref, Network: network, Why: why, Kept: vm.Keeps(p)})
		}
	}
	for _, n := range vm.NICs {
		if n.Waiting() {
			continue
		}
		if why := s.beyondUs(vm, n); why != nil {
			refuse(Refusal{Network: n.NetworkID, Why: why})
		}
		if why := n.Frozen(); why != nil && !vm.KeepsAny() {
			refuse(Refusal{Network: n.NetworkID, Why: reason.Why(reason.InterfaceStays, n.ID).From(why), Kept: true})
		}
	}
	return out
}

// drift lists what others changed on interfaces that we hold and groups that we own.
func (s *reporter) drift() (out []Drift) {
	tell := func(object string, kept bool, why *reason.Reason) {
		out = append(out, Drift{Region: s.region.Snap.Region, Object: object, Why: why, Kept: kept})
	}
	lost := map[string]bool{}
	cut := s.unrecognized()
	for _, n := range s.guard.NICs {
		if why := cut(n); why != nil {
			tell(n.ID, false, why)
		}
		if n.Record.Unproven != nil {
			tell(n.ID, true, n.Record.Unproven)
			continue
		}
		if extra := s.region.PutInto(n.NIC); len(extra) > 0 {
			tell(n.ID, false, reason.Why(reason.PutInto, extra...))
			if pause := s.pauses(n, extra); pause != nil && n.Frozen() == nil {
				tell(n.ID, false, pause)
			}
		}
		if !n.Record.Exists() || n.Alien != nil || n.State() != guard.Guarded {
			continue
		}
		ours := len(n.Groups.Ours)
		for _, id := range n.Groups.Foreign {
			if g := s.region.Groups[id]; !slices.Contains(n.Record.Groups, id) && s.region.LostTags(g) {
				if ours++; !lost[id] {
					tell(id, false, reason.Why(reason.TagsChanged, g.Name))
				}
				lost[id] = true
			}
		}
		if ours == 0 && !slices.Equal(n.Groups.Foreign, n.Record.Groups) {
			tell(n.ID, false, reason.Why(reason.TakenOut))
		}
	}
	for i := range s.region.Snap.Groups {
		g := &s.region.Snap.Groups[i]
		if !s.region.Ours(g) {
			continue
		}
		wanted := s.design.ByKey[g.ID]
		for _, r := range g.Rules {
			if !signs.Ours(r.Description) && (wanted == nil || !slices.Contains(wanted.Rules, r.Key())) {
				tell(g.ID, s.region.Pinned[g.ID], reason.Why(reason.RuleAdded, r.Key().String()))
			}
		}
	}
	return out
}

// unrecognized tells what an interface ceases to allow because of others nobody knows whether they
// belong to the groups that its own ones name; nil for nothing.
func (s *reporter) unrecognized() func(*guard.NIC) *reason.Reason {
	unknown := slices.DeleteFunc(slices.Clone(s.guard.NICs), func(n *guard.NIC) bool { return n.Record.Unproven == nil })
	var addrs intent.Once[*intent.Network, addrset.Set]
	return func(n *guard.NIC) *reason.Reason {
		if len(unknown) == 0 || !n.Taken() || n.Record.Unproven != nil || n.Frozen() != nil {
			return nil
		}
		set := addrs.Get(n.Network, func() addrset.Set { return guard.AddressesOf(unknown, n.Network) })
		if lost, any := s.guard.Loses(n, set); any {
			return &reason.Reason{Code: reason.RecordCuts, Objects: []string{n.ID}, Flow: lost}
		}
		return nil
	}
}

// pauses is what an interface may be denied while it leaves groups that somebody has put it into,
// although it is allowed it now and in the end; nil for nothing.
func (s *reporter) pauses(n *guard.NIC, extra []string) *reason.Reason {
	rest := slices.DeleteFunc(slices.Clone(n.GroupIDs), func(id string) bool { return slices.Contains(extra, id) })
	without, wanted := s.region.Actual(rest, n.Network), s.guard.Wanted(n)
	for i, is := range s.region.Actual(n.GroupIDs, n.Network) {
		for _, g := range wanted[i].Intersect(is).Without(without[i]).Grants {
			if !g.All.Empty() {
				return &reason.Reason{Code: reason.MayPause, Objects: []string{n.ID}, Flow: &reason.Flow{Direction: flow.Directions()[i], Service: g.Service, Addrs: g.All}}
			}
		}
	}
	return nil
}
