package forecast

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
)

// Allowing returns the groups that allow in a snapshot, by rules for ingress, some of the flows of
// a change with one protocol and port: their IDs, and names in parentheses, sorted. Of a change
// that closes and the snapshot before it they are those by which the flows pass today.
func Allowing(s *cloud.Snapshot, c Change, protocol, port int) (out []string) {
	view, named := model.NewView(s), names(s)
	service := flow.Service{Protocol: protocol, From: uint16(port), To: uint16(port)}
	from := addrset.OfPrefixes(c.From.Addresses...).Minus(c.From.holes)
	if len(c.From.VMs) > 0 {
		var in []*cloud.Interface
		for i := range s.Interfaces {
			if slices.Contains(c.From.VMs, named[s.Interfaces[i].ID]) {
				in = append(in, &s.Interfaces[i])
			}
		}
		from = model.Private(in...)
	}
	for i := range s.Interfaces {
		n := &s.Interfaces[i]
		if !slices.Contains(c.To.VMs, named[n.ID]) {
			continue
		}
		for _, id := range n.GroupIDs {
			allowed, opaque := view.Allowed(view.Rules([]string{id}, cloud.Ingress), n.NetworkID, service)
			unseen := slices.ContainsFunc(opaque, func(p cloud.Peer) bool { return slices.Contains(c.From.Unseen, p.String()) })
			if !allowed.Overlaps(from) && !unseen {
				continue
			}
			name := id
			if g := view.Group(id); g != nil && cmp.Or(g.Name, id) != id {
				name += " (" + g.Name + ")"
			}
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
