package plan

import (
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
)

// stable are the groups that stand for the same class now and in the end.
func (s *regional) stable() map[string]bool {
	out := map[string]bool{}
	for _, g := range s.design.AllGroups() {
		if g.Existing == nil || g.Existing.Tags[cloud.TagClass] == g.Class.Hash && g.Existing.Tags[cloud.TagKind] == g.Kind() {
			out[s.idOf(g.Key)] = true
		}
	}
	return out
}

// unmarked reports whether the mark of a network stays as it is, because the cloud refuses to
// change it.
func (s *regional) unmarked(network string) bool {
	return s.account.In.Unmarked[intent.NetworkKey{Region: s.region.Snap.Region, ID: network}]
}

func (s *regional) mark() string { return Mark(s.account.In.Account) }

// Mark is the key of the tag of networks that identifies the policies of an account that are in
// force there.
func Mark(account string) string { return cloud.TagRevision + "." + record.Shortened(account) }

// goal is the region as it shall be.
func (s *regional) goal(revision string) *cloud.Snapshot {
	to := *s.region.Snap
	to.Groups, to.Interfaces, to.Networks = s.goalGroups(), slices.Clone(s.region.Snap.Interfaces), slices.Clone(s.region.Snap.Networks)
	for i := range to.Interfaces {
		if n := s.byID[to.Interfaces[i].ID]; n != nil {
			to.Interfaces[i].GroupIDs, to.Interfaces[i].Tags = s.goalHeld(n), s.goalInterfaceTags(n)
		}
	}
	for i := range to.Networks {
		to.Networks[i].Tags = s.goalNetworkTags(&to.Networks[i], to.Groups, revision)
	}
	return &to
}

// idOf is the ID by which the goal knows a group, given its key.
func (s *regional) idOf(key string) string {
	if g := s.design.ByKey[key]; g != nil && g.Existing == nil {
		return model.PlannedID(g.Class.Network.ID, g.Name)
	}
	return key
}

// goalHeld are the groups that an interface shall hold.
func (s *regional) goalHeld(n *guard.NIC) []string {
	out := slices.Clone(s.design.Targets[n])
	for i, key := range out {
		out[i] = s.idOf(key)
	}
	slices.Sort(out)
	return out
}

// goalGroups are the groups as they shall be, sorted by ID.
func (s *regional) goalGroups() (out []cloud.Group) {
	needed := s.stillNeeded()
	for _, g := range s.region.Snap.Groups {
		n, wanted := s.region.Networks[g.NetworkID], s.design.ByKey[g.ID]
		foreign := n == nil || n.Foreign != nil
		switch {
		case !s.region.Owned(&g):
			g.Rules = slices.Concat(g.Rules, s.outward(s.design.Twins[g.ID]))
		case wanted != nil:
			g.Rules, g.Tags = s.goalRules(wanted), s.goalTags(wanted)
		case !foreign && !needed[g.ID]:
			continue
		case !foreign && len(s.design.WantHeld[g.ID]) == 0: // somebody else refers to it
			g.Rules = nil
		}
		out = append(out, g)
	}
	for _, g := range s.design.AllGroups() {
		if g.Existing == nil {
			out = append(out, cloud.Group{
				ID: s.idOf(g.Key), Name: g.Name, NetworkID: g.Class.Network.ID, OwnerID: s.region.Snap.OwnerID,
				Description: "Nephele: one class of interfaces of the account " + s.account.In.Account, Rules: s.goalRules(g), Tags: s.goalTags(g),
			})
		}
	}
	slices.SortFunc(out, func(a, b cloud.Group) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// goalNetworkTags are the tags of a network as they shall be, given the groups. Where there are no
// classes it is claimed as long as groups of the controller stay, and marked as long as some of the
// account do.
func (s *regional) goalNetworkTags(n *cloud.Network, groups []cloud.Group, revision string) map[string]string {
	out := copied(n.Tags)
	classes := slices.ContainsFunc(s.design.Classes, func(c *form.Class) bool { return c.Network.ID == n.ID })
	stay := func(of func(*cloud.Group) bool) bool {
		return slices.ContainsFunc(groups, func(g cloud.Group) bool { return g.NetworkID == n.ID && of(&g) })
	}
	switch {
	case classes:
		out[cloud.TagClaim] = s.account.In.ClusterID
	case out[cloud.TagClaim] == s.account.In.ClusterID && !stay(func(g *cloud.Group) bool { return g.OwnedBy(s.account.In.ClusterID) }):
		delete(out, cloud.TagClaim)
	}
	switch {
	case s.unmarked(n.ID):
	case s.guard.Restricts(): // policies are not said to be in force while some of them wait
		delete(out, s.mark())
	case classes:
		out[s.mark()] = revision
	case s.region.Networks[n.ID].Foreign == nil && !stay(s.region.Ours):
		delete(out, s.mark())
	}
	return out
}

func (s *regional) goalRules(g *form.Group) []cloud.Rule {
	out := s.outward(g.Rules)
	slices.SortFunc(out, cloud.Rule.Compare)
	return out
}

// outward names the groups that are to be created as the goal does.
func (s *regional) outward(rules []cloud.Rule) []cloud.Rule {
	out := slices.Clone(rules)
	for i, r := range out {
		if r.Peer.GroupName != "" {
			out[i].Peer = cloud.Peer{GroupID: s.idOf(form.GroupKey(r.Peer))}
		}
	}
	return out
}

func (s *regional) goalTags(g *form.Group) map[string]string {
	out := map[string]string{cloud.TagCluster: s.account.In.ClusterID, cloud.TagKind: g.Kind(), cloud.TagAccount: s.account.In.Account, cloud.TagClass: g.Class.Hash}
	if g.Existing != nil {
		out = copied(g.Existing.Tags)
		maps.DeleteFunc(out, func(key, _ string) bool { return strings.HasPrefix(key, cloud.TagPolicies) })
	}
	if g == g.Class.Groups[0] && !g.Class.Gathers {
		maps.Copy(out, s.design.Enforced(g.Class).Tags())
	}
	return out
}

// copied is a copy of tags to write to.
func copied(tags map[string]string) map[string]string {
	out := make(map[string]string, len(tags))
	maps.Copy(out, tags)
	return out
}

// goalInterfaceTags are the tags of an interface as they shall be. A signature is not known before
// it is known which interfaces are tagged by one call; see sign.
func (s *regional) goalInterfaceTags(n *guard.NIC) map[string]string {
	out := copied(n.Tags)
	switch {
	case untouchable(n) || s.disputed(n):
	case n.State() == guard.Guarded && (!n.Record.Exists() || n.Record.Forged):
		forget(out)
		maps.Copy(out, record.FormerTags(n.Groups.Former))
		s.toSign(n, out)
	case n.State() == guard.Guarded:
		if n.Record.Stale() && len(n.Tags)+s.region.SignatureSize(n.NIC) <= s.region.Limits.TagsPerResource {
			s.toSign(n, out)
		}
	case n.Record.Exists() || n.Record.Forged:
		forget(out)
		delete(out, cloud.TagSignature)
	}
	return out
}

// untouchable reports whether nothing is written to an interface, whatever is wanted: it is
// somebody else's, nobody knows what it had before, or the cloud refuses.
func untouchable(n *guard.NIC) bool {
	return n.Alien != nil || n.Network.Foreign != nil || n.Record.Unproven != nil || n.Blocked != ""
}

// forget removes the record of former groups from tags.
func forget(tags map[string]string) {
	for i := 0; ; i++ {
		if _, ok := tags[record.FormerTagKey(i)]; !ok && i > 0 {
			return
		}
		delete(tags, record.FormerTagKey(i))
	}
}

// disputed reports whether somebody has put an interface under control into other groups, which
// cannot be put right at present. The record is all that tells what are its own.
func (s *regional) disputed(n *guard.NIC) bool {
	wanted := n.Refusal() != nil || n.VM != nil && len(n.VM.Policies) > 0
	return n.State() != guard.Guarded && len(n.Groups.Ours) == 0 && n.Controlled() && s.region.Mode(n.NIC) == intent.Enforce && wanted
}

// stillNeeded returns the groups of ours that no class uses and that cannot be deleted: somebody
// else refers to them or holds them, or rules that stay do.
func (s *regional) stillNeeded() map[string]bool {
	out := map[string]bool{}
	need := func(id string, why reason.Code, because string) {
		if g := s.region.Groups[id]; g != nil && s.region.Owned(g) && s.design.ByKey[id] == nil {
			out[id] = true
			s.region.Note(id, reason.Why(why, because))
		}
	}
	refer := func(rules []cloud.Rule) {
		for _, r := range rules {
			out[r.Peer.GroupID] = true
		}
	}
	for i := range s.region.Snap.Groups {
		if g := &s.region.Snap.Groups[i]; !s.region.Owned(g) {
			for _, r := range g.Rules {
				need(r.Peer.GroupID, reason.NeededByGroup, g.ID)
			}
		}
	}
	for _, g := range s.design.AllGroups() {
		refer(g.Rules)
	}
	for key, nics := range s.design.WantHeld {
		if g := s.region.Groups[key]; g != nil && s.region.Owned(g) {
			refer(g.Rules)
			need(key, reason.NeededByHolder, nics[0].ID)
		}
	}
	return out
}
