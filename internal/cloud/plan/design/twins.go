package design

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

// addTwins decides which rules somebody else's groups need beside those that name a group that
// guarded interfaces give up. It reports whether one of them has no room, so that the design has to
// be made again.
func (s *Designer) addTwins() (retry bool) {
	s.Twins = map[string][]cloud.Rule{}
	followed := s.Guard.Followed()
	for _, id := range slices.Sorted(maps.Keys(followed)) {
		holder := s.Region.Groups[id]
		twins := map[cloud.Rule]cloud.Rule{}
		for _, r := range holder.Rules {
			if !followed[id][r.Peer.GroupID] {
				continue
			}
			for _, p := range s.standIns(r.Peer.GroupID, s.Region.Networks[holder.NetworkID]) {
				twin := r.Key()
				twin.Peer, twin.Description = p, s.Account.TwinMark(r.Peer.GroupID)
				twins[twin.Key()] = twin
			}
		}
		all := slices.SortedFunc(maps.Values(twins), cloud.Rule.Compare)
		all = slices.DeleteFunc(all, func(t cloud.Rule) bool { return slices.ContainsFunc(holder.Rules, t.Same) })
		if !s.Lower.Fits(slices.Concat(holder.Rules, all), form.QuotaOf(s.Region)) {
			why := reason.Why(reason.FollowNoRoom, id).Counting(len(holder.Rules), len(all), s.Region.Limits.RulesPerGroup)
			retry = s.Guard.Unfollow(id, why) || retry
			s.Region.Note(id, why)
			all = slices.DeleteFunc(all, func(t cloud.Rule) bool { return !slices.ContainsFunc(s.Region.TwinsNow[id], t.Same) })
		}
		s.Twins[id] = slices.DeleteFunc(all, func(t cloud.Rule) bool { return s.early(holder, t) })
	}
	return retry
}

// early reports whether a new twin would give an interface that holds the group more than it is
// allowed now, in a direction in which it waits for others. Twins are all that we can hold back
// there.
func (s *Designer) early(holder *cloud.Group, twin cloud.Rule) bool {
	if slices.ContainsFunc(s.Region.TwinsNow[holder.ID], twin.Same) {
		return false
	}
	i := flow.Index(twin.Direction)
	return slices.ContainsFunc(s.Guard.Holding[holder.ID], func(n *guard.NIC) bool {
		then, _ := s.Addresses(twin.Peer, n.Network)
		return n.Restricted()[i] && !s.Region.Actual(n.GroupIDs, n.Network)[i].Allows(flow.ServiceOf(twin.Match), then)
	})
}

// standIns are the peers by which the guarded interfaces are named that natively belong to a group:
// the groups that nobody else holds, and addresses for the rest.
func (s *Designer) standIns(group string, view *intent.Network) (out []cloud.Peer) {
	natives := map[*guard.NIC]bool{}
	for _, n := range s.Guard.Gone(group) {
		if view.Reaches(n.Network) {
			natives[n] = true
		}
	}
	named := map[*guard.NIC]bool{}
	for _, c := range s.Classes {
		if c.State != guard.Guarded || c.Gathers || !view.Reaches(c.Network) {
			continue
		}
		g := c.Groups[0]
		held := s.WantHeld[g.Key]
		if len(held) == 0 || slices.ContainsFunc(held, func(n *guard.NIC) bool { return !natives[n] }) {
			continue
		}
		out = append(out, g.Peer())
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

// Extended reports whether rules of ours are in somebody else's group, or shall be.
func (s *Designer) Extended(g *cloud.Group) bool {
	_, followed := s.Twins[g.ID]
	return followed || len(s.Region.TwinsNow[g.ID]) > 0
}
