package design

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// matcher gives the classes of a design their groups.
type matcher struct {
	account *intent.Account
	region  *intent.Region
	*form.Design
	byHeld  map[string][]*guard.NIC // group -> interfaces that hold it now
	literal map[string]bool         // classes that keep their rules as they are, word for word
	// outgrown are existing groups that no class goes on using.
	outgrown map[string]bool
	made     map[string][]*cloud.Group // groups of ours by the class that they were made for
}

// matchGroups gives every class the existing groups it goes on using: the one that most of its
// interfaces hold, or one that nobody holds and that was made for exactly this class, and the
// spilled ones that an interface holds beside that: where classes become one, rules would change
// places between the groups of both, and whose slots are taken could not move into such a mixture.
// For spilled ones that nobody holds see spare.
func (s *matcher) matchGroups() {
	taken := map[string]bool{}
	var matches []match
	for _, c := range s.Classes {
		c.Existing, c.Groups = nil, nil
		if !s.literal[c.Key] {
			matches = s.candidates(c, matches)
			continue
		}
		for _, id := range c.NICs[0].Groups.Ours {
			c.Existing = append(c.Existing, s.region.Groups[id])
			taken[id] = true
		}
		slices.SortStableFunc(c.Existing, func(a, b *cloud.Group) int {
			return strings.Compare(a.Tags[cloud.TagKind], b.Tags[cloud.TagKind]) // the group that rules refer to first
		})
	}
	slices.SortStableFunc(matches, compareMatches)
	for _, m := range matches {
		if len(m.class.Existing) == 0 && !taken[m.group.ID] {
			m.class.Existing = append(m.class.Existing, m.group)
			taken[m.group.ID] = true
		}
	}
	for _, c := range s.Classes {
		if s.literal[c.Key] || len(c.Existing) == 0 || c.State != guard.Guarded {
			continue
		}
		var held []string // by the one with most
		for _, n := range c.NICs {
			if len(n.Groups.Ours) > len(held) && slices.Contains(n.Groups.Ours, c.Existing[0].ID) {
				held = n.Groups.Ours
			}
		}
		for _, id := range slices.Sorted(slices.Values(held)) {
			if g := s.region.Groups[id]; s.region.Owned(g) && g.Tags[cloud.TagKind] == form.KindSpill && !s.outgrown[id] && !taken[id] {
				c.Existing = append(c.Existing, g)
				taken[id] = true
			}
		}
	}
	s.ByKey = map[string]*form.Group{}
	for _, c := range s.Classes {
		s.addGroup(c, nil) // so that rules can refer to it
	}
}

// match is an existing group that a class could go on using.
type match struct {
	class   *form.Class
	group   *cloud.Group
	overlap int // interfaces of the class that hold it
	// made says that the group was made for the class: where as many interfaces hold either of two
	// groups, an exchange would change both groups' rules for nothing.
	made bool
}

func compareMatches(a, b match) int {
	// Interfaces that stay as they are keep their group, whichever others hold it; but a forged
	// record must not make many other interfaces move.
	return cmp.Or(
		b2i(b.class.Frozen && !b.class.Unproven())-b2i(a.class.Frozen && !a.class.Unproven()),
		cmp.Compare(b.overlap, a.overlap),
		b2i(b.made)-b2i(a.made),
		cmp.Compare(a.class.Key, b.class.Key),
		cmp.Compare(a.group.ID, b.group.ID),
	)
}

// candidates appends the existing groups that the class could go on using first: those that its
// interfaces hold, and those that were made for it.
func (s *matcher) candidates(c *form.Class, out []match) []match {
	overlap := map[string]int{}
	for _, n := range c.NICs {
		for _, g := range n.Groups.Ours {
			overlap[g]++
		}
	}
	groups := slices.Clone(s.made[c.Hash])
	for id := range overlap {
		if g := s.region.Groups[id]; s.region.Owned(g) && g.Tags[cloud.TagClass] != c.Hash {
			groups = append(groups, g)
		}
	}
	for _, g := range groups {
		if g.NetworkID != c.Network.ID || s.outgrown[g.ID] {
			continue
		}
		m := match{class: c, group: g, overlap: overlap[g.ID], made: g.Tags[cloud.TagClass] == c.Hash}
		free := m.made && (c.Gathers || len(s.byHeld[g.ID]) == 0)
		if kind := g.Tags[cloud.TagKind]; c.Gathers && kind == form.KindMembers && free || !c.Gathers && kind == cloud.KindClass && (free || m.overlap > 0) {
			out = append(out, m)
		}
	}
	return out
}

// AllGroups returns the wanted groups, class by class.
func (s *Designer) AllGroups() []*form.Group {
	var out []*form.Group
	for _, c := range s.Classes {
		out = append(out, c.Groups...)
	}
	return out
}

// addGroup appends the next group of the class, with its rules as far as they are known: an
// existing one, or a new one with a free name.
func (s *matcher) addGroup(c *form.Class, rules []cloud.Rule) {
	i := len(c.Groups)
	g := &form.Group{Class: c, Rules: rules}
	if i < len(c.Existing) {
		g.Existing = c.Existing[i]
	} else if i > 0 {
		g.Existing = s.spare(c)
	}
	if g.Existing != nil {
		g.Name, g.Key = g.Existing.Name, g.Existing.ID
	} else {
		g.Name = s.freeName(c, i)
		g.Key = "+" + g.Name
	}
	c.Groups = append(c.Groups, g)
	s.ByKey[g.Key] = g
}

// fill gives the class its rules, packed into groups.
func (s *matcher) fill(c *form.Class, packed [][]cloud.Rule) {
	for i, rules := range packed {
		if i == 0 {
			c.Groups[0].Rules = rules // which others refer to already
		} else {
			s.addGroup(c, rules)
		}
	}
}

// spare returns a group in which rules of the class have spilled and that nobody holds; nil if
// there is none.
func (s *matcher) spare(c *form.Class) *cloud.Group {
	for _, g := range s.made[c.Hash] {
		if g.Tags[cloud.TagKind] == form.KindSpill && g.NetworkID == c.Network.ID && !s.outgrown[g.ID] && len(s.byHeld[g.ID]) == 0 && s.ByKey[g.ID] == nil {
			return g
		}
	}
	return nil
}

func (s *matcher) freeName(c *form.Class, index int) string {
	base := cloud.NamePrefix + shortID(s.account.In.ClusterID) + "-" + c.Hash
	if index > 0 {
		base += fmt.Sprintf("-s%d", index)
	}
	name := base
	for i := 2; s.ByKey["+"+name] != nil || c.Network.GroupNames[intent.Folded(name)]; i++ {
		name = fmt.Sprintf("%s.%d", base, i)
	}
	return name
}
