package intent

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// followMark begins the description of a twin. Cluster, account and the group that the followed
// rule names come after it.
const followMark = "nephele.io/follow"

// TwinMark is the description of the twins of rules that name a group. It stays below the 255
// characters of EC2.
func (c *Account) TwinMark(group string) string {
	return strings.Join([]string{followMark, c.In.ClusterID, c.In.Account, group}, " ")
}

// isTwin reports whether we have added the rule to somebody else's group.
func (c *Account) isTwin(g *cloud.Group, r cloud.Rule) bool {
	_, may := g.Tags[cloud.TagFollow]
	return may && strings.HasPrefix(r.Description, c.TwinMark(""))
}

// withoutTwins is the region as its owners mean it: without the rules that we have added to their
// groups. It returns these by group as well.
func (c *Account) withoutTwins(snap *cloud.Snapshot) (out *cloud.Snapshot, twins map[string][]cloud.Rule) {
	out, twins = snap, map[string][]cloud.Rule{}
	for i := range snap.Groups {
		g := &snap.Groups[i]
		for _, r := range g.Rules {
			if c.isTwin(g, r) {
				twins[g.ID] = append(twins[g.ID], r)
			}
		}
		if len(twins[g.ID]) == 0 {
			continue
		}
		if out == snap {
			shallow := *snap
			shallow.Groups = slices.Clone(snap.Groups)
			out = &shallow
		}
		out.Groups[i].Rules = slices.DeleteFunc(slices.Clone(g.Rules), func(r cloud.Rule) bool { return c.isTwin(g, r) })
	}
	return out, twins
}
