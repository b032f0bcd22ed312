package plan

// keepRules makes the class keep the rules of the groups that it holds now word for word. Peers that they name cannot move to other groups as long
// as that cuts something; see stays.
func (s *regionState) keepRules(c *class) {
	for i, g := range c.existing {
		wanted := c.groups[0]
		if i > 0 {
			wanted = s.addGroup(c)
		}
		wanted.rules = ruleKeys(g.Rules)
		c.rules = append(c.rules, wanted.rules...)
	}
}

// stays are the interfaces that keep their groups and rules word for word.
func (s *regionState) stays() map[string]bool {
	out := map[string]bool{}
	for _, n := range s.nics {
		if n.class != nil && s.literal[n.class.key] {
			out[n.ID] = true
		}
	}
	return out
}
