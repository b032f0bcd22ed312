package target

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// leaveOut refuses the policy on the VM. Interfaces that are under control stay as they are if the
// policy is in force there in an earlier form, and are returned; everywhere else the VM goes on
// without the policy.
func (s *Target) leaveOut(vm *VM, p *intent.Policy, why *intent.Reason) (frozen []*NIC) {
	vm.Left[p] = why
	if s.In.Modes[vm.Ref] != intent.Enforce || !s.InForce(vm.VM, p) {
		return nil
	}
	for _, n := range vm.NICs {
		if n.Taken() && n.Alien == nil && s.Frozen[n] == nil {
			s.Frozen[n], vm.Kept[p] = why, why
			frozen = append(frozen, n)
		}
	}
	return frozen
}

// Controllable reports why the groups of the interface cannot be set by us; nil if they can.
func (s *Target) Controllable(n *NIC) *intent.Reason {
	switch {
	case n.Alien != nil:
		return n.Alien
	case n.Network.Foreign != nil:
		return n.Network.Foreign
	case s.Refused[n] != nil:
		return s.Refused[n]
	case n.Recorded == nil && len(n.Tags)+s.RecordSize(n.NIC) > s.Limits.TagsPerResource:
		return intent.Why(intent.TooManyTags, n.ID).Counting(s.RecordSize(n.NIC), len(n.Tags), s.Limits.TagsPerResource)
	}
	return nil
}

// decideStates decides which interfaces are guarded, members or untouched.
func (s *Target) decideStates() {
	s.findBetween()
	for _, vm := range s.Order {
		vm.Effective, vm.profile = nil, ""
		if s.In.Modes[vm.Ref] == intent.Enforce {
			vm.Effective, vm.profile = s.WithFailsafe(effectiveRules(vm))
		}
	}
	for again := true; again; {
		s.Dependents.reset()
		for _, n := range s.NICs {
			n.State, n.Class, n.Target = Untouched, nil, nil
			n.Given = s.unspared[n] && s.Refused[n] != nil
			if s.guardable(n) && s.wantsGuard(n) {
				n.State = Guarded
			}
		}
		again = s.guardDependents() || s.spareReferred()
	}
	if !s.Between() {
		s.lasting = map[*NIC]bool{}
		for _, n := range s.NICs {
			s.lasting[n] = n.State == Guarded
		}
	}
	s.decideMembers()
}

// findBetween finds the networks with interfaces that are held, and all that peerings connect with
// them.
func (s *Target) findBetween() {
	s.between = map[*intent.Network]bool{}
	var queue []*intent.Network
	for n := range s.Restrict {
		queue = append(queue, n.Network)
	}
	for len(queue) > 0 {
		at := queue[0]
		if queue = queue[1:]; !s.between[at] {
			s.between[at] = true
			queue = append(queue, at.Scope...)
		}
	}
}

func effectiveRules(vm *VM) (rules []*intent.Bound, profile string) {
	for _, r := range vm.Applied {
		if vm.Left[r.Policy] == nil {
			rules = append(rules, r)
		}
	}
	return rules, intent.ProfileOf(rules)
}

// InForce are the rules whose peers matter: the effective ones, and those of policies that stay in
// force in an earlier form.
func (vm *VM) InForce() []*intent.Bound {
	if len(vm.Kept) == 0 {
		return vm.Effective
	}
	var out []*intent.Bound
	for _, r := range vm.Applied {
		if vm.Left[r.Policy] == nil || vm.Kept[r.Policy] != nil {
			out = append(out, r)
		}
	}
	return out
}

func (s *Target) wantsGuard(n *NIC) bool {
	switch {
	case s.Frozen[n] != nil:
		return true
	case s.Restrict[n] != [2]bool{} && (n.VM != nil || n.Taken()):
		return true
	}
	return n.needed() || s.leans(n)
}

// guardable reports whether an interface can be under control, if only until it can be given back.
func (s *Target) guardable(n *NIC) bool { return s.Controllable(n) == nil || n.Given }

// reference is a native rule that refers to a native group.
type reference struct {
	holder *cloud.Group // the group with the rule
	rule   cloud.Rule
}

// references indexes the native rules by the group they refer to.
func (s *Target) references() map[string][]reference {
	out := map[string][]reference{}
	for i := range s.Snap.Groups {
		g := &s.Snap.Groups[i]
		if s.Owned(g) {
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

// guardDependents deals with the interfaces that lose something when others leave their groups:
// rules of their own groups refer to a group that a guarded interface no longer holds. Where we
// may, the dependent interface is guarded too, its former groups deciding everything; else the
// taking over of the other is refused. It reports whether something was refused, so that the states
// have to be decided again.
func (s *Target) guardDependents() (refused bool) {
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
	for _, n := range s.NICs {
		if n.State == Guarded {
			vacate(n.Former)
		}
	}
	for len(queue) > 0 {
		group := queue[0]
		queue = queue[1:]
		queued[group] = false
		for _, ref := range refs[group] {
			for _, dependent := range s.byFormer[ref.holder.ID] {
				if dependent.State == Guarded {
					continue
				}
				lost := s.lost(dependent, ref, group)
				if len(lost) == 0 {
					continue
				}
				waits := dependent.Taken() && slices.ContainsFunc(lost, s.onlyWaits)
				ours := dependent.VM != nil && dependent.Released == nil
				if s.guardable(dependent) && (ours && !dependent.Given || waits) {
					dependent.State = Guarded
					if on := dependent.waitsFor(lost); on != nil {
						s.Note(dependent.ID, intent.Why(intent.StaysForBlocked, on.ID).From(on.Refused()))
					}
					vacate(dependent.Former)
					continue
				}
				refused = s.settleDependent(lost, dependent, ref) || refused
			}
		}
	}
	return refused
}

// onlyWaits reports whether the interface is under control only until it can be given back: it
// waits for others, or the cloud refuses to change it. A released one that depends on it goes with
// it.
func (s *Target) onlyWaits(n *NIC) bool {
	waits := n.Blocked != "" || s.Frozen[n] == nil && s.Restrict[n] != [2]bool{} && !s.lasting[n]
	return waits && n.Taken() && !n.needed()
}

// waitsFor is the interface that the cloud refuses to give back and for whose sake one stays under
// control that no policy needs.
func (n *NIC) waitsFor(lost []*NIC) *NIC {
	i := slices.IndexFunc(lost, func(on *NIC) bool { return on.Blocked != "" })
	if i < 0 || !n.Taken() || n.needed() {
		return nil
	}
	return lost[i]
}

// spareReferred refuses to take over interfaces whose groups rules of other accounts refer to: whom
// these rules concern is not known here, and they would no longer match the interface. It reports
// whether that refuses anything.
func (s *Target) spareReferred() (refused bool) {
	if len(s.Snap.References) == 0 {
		return false
	}
	by := map[string]*cloud.Reference{}
	for i := range s.Snap.References {
		if r := &s.Snap.References[i]; by[r.GroupID] == nil {
			by[r.GroupID] = r
		}
	}
	for _, n := range s.NICs {
		if n.State != Guarded {
			continue
		}
		for _, id := range n.Former {
			r := by[id]
			if r == nil {
				continue
			}
			why := intent.Why(intent.ReferredAbroad, r.NetworkID, r.OwnerID, id, r.PeeringID, n.ID)
			if s.spares(n) {
				s.Note(n.ID, why)
				continue
			}
			s.Refused[n], refused = why, true
			break
		}
	}
	return refused
}

// lost returns the interfaces that natively hold the group, do not in the end, and that the
// dependent's rule no longer matches.
func (s *Target) lost(dependent *NIC, ref reference, group string) []*NIC {
	var out []*NIC
	var open addrset.Set
	known := false
	for _, n := range s.gone(group) {
		if n == dependent || !dependent.Network.Reaches(n.Network) {
			continue
		}
		if !known {
			open, known = s.openedByAddress(dependent, ref.rule), true
		}
		if !n.Private.Within(open) {
			out = append(out, n)
		}
	}
	return out
}

// openedByAddress returns the addresses to which the interface's groups give all that the rule
// gives, without any group reference.
func (s *Target) openedByAddress(n *NIC, rule cloud.Rule) addrset.Set {
	var out addrset.Set
	for _, id := range n.Former {
		g := s.Groups[id]
		if g == nil {
			continue
		}
		for _, r := range g.Rules {
			if r.Direction != rule.Direction || !flow.ServiceOf(r.Match).Covers(flow.ServiceOf(rule.Match)) {
				continue
			}
			if addrs, byAddr, known := s.NativePeer(r.Peer, n.Network); known && byAddr {
				out = out.Union(addrs)
			}
		}
	}
	return out
}

// refuseTakeover refuses to take over interfaces whose leaving would cut off the dependent. Those
// that are under control already stay so: giving up protection because somebody else started to
// depend on them would be worse.
func (s *Target) refuseTakeover(lost []*NIC, dependent *NIC, ref reference) (refused bool) {
	for _, n := range lost {
		why := intent.Why(intent.DependentLoses, ref.holder.ID, dependent.ID, dependent.VMID, ref.rule.Peer.GroupID, n.ID).From(s.whyNot(dependent))
		if s.spares(n) {
			s.Note(dependent.ID, why)
			continue
		}
		s.Refused[n] = why
		refused = true
	}
	return refused
}

// spares reports whether an interface stays under control although it would not be taken over.
func (s *Target) spares(n *NIC) bool {
	if !n.Controlled() || s.unspared[n] {
		return n.Given // it only waits
	}
	s.spared[n] = true
	return true
}

func (s *Target) whyNot(n *NIC) *intent.Reason {
	return cmp.Or(s.Controllable(n), n.Released, intent.Why(intent.NotSelected))
}

// decideMembers decides which unguarded interfaces get a group by which the rules of others refer
// to them: those of the members of address groups from which rules in reach allow something.
func (s *Target) decideMembers() {
	used := map[*intent.Network]map[string]bool{}
	for _, vm := range s.Order {
		for _, n := range vm.NICs {
			if n.State != Guarded {
				continue
			}
			if used[n.Network] == nil {
				used[n.Network] = map[string]bool{}
			}
			for _, r := range vm.InForce() {
				if r.Verdict == intent.Drop {
					continue
				}
				for _, g := range r.Groups {
					used[n.Network][g] = true
				}
			}
		}
	}
	for _, n := range s.NICs {
		if n.State == Guarded || n.VM == nil || n.Released != nil || s.Controllable(n) != nil || len(n.Former)+1 > s.Limits.GroupsPerInterface {
			continue
		}
		for _, o := range n.Network.Scope {
			if slices.ContainsFunc(n.VM.Groups, func(g string) bool { return used[o][g] }) {
				n.State = Member
				break
			}
		}
	}
}

// leans reports whether an interface that no policy applies to any more would lose something with
// strangers if it was given back: its own groups do not allow by themselves what it allows now.
func (s *Target) leans(n *NIC) bool {
	if len(s.Unknown) == 0 || n.VM == nil || n.Released != nil || !n.Taken() || n.Unproven != nil || !s.Native(n) || s.KeptKey(n.NIC) == "" {
		return false
	}
	with := s.Decided(n.NIC, nil, "")
	for i, d := range flow.Directions() {
		f := intent.Flattening{View: n.Network, Native: s.GroupRules(n.Former, d)}
		if len(with[i].Minus(f.Flatten(s.Region))) > 0 {
			s.Note(n.ID, intent.Why(intent.StaysForUnknown, s.Unknown[0].ID))
			return true
		}
	}
	return false
}

// Addresses returns what a rule's peer means now, and what it will mean; known is false for peers
// whose members cannot be seen.
func (s *Target) Addresses(p cloud.Peer, view *intent.Network) (now, then addrset.Set, known bool) {
	key := groupKey(p)
	if key == "" {
		addrs, _, known := s.NativePeer(p, view)
		return addrs, addrs, known
	}
	if p.GroupID != "" && s.Groups[p.GroupID] == nil {
		return addrset.Set{}, addrset.Set{}, false
	}
	if p.GroupID != "" {
		now = s.HeldAddrs(p.GroupID, view)
	}
	return now, s.fitter.thenAddrs(key, view), true
}

// evaluateThen returns what rules of one direction will allow when all interfaces hold the groups
// that they shall.
func (s *Target) evaluateThen(rules []cloud.Rule, view *intent.Network) flow.Permit {
	return s.Evaluate(rules, view, func(p cloud.Peer) addrset.Set {
		_, then, _ := s.Addresses(p, view)
		return then
	})
}
