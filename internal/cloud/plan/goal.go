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
)

// stable are the groups that stand for the same class now and in the end.
func (s *regional) stable() map[string]bool {
	out := map[string]bool{}
	for _, g := range s.AllGroups() {
		switch {
		case g.Existing == nil:
			out[model.PlannedGroupID+g.Class.Network.ID+"/"+g.Name] = true
		case g.Existing.Tags[cloud.TagClass] == g.Class.Hash && g.Existing.Tags[cloud.TagKind] == g.Kind():
			out[g.Existing.ID] = true
		}
	}
	return out
}

// unmarked reports whether the mark of a network stays as it is, because the cloud refuses to
// change it.
func (s *regional) unmarked(network string) bool {
	return s.In.Unmarked[intent.NetworkKey{Region: s.Snap.Region, ID: network}]
}

func (s *regional) mark() string { return Mark(s.In.Account) }

// Mark is the key of the tag of networks that identifies the policies of an account that are in
// force there.
func Mark(account string) string { return cloud.TagRevision + "." + intent.Shortened(account) }

// goal is the region as it shall be.
func (s *regional) goal(revision string) *cloud.Snapshot {
	to := *s.Snap
	to.Groups, to.Interfaces, to.Networks = nil, slices.Clone(s.Snap.Interfaces), slices.Clone(s.Snap.Networks)
	id := func(network, key string) string {
		if name, ok := strings.CutPrefix(key, "+"); ok {
			return model.PlannedGroupID + network + "/" + name
		}
		return key
	}
	needed := s.stillNeeded()
	busy, own := map[string]bool{}, map[string]bool{} // where groups of the controller, and of the account, stay
	for i := range s.Snap.Groups {
		g := s.Snap.Groups[i]
		own[g.NetworkID] = own[g.NetworkID] || s.Ours(&g) && !s.Owned(&g)
		switch wanted := s.ByKey[g.ID]; {
		case !s.Owned(&g):
			busy[g.NetworkID] = busy[g.NetworkID] || g.OwnedBy(s.In.ClusterID)
			g.Rules = slices.Concat(g.Rules, s.outward(s.Twins[g.ID], g.NetworkID))
		case wanted != nil:
			g.Rules = s.goalRules(wanted)
			g.Tags = s.goalTags(wanted, g.Tags)
			busy[g.NetworkID] = true
		case !needed[g.ID] && s.Networks[g.NetworkID] != nil && s.Networks[g.NetworkID].Foreign == nil:
			continue
		default: // somebody else holds it or refers to it
			busy[g.NetworkID], own[g.NetworkID] = true, true
			if n := s.Networks[g.NetworkID]; len(s.WantHeld[g.ID]) == 0 && n != nil && n.Foreign == nil {
				g.Rules = nil
			}
		}
		to.Groups = append(to.Groups, g)
	}
	for _, g := range s.AllGroups() {
		busy[g.Class.Network.ID] = true
		if g.Existing != nil {
			continue
		}
		to.Groups = append(to.Groups, cloud.Group{
			ID: id(g.Class.Network.ID, g.Key), Name: g.Name, NetworkID: g.Class.Network.ID, OwnerID: s.Snap.OwnerID,
			Description: "Nephele: one class of interfaces of the account " + s.In.Account, Rules: s.goalRules(g), Tags: s.goalTags(g, nil),
		})
	}
	slices.SortFunc(to.Groups, func(a, b cloud.Group) int { return strings.Compare(a.ID, b.ID) })
	byID := s.byID()
	for i := range to.Interfaces {
		n := byID[to.Interfaces[i].ID]
		if n == nil {
			continue
		}
		wanted := s.Targets[n]
		groups := make([]string, len(wanted))
		for k, key := range wanted {
			groups[k] = id(n.NetworkID, key)
		}
		to.Interfaces[i].GroupIDs = slices.Sorted(slices.Values(groups))
		to.Interfaces[i].Tags = s.goalInterfaceTags(n)
	}
	for i := range to.Networks {
		n := &to.Networks[i]
		n.Tags = maps.Clone(n.Tags)
		if n.Tags == nil {
			n.Tags = map[string]string{}
		}
		classes := slices.ContainsFunc(s.Classes, func(c *form.Class) bool { return c.Network.ID == n.ID })
		switch {
		case classes:
			n.Tags[cloud.TagClaim] = s.In.ClusterID
		case !busy[n.ID] && n.Tags[cloud.TagClaim] == s.In.ClusterID:
			delete(n.Tags, cloud.TagClaim)
		}
		switch {
		case s.unmarked(n.ID):
		case classes:
			n.Tags[s.mark()] = revision
		case !own[n.ID] && s.Networks[n.ID].Foreign == nil:
			delete(n.Tags, s.mark())
		}
	}
	return &to
}

func (s *regional) goalRules(g *form.Group) []cloud.Rule {
	out := s.outward(g.Rules, g.Class.Network.ID)
	slices.SortFunc(out, cloud.Rule.Compare)
	return out
}

// outward names the groups that are to be created as the wanted state does.
func (s *regional) outward(rules []cloud.Rule, network string) []cloud.Rule {
	out := slices.Clone(rules)
	for i := range out {
		if name := out[i].Peer.GroupName; name != "" {
			network := network
			if o := s.ByKey["+"+name]; o != nil {
				network = o.Class.Network.ID
			}
			out[i].Peer = cloud.Peer{GroupID: model.PlannedGroupID + network + "/" + name}
		}
	}
	return out
}

func (s *regional) goalTags(g *form.Group, is map[string]string) map[string]string {
	kind, out := g.Kind(), map[string]string{}
	for k, v := range is {
		if !strings.HasPrefix(k, cloud.TagPolicies) {
			out[k] = v
		}
	}
	if g.Existing == nil {
		out[cloud.TagCluster], out[cloud.TagKind], out[cloud.TagAccount], out[cloud.TagClass] = s.In.ClusterID, kind, s.In.Account, g.Class.Hash
	}
	if g == g.Class.Groups[0] && !g.Class.Gathers {
		maps.Copy(out, s.Enforced(g.Class).Tags())
	}
	return out
}

// goalInterfaceTags are the tags of an interface as they shall be. A signature is not known before
// it is known which interfaces are tagged by one call; see sign.
func (s *regional) goalInterfaceTags(n *guard.NIC) map[string]string {
	out := maps.Clone(n.Tags)
	if out == nil {
		out = map[string]string{}
	}
	switch {
	case n.Alien != nil || n.Network.Foreign != nil || n.Unproven != nil || n.Blocked != "" || s.disputed(n):
	case n.State == guard.Guarded && (n.Recorded == nil || n.Forged):
		forget(out)
		maps.Copy(out, intent.FormerTags(n.Former))
		s.toSign(n, out)
	case n.State == guard.Guarded:
		if n.Unsigned && len(n.Tags)+s.SignatureSize(n.NIC) <= s.Limits.TagsPerResource {
			s.toSign(n, out)
		}
	case n.Recorded != nil || n.Forged:
		forget(out)
		delete(out, cloud.TagSignature)
	}
	return out
}

// forget removes the record of former groups from tags.
func forget(tags map[string]string) {
	for i := 0; ; i++ {
		if _, ok := tags[intent.FormerTagKey(i)]; !ok && i > 0 {
			return
		}
		delete(tags, intent.FormerTagKey(i))
	}
}

// disputed reports whether somebody has put an interface under control into other groups, which
// cannot be put right at present. The record is all that tells what are its own.
func (s *regional) disputed(n *guard.NIC) bool {
	wanted := n.Refusal() != nil || n.VM != nil && len(n.VM.Policies) > 0
	return n.State != guard.Guarded && len(n.Ours) == 0 && n.Controlled() && s.Mode(n.NIC) == intent.Enforce && wanted
}

func (s *regional) byID() map[string]*guard.NIC {
	out := make(map[string]*guard.NIC, len(s.NICs))
	for _, n := range s.NICs {
		out[n.ID] = n
	}
	return out
}

func (s *regional) keyOf(n *guard.NIC) string { return s.Snap.Region + "/" + n.ID }

// stillNeeded returns the groups of ours that cannot be deleted: somebody else refers to them or
// holds them, or rules that stay do.
func (s *regional) stillNeeded() map[string]bool {
	out := map[string]bool{}
	for i := range s.Snap.Groups {
		g := &s.Snap.Groups[i]
		if s.Owned(g) {
			continue
		}
		for _, r := range g.Rules {
			if o := s.Groups[r.Peer.GroupID]; o != nil && s.Owned(o) {
				out[o.ID] = true
				if s.ByKey[o.ID] == nil {
					s.Note(o.ID, intent.Why(intent.NeededByGroup, g.ID))
				}
			}
		}
	}
	for _, g := range s.AllGroups() {
		for _, r := range g.Rules {
			out[r.Peer.GroupID] = true
		}
	}
	for key, nics := range s.WantHeld {
		if g := s.Groups[key]; g != nil && s.Owned(g) && len(nics) > 0 {
			out[key] = true
			for _, r := range g.Rules {
				out[r.Peer.GroupID] = true
			}
			if s.ByKey[key] == nil {
				s.Note(key, intent.Why(intent.NeededByHolder, nics[0].ID))
			}
		}
	}
	return out
}
