package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// leaveOut refuses the policy on the VM. Interfaces that are under control stay as they are if the policy is in force there in
// an earlier form; everywhere else the VM goes on without the policy.
func (s *regionState) leaveOut(vm *vmState, p *policy, message string) {
	vm.left[p] = message
	if s.in.Modes[vm.ref] != Enforce {
		return
	}
	if s.inForce(vm.machine, p) {
		s.keep(vm, p, message)
	}
}

// keep has the interfaces that are under control stay as they are for the sake of a policy.
func (s *regionState) keep(vm *vmState, p *policy, message string) {
	for _, n := range vm.nics {
		if n.taken() && n.alien == "" && s.frozen[n] == "" {
			s.frozen[n] = message
			vm.kept[p] = message
		}
	}
}

// controllable reports why the groups of the interface cannot be set by us; empty if they can.
func (s *regionState) controllable(n *nic) string {
	switch {
	case n.alien != "":
		return n.alien
	case n.network.foreign != "":
		return n.network.foreign
	case s.refused[n] != "":
		return s.refused[n]
	case n.recorded == nil && len(n.Tags)+s.recordSize(n.iface) > s.limits.TagsPerResource:
		return fmt.Sprintf("the interface %s needs %s to remember its groups, it has %d of at most %d",
			n.ID, Counted(s.recordSize(n.iface), "tag"), len(n.Tags), s.limits.TagsPerResource)
	}
	return ""
}

// decideStates decides which interfaces are guarded, members or untouched.
func (s *regionState) decideStates() {
	for _, vm := range s.order {
		vm.effective, vm.profile = nil, ""
		if s.in.Modes[vm.ref] == Enforce {
			vm.effective, vm.profile = s.withFailsafe(effectiveRules(vm))
		}
	}
	for again := true; again; {
		s.dependents.reset()
		for _, n := range s.nics {
			n.state, n.class, n.target = Untouched, nil, nil
			if s.controllable(n) == "" && s.wantsGuard(n) {
				n.state = Guarded
			}
		}
		again = s.guardDependents() || s.spareReferred()
	}
	s.decideMembers()
}

func effectiveRules(vm *vmState) (rules []*bound, profile string) {
	for _, r := range vm.applied {
		if vm.left[r.policy] == "" {
			rules = append(rules, r)
		}
	}
	return rules, profileOf(rules)
}

// profileOf identifies rules.
func profileOf(rules []*bound) string {
	var b strings.Builder
	for _, r := range rules {
		fmt.Fprintf(&b, "%s %d", r.policy.ref.UID, r.ordinal)
		if len(r.named) > 0 {
			fmt.Fprint(&b, r.services)
		}
		b.WriteByte(';')
	}
	return b.String()
}

// inForce are the rules whose peers matter: the effective ones, and those of policies that stay in force in an earlier form.
func (vm *vmState) inForce() []*bound {
	if len(vm.kept) == 0 {
		return vm.effective
	}
	var out []*bound
	for _, r := range vm.applied {
		if vm.left[r.policy] == "" || vm.kept[r.policy] != "" {
			out = append(out, r)
		}
	}
	return out
}

func (s *regionState) wantsGuard(n *nic) bool {
	switch {
	case s.frozen[n] != "", s.restrict[n] != [2]bool{}:
		return true
	}
	return n.vm != nil && len(n.vm.effective) > 0 || s.leans(n)
}

// reference is a native rule that refers to a native group.
type reference struct {
	holder *cloud.Group // the group with the rule
	rule   cloud.Rule
}

// references indexes the native rules by the group they refer to.
func (s *regionState) references() map[string][]reference {
	out := map[string][]reference{}
	for i := range s.snap.Groups {
		g := &s.snap.Groups[i]
		if s.owned(g) {
			continue
		}
		for _, r := range g.Rules {
			if r.Peer.GroupID != "" {
				out[r.Peer.GroupID] = append(out[r.Peer.GroupID], reference{g, r})
			}
		}
	}
	return out
}

// guardDependents deals with the interfaces that lose something when others leave their groups: rules of their own groups refer to
// a group that a guarded interface no longer holds. Where we may, the dependent interface is guarded too, its former groups
// deciding everything; else the taking over of the other is refused. It reports whether something was refused, so that the
// states have to be decided again.
func (s *regionState) guardDependents() (refused bool) {
	refs := s.references()
	var queue []string
	queued := map[string]bool{}
	vacate := func(groups []string) {
		for _, g := range groups {
			if !queued[g] && len(refs[g]) > 0 {
				queued[g] = true
				queue = append(queue, g)
			}
		}
	}
	for _, n := range s.nics {
		if n.state == Guarded {
			vacate(n.former)
		}
	}
	for _, g := range sortedKeys(s.missed) {
		vacate([]string{g})
	}
	for len(queue) > 0 {
		group := queue[0]
		queue = queue[1:]
		queued[group] = false
		for _, ref := range refs[group] {
			for _, dependent := range s.byFormer[ref.holder.ID] {
				if dependent.state == Guarded {
					continue
				}
				lost := s.lost(dependent, ref, group)
				if len(lost) == 0 {
					continue
				}
				ours := dependent.vm != nil && s.controllable(dependent) == ""
				if ours && !slices.ContainsFunc(lost, func(n *nic) bool { return n.state == Guarded }) {
					continue // it is given back although somebody it depends on cannot be
				}
				if ours && (dependent.released == "" || dependent.taken() && slices.ContainsFunc(lost, s.onlyWaits)) {
					dependent.state = Guarded
					vacate(dependent.former)
					continue
				}
				refused = s.settleDependent(lost, dependent, ref) || refused
			}
		}
	}
	return refused
}

// onlyWaits reports whether the interface is guarded only until it can be given back. A released one that depends on it goes with it.
func (s *regionState) onlyWaits(n *nic) bool {
	return n.taken() && s.frozen[n] == "" && (n.vm == nil || len(n.vm.effective) == 0) && s.restrict[n] != [2]bool{}
}

// spareReferred refuses to take over interfaces whose groups rules of other accounts refer to: whom these rules concern is not known here, and
// they would no longer match the interface. It reports whether that refuses anything.
func (s *regionState) spareReferred() (refused bool) {
	if len(s.snap.References) == 0 {
		return false
	}
	by := map[string]*cloud.Reference{}
	for i := range s.snap.References {
		if r := &s.snap.References[i]; by[r.GroupID] == nil {
			by[r.GroupID] = r
		}
	}
	for _, n := range s.nics {
		if n.state != Guarded {
			continue
		}
		for _, id := range n.former {
			r := by[id]
			if r == nil {
				continue
			}
			message := fmt.Sprintf("rules in the network %s of the account %s refer to the group %s over the peering %s, and would no longer match the interface %s: "+
				"let them name addresses, or give the VM another group instead", r.NetworkID, r.OwnerID, id, r.PeeringID, n.ID)
			if n.controlled() {
				s.note(n.ID, message)
				continue
			}
			s.refused[n], refused = message, true
			break
		}
	}
	return refused
}

// lost returns the interfaces that natively hold the group, do not in the end, and that the dependent's rule no longer matches.
func (s *regionState) lost(dependent *nic, ref reference, group string) []*nic {
	var out []*nic
	var open addrset.Set
	known := false
	for _, n := range s.gone(group) {
		if n == dependent || !dependent.network.reaches(n.network) {
			continue
		}
		if !known {
			open, known = s.openedByAddress(dependent, ref.rule), true
		}
		if !n.private.Within(open) {
			out = append(out, n)
		}
	}
	return out
}

// openedByAddress returns the addresses to which the interface's groups give all that the rule gives, without any group reference.
func (s *regionState) openedByAddress(n *nic, rule cloud.Rule) addrset.Set {
	var out addrset.Set
	for _, id := range n.former {
		g := s.groups[id]
		if g == nil {
			continue
		}
		for _, r := range g.Rules {
			if r.Direction != rule.Direction || !flow.ServiceOf(r.Match).Covers(flow.ServiceOf(rule.Match)) {
				continue
			}
			if addrs, byAddr, known := s.nativePeer(r.Peer, n.network); known && byAddr {
				out = out.Union(addrs)
			}
		}
	}
	return out
}

// refuseTakeover refuses to take over interfaces whose leaving would cut off the dependent. Those that are under control already
// stay so: giving up protection because somebody else started to depend on them would be worse.
func (s *regionState) refuseTakeover(lost []*nic, dependent *nic, ref reference) (refused bool) {
	remedy := ""
	if dependent.VMID != "" {
		remedy = "select its VM, "
	}
	for _, n := range lost {
		message := fmt.Sprintf("the group %s of the interface %s refers to the group %s, and the interface %s would no longer match it; "+
			"%s cannot be taken over itself (%s): %slet %s allow addresses instead of the group, or say by spec.dependents of the account what becomes of it",
			ref.holder.ID, dependent.ID, ref.rule.Peer.GroupID, n.ID, dependent.ID, s.whyNot(dependent), remedy, ref.holder.ID)
		if n.controlled() {
			s.note(dependent.ID, message)
			continue
		}
		s.refused[n] = message
		refused = true
	}
	return refused
}

func (s *regionState) whyNot(n *nic) string {
	if why := cmp.Or(s.controllable(n), n.released); why != "" {
		return why
	}
	return "it belongs to no selected VM"
}

// decideMembers decides which unguarded interfaces get a group by which the rules of others refer to them: those of the members of
// address groups from which rules in reach allow something.
func (s *regionState) decideMembers() {
	used := map[*network]map[string]bool{}
	for _, vm := range s.order {
		for _, n := range vm.nics {
			if n.state != Guarded {
				continue
			}
			if used[n.network] == nil {
				used[n.network] = map[string]bool{}
			}
			for _, r := range vm.inForce() {
				if r.verdict == drop {
					continue
				}
				for _, g := range r.groups {
					used[n.network][g] = !s.unlisted[g]
				}
			}
		}
	}
	for _, n := range s.nics {
		if n.state == Guarded || n.vm == nil || n.released != "" || s.controllable(n) != "" || len(n.former)+1 > s.limits.GroupsPerInterface {
			continue
		}
		for _, o := range n.network.scope {
			if slices.ContainsFunc(n.vm.groups, func(g string) bool { return used[o][g] }) {
				n.state = Member
				break
			}
		}
	}
}
