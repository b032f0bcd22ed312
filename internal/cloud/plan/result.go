package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// reporter tells what becomes of a region.
type reporter struct{ *regionState }

// regionReport is what is told about a region.
type regionReport struct {
	VMs      []VMStatus
	Refusals []Refusal
	Drift    []Drift
	Records  Records
	Cuts     []Cut
	Notes    []Note
}

// reportOn returns what becomes of the VMs of a region, given the interfaces and groups that steps change.
func reportOn(of *regionState, dirty map[string]bool) (out regionReport) {
	s := &reporter{of}
	for _, vm := range s.order {
		status := s.vmStatus(vm, dirty)
		if status.Mode == Enforce {
			out.Refusals = append(out.Refusals, s.vmRefusals(vm)...)
		}
		out.VMs = append(out.VMs, status)
	}
	out.Drift = s.drift()
	s.records(&out.Records)
	out.Cuts = s.cuts()
	for note := range s.noted {
		out.Notes = append(out.Notes, note)
	}
	return out
}

// tally returns the states of the policies from those on the VMs.
func tally(policies []*policy, vms []VMStatus) []PolicyStatus {
	if len(policies) == 0 {
		return nil
	}
	out := make([]PolicyStatus, len(policies))
	at := map[PolicyRef]int{}
	for i, p := range policies {
		out[i].PolicyRef, at[p.ref] = p.ref, i
	}
	for _, vm := range vms {
		for _, on := range vm.Policies {
			p := &out[at[on.PolicyRef]]
			if vm.Mode == Enforce {
				p.count(vm.VM, on)
			} else {
				p.Suspended = append(p.Suspended, vm.VM)
			}
		}
	}
	return out
}

func compareVMs(a, b VMRef) int {
	return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.ID, b.ID))
}

func (p *PolicyStatus) count(vm VMRef, on VMPolicy) {
	switch {
	case on.Message != "":
		p.Failed = append(p.Failed, FailedVM{vm, on.Message})
	case on.Realized:
		p.Realized = append(p.Realized, vm)
	default:
		p.Pending = append(p.Pending, vm)
	}
}

func (s *reporter) vmStatus(vm *vmState, dirty map[string]bool) VMStatus {
	out := VMStatus{VM: vm.ref}
	pending, blocked := false, ""
	for _, n := range vm.nics {
		st := InterfaceStatus{ID: n.ID, State: n.state, Network: n.NetworkID, Groups: n.target, Held: len(n.ours) > 0, Elsewhere: n.elsewhere, Unproven: n.unproven}
		if n.state == Guarded {
			st.Former = slices.Clone(n.former)
		}
		out.Interfaces = append(out.Interfaces, st)
		pending = pending || dirty[n.ID] || s.restrict[n] != [2]bool{}
		for _, g := range n.target {
			pending = pending || dirty[g]
		}
		if s.waiting[n] {
			pending = true
			continue
		}
		if why := s.controllable(n); why != "" && blocked == "" && !n.Managed {
			blocked = why
		}
		if why := s.frozen[n]; why != "" && blocked == "" {
			blocked = "the interface " + n.ID + " stays as it is: " + why
		}
	}
	guarded := slices.ContainsFunc(vm.nics, func(n *nic) bool { return n.state == Guarded })
	for _, p := range vm.policies {
		on := VMPolicy{PolicyRef: p.ref, Message: vm.keptMessage(p)}
		if on.Message == "" {
			tightened, lost := s.tightenedOn(vm, p)
			if on.Message = blocked; blocked == "" {
				on.Message, on.Lost = tightened, lost
			}
		}
		on.Realized = on.Message == "" && !pending && guarded
		if p.reject {
			on.Warning = "Reject is realized as Drop: security groups cannot answer."
		}
		if d, ok := s.reducedBy(vm, p); ok {
			on.Warning = strings.TrimSpace(on.Warning + " " + reducedWarning(d))
		}
		if i := slices.IndexFunc(vm.nics, func(n *nic) bool { return n.Managed }); i >= 0 {
			on.Warning = strings.TrimSpace(on.Warning + " The interface " + vm.nics[i].ID + " belongs to a service of the cloud and is not controlled.")
		}
		if on.Message == "" && len(vm.nics) == 0 {
			on.Message = "the VM has no interface"
		}
		out.Policies = append(out.Policies, on)
	}
	if m := s.in.Modes[vm.ref]; m != Enforce {
		out.suspended(m)
	}
	return out
}

// reducedBy returns a direction in which the policy has rules for the VM and the VM allows fewer protocols than the policies do.
func (s *reporter) reducedBy(vm *vmState, p *policy) (cloud.Direction, bool) {
	for _, n := range vm.nics {
		if n.state != Guarded || s.frozen[n] != "" {
			continue
		}
		want := s.wanted(n)
		for i, d := range directions {
			if want[i].Reduced && slices.ContainsFunc(vm.effective, func(b *bound) bool { return b.policy == p && b.direction == d }) {
				return d, true
			}
		}
	}
	return "", false
}

func reducedWarning(d cloud.Direction) string {
	var names []string
	for _, protocol := range flow.KeptProtocols() {
		names = append(names, cloud.ProtocolName(protocol))
	}
	return "Where a rule takes some " + string(d) + " traffic out of what all protocols were allowed, of the others only these IP protocols stay open, and of ICMP the types in use: " +
		strings.Join(names, ", ") + "."
}

func (s *reporter) vmRefusals(vm *vmState) []Refusal {
	var out []Refusal
	for _, p := range vm.policies {
		if message := vm.keptMessage(p); message != "" {
			out = append(out, Refusal{
				Policy: p.ref, VM: vm.ref, Region: s.snap.Region, Network: vm.vm.NetworkID, Message: message, Kept: vm.kept[p] != "",
			})
		}
	}
	for _, p := range vm.policies {
		if message, lost := s.tightenedOn(vm, p); message != "" {
			out = append(out, Refusal{Policy: p.ref, VM: vm.ref, Region: s.snap.Region, Network: vm.vm.NetworkID, Message: message, Tightened: true, Lost: lost})
		}
	}
	for _, n := range vm.nics {
		if why := s.controllable(n); why != "" && len(vm.effective) > 0 && !s.waiting[n] {
			out = append(out, Refusal{VM: vm.ref, Region: s.snap.Region, Network: n.NetworkID, Message: why})
		}
		if why := s.frozen[n]; why != "" && len(vm.kept) == 0 && !s.waiting[n] {
			out = append(out, Refusal{
				VM: vm.ref, Region: s.snap.Region, Network: n.NetworkID, Message: "the interface " + n.ID + " stays as it is: " + why, Kept: true,
			})
		}
	}
	return out
}

// drift lists what others changed on interfaces that we hold and groups that we own.
func (s *reporter) drift() []Drift {
	var out []Drift
	lost := map[string]bool{}
	for _, n := range s.nics {
		if n.unproven != "" {
			out = append(out, Drift{Region: s.snap.Region, Object: n.ID, Message: n.unproven, Kept: true})
			continue
		}
		if n.recorded == nil || n.alien != "" || n.state != Guarded {
			continue
		}
		ours := len(n.ours)
		extra := slices.DeleteFunc(without(n.foreign, n.recorded), func(id string) bool {
			g := s.groups[id]
			if g == nil || !s.lostTags(g) {
				return false
			}
			ours++
			if !lost[id] {
				out = append(out, Drift{Region: s.snap.Region, Object: id, Message: LostTags + g.Name})
			}
			lost[id] = true
			return true
		})
		if len(extra) > 0 {
			out = append(out, Drift{Region: s.snap.Region, Object: n.ID, Message: "somebody put the interface into " + strings.Join(extra, ", ")})
		}
		if ours == 0 && !slices.Equal(n.foreign, n.recorded) {
			out = append(out, Drift{Region: s.snap.Region, Object: n.ID, Message: "somebody took the interface out of its group of ours"})
		}
	}
	for i := range s.snap.Groups {
		g := &s.snap.Groups[i]
		if !s.ours(g) {
			continue
		}
		wanted := s.byKey[g.ID]
		for _, r := range g.Rules {
			if r.Description != ruleDescription && (wanted == nil || !slices.Contains(wanted.rules, r.Key())) {
				out = append(out, Drift{
					Region: s.snap.Region, Object: g.ID, Message: "somebody added the rule: " + r.Key().String(), Kept: s.pinned[g.ID],
				})
			}
		}
	}
	return out
}

// LostTags, and the group's name, is the message about a group of ours whose tags were changed, so that it is not ours any more.
const LostTags = "somebody changed the tags of our group "

// lostTags reports whether a group that is not ours seems to have been: it has our kind of name, and nobody else's tags.
func (s *reporter) lostTags(g *cloud.Group) bool {
	by := g.Tags[cloud.TagCluster]
	return strings.HasPrefix(g.Name, cloud.NamePrefix) && (by == "" || by == s.in.ClusterID)
}
