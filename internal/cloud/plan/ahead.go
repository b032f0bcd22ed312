package plan

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// provisional begins the IDs of groups that are only thought of.
const provisional = "sg-provisional-"

// applied returns the input as it will be observed when the plan has been applied.
func (in Input) applied(p Plan) Input {
	in.Regions = slices.Clone(in.Regions)
	in.restrain, in.stay, in.pause = nil, nil, pauseNobody
	for i := range in.Regions {
		r := &in.Regions[i]
		f := newFuture(r.Snapshot)
		for _, s := range p.Steps {
			if s.Scope.Region == r.Snapshot.Region {
				f.apply(s)
			}
		}
		r.Snapshot = f.snap
	}
	return in
}

// future is a snapshot that operations are applied to. It shares with the one that it was made of what they do not change.
type future struct {
	snap       *cloud.Snapshot
	groups     map[string]int // by ID
	names      map[string]string
	interfaces map[string]int
	networks   map[string]int
}

func newFuture(from *cloud.Snapshot) *future {
	s := *from
	s.Groups, s.Interfaces, s.Networks = slices.Clone(s.Groups), slices.Clone(s.Interfaces), slices.Clone(s.Networks)
	f := &future{snap: &s, groups: map[string]int{}, names: map[string]string{}, interfaces: map[string]int{}, networks: map[string]int{}}
	for i := range s.Groups {
		f.groups[s.Groups[i].ID] = i
		f.names[s.Groups[i].NetworkID+"/"+s.Groups[i].Name] = s.Groups[i].ID
	}
	for i := range s.Interfaces {
		f.interfaces[s.Interfaces[i].ID] = i
	}
	for i := range s.Networks {
		f.networks[s.Networks[i].ID] = i
	}
	return f
}

func (f *future) apply(s Step) {
	op := s.Op.Resolve(s.Network, f.names)
	switch op.Kind {
	case cloud.OpCreateGroup:
		g := cloud.Group{
			ID: provisional + op.Group.NetworkID + "-" + op.Group.Name, Name: op.Group.Name, NetworkID: op.Group.NetworkID, OwnerID: f.snap.OwnerID,
			Description: op.Group.Description, Tags: op.Group.Tags,
		}
		f.groups[g.ID], f.names[g.NetworkID+"/"+g.Name] = len(f.snap.Groups), g.ID
		f.snap.Groups = append(f.snap.Groups, g)
	case cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpReplaceRules:
		if i, ok := f.groups[op.Target]; ok {
			f.snap.Groups[i].Rules = rulesAfter(f.snap.Groups[i].Rules, op)
		}
	case cloud.OpSetInterfaceGroups:
		if i, ok := f.interfaces[op.Target]; ok {
			f.snap.Interfaces[i].GroupIDs = slices.Sorted(slices.Values(op.GroupIDs))
		}
	case cloud.OpTag, cloud.OpUntag:
		for _, id := range op.Subjects() {
			f.tag(id, op)
		}
	case cloud.OpDeleteGroup:
		if i, ok := f.groups[op.Target]; ok {
			f.snap.Groups = slices.Delete(f.snap.Groups, i, i+1)
			delete(f.groups, op.Target)
			delete(f.names, s.Network+"/"+op.Group.Name)
			for id, k := range f.groups {
				if k > i {
					f.groups[id] = k - 1
				}
			}
		}
	}
}

func rulesAfter(rules []cloud.Rule, op cloud.Op) []cloud.Rule {
	gone := map[cloud.Rule]bool{}
	switch op.Kind {
	case cloud.OpRemoveRules:
		for _, r := range op.Rules {
			gone[r.Key()] = true
		}
	case cloud.OpReplaceRules:
		for _, r := range op.Replaced {
			gone[r.Key()] = true
		}
	}
	out := slices.DeleteFunc(slices.Clone(rules), func(r cloud.Rule) bool { return gone[r.Key()] })
	if op.Kind != cloud.OpRemoveRules {
		out = append(out, op.Rules...)
	}
	slices.SortFunc(out, cloud.Rule.Compare)
	return out
}

func (f *future) tag(id string, op cloud.Op) {
	var tags *map[string]string
	if i, ok := f.interfaces[id]; ok {
		tags = &f.snap.Interfaces[i].Tags
	} else if i, ok := f.networks[id]; ok {
		tags = &f.snap.Networks[i].Tags
	} else if i, ok := f.groups[id]; ok {
		tags = &f.snap.Groups[i].Tags
	} else {
		return
	}
	changed := maps.Clone(*tags)
	if changed == nil {
		changed = map[string]string{}
	}
	for k, v := range op.Tags {
		if op.Kind == cloud.OpTag {
			changed[k] = v
		} else {
			delete(changed, k)
		}
	}
	*tags = changed
}

// fingerprint identifies what the interfaces hold, and what the groups say and remember, whatever the IDs of groups of ours are.
func (in Input) fingerprint() string {
	h := sha256.New()
	for _, r := range in.Regions {
		names := map[string]string{}
		for i := range r.Snapshot.Groups {
			g := &r.Snapshot.Groups[i]
			names[g.ID] = g.ID
			if g.OwnedBy(in.ClusterID) {
				names[g.ID] = g.NetworkID + "/" + g.Name
			}
		}
		var lines []string
		for i := range r.Snapshot.Interfaces {
			n := &r.Snapshot.Interfaces[i]
			held := make([]string, len(n.GroupIDs))
			for k, id := range n.GroupIDs {
				held[k] = names[id]
			}
			slices.Sort(held)
			lines = append(lines, fmt.Sprint(n.ID, held, Former(n), n.Tags[cloud.TagSignature]))
		}
		for i := range r.Snapshot.Groups {
			g := &r.Snapshot.Groups[i]
			if !g.OwnedBy(in.ClusterID) {
				continue
			}
			e := enforcementOf(g.Tags)
			lines = append(lines, fmt.Sprint(names[g.ID], e == nil, sortedKeys(e)))
			for _, rule := range g.Rules {
				rule = rule.Key()
				if name, ok := names[rule.Peer.GroupID]; ok {
					rule.Peer.GroupID = name
				}
				lines = append(lines, names[g.ID]+" "+rule.String())
			}
		}
		slices.Sort(lines)
		fmt.Fprintln(h, r.Snapshot.Region, strings.Join(lines, "\n"))
	}
	return string(h.Sum(nil))
}
