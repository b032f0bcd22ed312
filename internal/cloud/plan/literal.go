package plan

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// keepRules makes the class keep the rules of the groups that it holds now word for word. Where peers move to other groups, which these rules do
// not name, it allows less than before, and says so.
func (s *regionState) keepRules(c *class) {
	for i, g := range c.existing {
		wanted := c.groups[0]
		if i > 0 {
			wanted = s.addGroup(c)
		}
		wanted.rules = ruleKeys(g.Rules)
		c.rules = append(c.rules, wanted.rules...)
	}
	before := c.want
	for i, d := range directions {
		rules := slices.DeleteFunc(slices.Clone(c.rules), func(r cloud.Rule) bool { return r.Direction != d })
		c.want[i] = c.want[i].Intersect(s.evaluateThen(rules, c.network))
	}
	if lost := losses(before, c.want); len(lost) > 0 && !s.waiting[c.nics[0]] {
		s.note(c.nics[0].ID, "it stays as it is, and there is no room for rules that name the new groups of its peers, so it no longer allows "+nameLosses(lost))
	}
}

// namedLiterally returns the groups without rules that rules which are kept word for word name.
func (s *regionState) namedLiterally() map[string]bool {
	var out map[string]bool
	for _, c := range s.classes {
		if !s.literal[c.key] {
			continue
		}
		for _, g := range c.existing {
			for _, r := range g.Rules {
				if peer := s.byKey[r.Peer.GroupID]; peer != nil && peer.class.state == Member && !peer.class.gathers {
					if out == nil {
						out = map[string]bool{}
					}
					out[r.Peer.GroupID] = true
				}
			}
		}
	}
	return out
}

// stayNamed has an interface that would leave such groups hold them besides, as far as it has slots.
func (s *regionState) stayNamed(n *nic, named map[string]bool) {
	if n.state != Member && n.state != Guarded || s.literal[n.class.key] {
		return
	}
	for _, id := range n.ours {
		if named[id] && !slices.Contains(n.target, id) && len(n.target) < s.limits.GroupsPerInterface {
			n.target = append(n.target, id)
		}
	}
}
