package plan

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
)

// provisional begins the IDs of groups that are only thought of.
const provisional = "sg-provisional-"

// applied returns the input as it will be observed when the plan has been applied.
func (in Input) applied(p Plan) Input {
	in.Regions = slices.Clone(in.Regions)
	in.restrain, in.stay, in.pause = nil, nil, pauseNobody
	for i := range in.Regions {
		r := &in.Regions[i]
		m := model.New(r.Snapshot)
		for _, s := range p.Steps {
			if s.Scope.Region != r.Snapshot.Region {
				continue
			}
			// An operation that does not fit changes nothing, and what it was to do is found missing in the next round.
			_ = m.ApplyAs(s.Network, s.Op, provisional+s.Op.Group.NetworkID+"-"+s.Op.Group.Name)
		}
		r.Snapshot = m.Snapshot()
	}
	return in
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
