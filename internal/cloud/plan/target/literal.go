package target

import (
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
)

// keepRules makes the class keep the rules of the groups that it holds now word for word. Peers
// that they name cannot move to other groups as long as that cuts something; see stays.
func (s *Target) keepRules(c *form.Class) {
	for i, g := range c.Existing {
		if rules := cloud.RuleKeys(g.Rules); i == 0 {
			c.Groups[0].Rules = rules
		} else {
			s.matcher.addGroup(c, rules)
		}
	}
}

// Stays are the interfaces that keep their groups and rules word for word.
func (s *Target) Stays() map[string]bool {
	out := map[string]bool{}
	for _, n := range s.NICs {
		if c := s.ClassOf[n]; c != nil && s.literal[c.Key] {
			out[n.ID] = true
		}
	}
	return out
}
