package guard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// Cut is what an interface that is not ours loses because guarded interfaces give up a group that
// one of its rules names.
type Cut struct {
	Region string
	// Interface loses flows, and VMID is its VM; empty if it belongs to none. Group is its group
	// with the Rule.
	Interface, VMID, Group string
	Rule                   cloud.Rule
	// Lost are the guarded interfaces that the rule no longer matches, sorted.
	Lost []string
}

// answer is what becomes of the interfaces that hold a group with a rule that names a group that
// others give up.
func (s *States) answer(holder *cloud.Group) intent.Dependents {
	out, ok := s.Account.In.Dependents.Groups[holder.ID]
	if !ok {
		out = s.Account.In.Dependents.Default
	}
	n := s.Region.Networks[holder.NetworkID]
	if _, may := holder.Tags[cloud.TagFollow]; out == intent.FollowDependents && (!may || n == nil || n.Foreign != nil) {
		return intent.RefuseDependents
	}
	return out
}

// dependents is what one attempt has decided about them.
type dependents struct {
	followed map[string]map[string]bool // group with rules -> groups that these name and that are followed
	cuts     map[string]Cut
	// unfollowed are groups that have no room for twins; nothing more is taken over for whose sake
	// they would be needed.
	unfollowed map[string]*reason.Reason
}

func (d *dependents) reset() {
	d.followed, d.cuts = map[string]map[string]bool{}, map[string]Cut{}
}

// Followed are, by the groups of others that get twins, the groups that their rules name and that
// guarded interfaces give up.
func (s *States) Followed() map[string]map[string]bool { return s.dependents.followed }

// Unfollow says that a group has no room for all its twins. It reports whether that is new.
func (s *States) Unfollow(group string, why *reason.Reason) bool {
	if s.dependents.unfollowed[group] != nil {
		return false
	}
	s.dependents.unfollowed[group] = why
	return true
}

// reference is a native rule that refers to a native group.
type reference struct {
	holder *cloud.Group // the group with the rule
	rule   cloud.Rule
}

// referencesOf indexes the native rules of a region by the group they refer to.
func referencesOf(r *intent.Region) map[string][]reference {
	out := map[string][]reference{}
	for i := range r.Snap.Groups {
		g := &r.Snap.Groups[i]
		if r.Owned(g) {
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
func (s *States) guardDependents() (refused bool) {
	var queue []string
	queued := map[string]bool{}
	vacate := func(groups []string) {
		for _, g := range groups {
			if !queued[g] && len(s.references[g]) > 0 {
				queued[g] = true
				queue = append(queue, g)
			}
		}
	}
	for _, n := range s.NICs {
		if n.State() == Guarded {
			vacate(n.Groups.Former)
		}
	}
	for len(queue) > 0 {
		group := queue[0]
		queue = queue[1:]
		queued[group] = false
		for _, ref := range s.references[group] {
			for _, dependent := range s.byFormer[ref.holder.ID] {
				if dependent.State() == Guarded {
					continue
				}
				lost := s.lost(dependent, ref)
				if len(lost) == 0 {
					continue
				}
				waits := dependent.Taken() && slices.ContainsFunc(lost, s.onlyWaits)
				ours := dependent.VM != nil && dependent.Released == nil
				if s.Controllable(dependent) == nil && (ours || waits) {
					dependent.decided.state = Guarded
					if on := dependent.waitsFor(lost); on != nil {
						s.Region.Note(dependent.ID, reason.Why(reason.StaysForBlocked, on.ID).From(on.Refused()))
					}
					vacate(dependent.Groups.Former)
					continue
				}
				refused = s.settleDependent(lost, dependent, ref) || refused
			}
		}
	}
	return refused
}

// onlyWaits reports whether the interface is under control only because the cloud refuses to give
// it back. A released one that depends on it goes with it.
func (s *States) onlyWaits(n *NIC) bool { return n.Blocked != "" && n.Taken() && n.Native() }

// settleDependent deals with what an interface that is not ours to guard loses. It reports whether
// that refuses a take-over.
func (s *States) settleDependent(lost []*NIC, dependent *NIC, ref reference) (refused bool) {
	switch s.answer(ref.holder) {
	case intent.FollowDependents:
		if why := s.dependents.unfollowed[ref.holder.ID]; why != nil {
			for _, n := range lost {
				if !n.Taken() {
					n.decided.refusal, refused = why, true
				}
			}
		}
		if !refused {
			if s.dependents.followed[ref.holder.ID] == nil {
				s.dependents.followed[ref.holder.ID] = map[string]bool{}
			}
			s.dependents.followed[ref.holder.ID][ref.rule.Peer.GroupID] = true
		}
		return refused
	case intent.CutDependents:
		cut := Cut{Region: s.Region.Snap.Region, Interface: dependent.ID, VMID: dependent.VMID, Group: ref.holder.ID, Rule: ref.rule.Key()}
		for _, n := range lost {
			cut.Lost = append(cut.Lost, n.ID)
		}
		s.dependents.cuts[fmt.Sprint(cut.Interface, cut.Group, cut.Rule)] = cut
		return false
	}
	return s.refuseTakeover(lost, dependent, ref)
}

// spareReferred refuses to take over interfaces whose groups are referenced by rules of other
// accounts: the interfaces under these rules are unknown here, and the rules would no longer match
// the interface. It reports whether that refuses anything.
func (s *States) spareReferred() (refused bool) {
	if len(s.Region.Snap.References) == 0 {
		return false
	}
	by := map[string]*cloud.Reference{}
	for i := range s.Region.Snap.References {
		if r := &s.Region.Snap.References[i]; by[r.GroupID] == nil {
			by[r.GroupID] = r
		}
	}
	for _, n := range s.NICs {
		if n.State() != Guarded {
			continue
		}
		for _, id := range n.Groups.Former {
			r := by[id]
			if r == nil {
				continue
			}
			why := reason.Why(reason.ReferredAbroad, r.NetworkID, r.OwnerID, id, r.PeeringID, n.ID)
			if n.Controlled() {
				n.decided.spared = true
				s.Region.Note(n.ID, why)
				continue
			}
			n.decided.refusal, refused = why, true
			break
		}
	}
	return refused
}

// lost returns the interfaces that natively hold the group that the dependent's rule names, do not
// in the end, and that the rule no longer matches.
func (s *States) lost(dependent *NIC, ref reference) []*NIC {
	var out []*NIC
	var open addrset.Set
	known := false
	for _, n := range s.Gone(ref.rule.Peer.GroupID) {
		if !dependent.Network.Reaches(n.Network) {
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

// Gone are the interfaces that natively belong to a group and do not hold it when all is done.
func (s *States) Gone(group string) (out []*NIC) {
	for _, n := range s.byFormer[group] {
		if n.State() == Guarded {
			out = append(out, n)
		}
	}
	return out
}

// openedByAddress returns the addresses to which the interface's groups give all that the rule
// gives, without any group reference.
func (s *States) openedByAddress(n *NIC, rule cloud.Rule) addrset.Set {
	var out addrset.Set
	for _, id := range n.Groups.Former {
		g := s.Region.Groups[id]
		if g == nil {
			continue
		}
		for _, r := range g.Rules {
			if r.Direction != rule.Direction || !flow.ServiceOf(r.Match).Covers(flow.ServiceOf(rule.Match)) {
				continue
			}
			if addrs, named := s.Region.Named(r.Peer); named {
				out = out.Union(addrs)
			}
		}
	}
	return out
}

// refuseTakeover refuses to take over interfaces whose leaving would cut off the dependent.
// Interfaces that are under control already stay so: giving up protection because another interface
// started to depend on them would be worse.
func (s *States) refuseTakeover(lost []*NIC, dependent *NIC, ref reference) (refused bool) {
	whyNot := cmp.Or(s.Controllable(dependent), dependent.Released, reason.Why(reason.NotSelected))
	for _, n := range lost {
		why := reason.Why(reason.DependentLoses, ref.holder.ID, dependent.ID, dependent.VMID, ref.rule.Peer.GroupID, n.ID).From(whyNot)
		if n.Controlled() {
			n.decided.spared = true
			s.Region.Note(dependent.ID, why)
			continue
		}
		n.decided.refusal, refused = why, true
	}
	return refused
}

// KeepSpared has VMs stay as they are whose policies do not fit, and of which an interface would
// not be taken over again once it is given back: it is under control, and somebody has come to
// depend on its own groups. The next plan would find room for what this one leaves out. It reports
// whether there are any.
func (s *States) KeepSpared() (found bool) {
	for _, n := range s.NICs {
		if !n.decided.spared || n.State() == Guarded || !n.Taken() || s.Controllable(n) != nil || n.VM == nil {
			continue
		}
		for _, p := range n.VM.Policies {
			if why := n.VM.Left(p); why != nil {
				s.leaveOut(n.VM, p, why, true)
				found = true
			}
		}
	}
	return found
}

// Cuts are what others lose, sorted.
func (s *States) Cuts() []Cut {
	return slices.SortedFunc(maps.Values(s.dependents.cuts), func(a, b Cut) int {
		return cmp.Or(strings.Compare(a.Interface, b.Interface), strings.Compare(a.Group, b.Group), a.Rule.Compare(b.Rule))
	})
}
