package target

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
func (s *Target) answer(holder *cloud.Group) intent.Dependents {
	out, ok := s.In.Dependents.Groups[holder.ID]
	if !ok {
		out = s.In.Dependents.Default
	}
	n := s.Networks[holder.NetworkID]
	if _, may := holder.Tags[cloud.TagFollow]; out == intent.FollowDependents && (!may || n == nil || n.Foreign != nil) {
		return intent.RefuseDependents
	}
	return out
}

// dependents is what one attempt has decided about them.
type dependents struct {
	followed map[string]map[string]bool // group with rules -> groups that these name and that are followed
	cuts     map[string]Cut
	Twins    map[string][]cloud.Rule // group with rules -> twins
	// unfollowed are groups that have no room for twins; nothing more is taken over for whose sake
	// they would be needed.
	unfollowed map[string]*intent.Reason
}

func (d *dependents) reset() {
	d.followed, d.cuts, d.Twins = map[string]map[string]bool{}, map[string]Cut{}, map[string][]cloud.Rule{}
}

// settleDependent deals with what an interface that is not ours to guard loses. It reports whether
// that refuses a take-over.
func (s *Target) settleDependent(lost []*NIC, dependent *NIC, ref reference) (refused bool) {
	switch s.answer(ref.holder) {
	case intent.FollowDependents:
		why := s.Dependents.unfollowed[ref.holder.ID]
		if why == nil || !slices.ContainsFunc(lost, func(n *NIC) bool { return !n.Taken() }) {
			if s.Dependents.followed[ref.holder.ID] == nil {
				s.Dependents.followed[ref.holder.ID] = map[string]bool{}
			}
			s.Dependents.followed[ref.holder.ID][ref.rule.Peer.GroupID] = true
			return false
		}
		for _, n := range lost {
			if !n.Taken() {
				s.Refused[n], refused = why, true
			}
		}
		return refused
	case intent.CutDependents:
		cut := Cut{Region: s.Snap.Region, Interface: dependent.ID, VMID: dependent.VMID, Group: ref.holder.ID, Rule: ref.rule.Key()}
		for _, n := range lost {
			cut.Lost = append(cut.Lost, n.ID)
		}
		s.Dependents.cuts[fmt.Sprint(cut.Interface, cut.Group, cut.Rule)] = cut
		return false
	}
	return s.refuseTakeover(lost, dependent, ref)
}

// gone are the interfaces that natively belong to a group and do not hold it when all is done.
func (s *Target) gone(group string) (out []*NIC) {
	for _, n := range s.byFormer[group] {
		if n.State == Guarded {
			out = append(out, n)
		}
	}
	return out
}

// addTwins decides which rules somebody else's groups need beside those that name a group that
// guarded interfaces give up. It reports whether one of them has no room, so that the design has to
// be made again.
func (s *Target) addTwins() (retry bool) {
	refs := map[string][]cloud.Rule{}
	for i := range s.Snap.Groups {
		g := &s.Snap.Groups[i]
		for _, r := range g.Rules {
			if s.Dependents.followed[g.ID][r.Peer.GroupID] {
				refs[g.ID] = append(refs[g.ID], r.Key())
			}
		}
	}
	for _, id := range sortedKeys(refs) {
		holder := s.Groups[id]
		twins := map[cloud.Rule]cloud.Rule{}
		for _, r := range refs[id] {
			for _, p := range s.standIns(r.Peer.GroupID, s.Networks[holder.NetworkID]) {
				twin := r
				twin.Peer, twin.Description = p, s.TwinMark(r.Peer.GroupID)
				twins[twin.Key()] = twin
			}
		}
		all := slices.SortedFunc(maps.Values(twins), cloud.Rule.Compare)
		all = slices.DeleteFunc(all, func(t cloud.Rule) bool { return slices.ContainsFunc(holder.Rules, t.Same) })
		if !s.Lower.Fits(slices.Concat(holder.Rules, all), QuotaOf(s.Region)) {
			why := intent.Why(intent.FollowNoRoom, id).Counting(len(holder.Rules), len(all), s.Limits.RulesPerGroup)
			if s.Dependents.unfollowed[id] == nil {
				s.Dependents.unfollowed[id], retry = why, true
			}
			s.Note(id, why)
			all = s.fittingTwins(holder, all)
		}
		s.Dependents.Twins[id] = slices.DeleteFunc(all, func(t cloud.Rule) bool { return s.early(holder, t) })
	}
	return retry
}

// early reports whether a new twin would give an interface that holds the group more than it is
// allowed now, in a direction in which it waits for others. Twins are all that we can hold back
// there.
func (s *Target) early(holder *cloud.Group, twin cloud.Rule) bool {
	if slices.ContainsFunc(s.TwinsNow[holder.ID], twin.Same) {
		return false
	}
	i := flow.Index(twin.Direction)
	return slices.ContainsFunc(s.byHeld[holder.ID], func(n *NIC) bool {
		_, then, _ := s.Addresses(twin.Peer, n.Network)
		return s.Restrict[n][i] && !s.Actual(n.GroupIDs, n.Network)[i].Allows(flow.Permit{}, flow.ServiceOf(twin.Match), then)
	})
}

// fittingTwins are as many of the twins as fit: those that are there first.
func (s *Target) fittingTwins(holder *cloud.Group, all []cloud.Rule) (out []cloud.Rule) {
	there := s.TwinsNow[holder.ID]
	slices.SortStableFunc(all, func(a, b cloud.Rule) int {
		return b2i(slices.ContainsFunc(there, b.Same)) - b2i(slices.ContainsFunc(there, a.Same))
	})
	for _, t := range all {
		if s.Lower.Fits(slices.Concat(holder.Rules, out, []cloud.Rule{t}), QuotaOf(s.Region)) {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, cloud.Rule.Compare)
	return out
}

// standIns are the peers by which the guarded interfaces are named that natively belong to a group:
// the groups that nobody else holds, and addresses for the rest.
func (s *Target) standIns(group string, view *intent.Network) (out []cloud.Peer) {
	natives := map[*NIC]bool{}
	for _, n := range s.gone(group) {
		if view.Reaches(n.Network) {
			natives[n] = true
		}
	}
	named := map[*NIC]bool{}
	for _, c := range s.Classes {
		if c.State != Guarded || c.Gathers || !view.Reaches(c.Network) {
			continue
		}
		g := c.Groups[0]
		held := s.WantHeld[g.Key]
		if len(held) == 0 || slices.ContainsFunc(held, func(n *NIC) bool { return !natives[n] }) {
			continue
		}
		out = append(out, g.peer())
		for _, n := range held {
			named[n] = true
		}
	}
	var rest []addrset.Set
	for n := range natives {
		if !named[n] {
			rest = append(rest, n.Private)
		}
	}
	for _, p := range addrset.Union(rest...).Prefixes() {
		out = append(out, cloud.Peer{CIDR: p})
	}
	return out
}

// Cuts are what others lose, sorted.
func (s *Target) Cuts() []Cut {
	return slices.SortedFunc(maps.Values(s.Dependents.cuts), func(a, b Cut) int {
		return cmp.Or(strings.Compare(a.Interface, b.Interface), strings.Compare(a.Group, b.Group), a.Rule.Compare(b.Rule))
	})
}

// Extended reports whether rules of ours are in somebody else's group, or shall be.
func (s *Target) Extended(g *cloud.Group) bool {
	_, followed := s.Dependents.Twins[g.ID]
	return followed || len(s.TwinsNow[g.ID]) > 0
}
