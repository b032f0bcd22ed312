package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/nephele-io/nephele/internal/cloud"
)

// matchGroups gives every class the existing groups it goes on using: the one that most of its interfaces hold, or one that nobody
// holds and that was made for exactly this class.
func (s *regionState) matchGroups() {
	taken := map[string]bool{}
	var first, spilled []match
	for _, c := range s.classes {
		c.existing, c.groups, c.rules = nil, nil, nil
		if !s.literal[c.key] {
			first, spilled = s.candidates(c, first, spilled)
			continue
		}
		for _, id := range c.nics[0].ours {
			c.existing = append(c.existing, s.groups[id])
			taken[id] = true
		}
		slices.SortStableFunc(c.existing, func(a, b *cloud.Group) int {
			return strings.Compare(a.Tags[cloud.TagKind], b.Tags[cloud.TagKind]) // the group that rules refer to first
		})
	}
	slices.SortStableFunc(first, compareMatches)
	slices.SortStableFunc(spilled, compareMatches)
	for _, m := range first {
		if len(m.class.existing) == 0 && !taken[m.group.ID] {
			m.class.existing = []*cloud.Group{m.group}
			taken[m.group.ID] = true
		}
	}
	for _, m := range spilled {
		if len(m.class.existing) > 0 && !taken[m.group.ID] {
			m.class.existing = append(m.class.existing, m.group)
			taken[m.group.ID] = true
		}
	}
	if s.admission != nil {
		s.reuse(taken)
	}
	s.nameGroups()
}

// reuse gives groups that nobody holds any more to classes that have none: there is no room for others before these are deleted.
func (s *regionState) reuse(taken map[string]bool) {
	var idle []*cloud.Group
	for i := range s.snap.Groups {
		if g := &s.snap.Groups[i]; s.owned(g) && !taken[g.ID] && len(s.byHeld[g.ID]) == 0 && g.Tags[cloud.TagKind] == cloud.KindClass {
			idle = append(idle, g)
		}
	}
	for _, c := range s.classes {
		if len(c.existing) > 0 || c.gathers {
			continue
		}
		at := slices.IndexFunc(idle, func(g *cloud.Group) bool { return g.NetworkID == c.network.ID })
		if at >= 0 {
			c.existing = []*cloud.Group{idle[at]}
			idle = slices.Delete(idle, at, at+1)
		}
	}
}

// match is an existing group that a class could go on using.
type match struct {
	class   *class
	group   *cloud.Group
	overlap int // interfaces of the class that hold it
}

func compareMatches(a, b match) int {
	// Interfaces that stay as they are keep their group, whoever else holds it; but who writes into a record shall not make many others move.
	return cmp.Or(b2i(b.class.frozen && !b.class.unproven())-b2i(a.class.frozen && !a.class.unproven()), cmp.Compare(b.overlap, a.overlap), cmp.Compare(a.class.key, b.class.key), cmp.Compare(a.group.ID, b.group.ID))
}

// candidates appends the existing groups that the class could go on using.
func (s *regionState) candidates(c *class, first, spilled []match) (_, _ []match) {
	overlap := map[string]int{}
	for _, n := range c.nics {
		for _, g := range n.ours {
			overlap[g]++
		}
	}
	for _, g := range s.reusable(c, overlap) {
		if g.NetworkID != c.network.ID {
			continue
		}
		held, kind := overlap[g.ID], g.Tags[cloud.TagKind]
		if c.gathers {
			if kind == kindMembers && g.Tags[cloud.TagClass] == c.hash {
				first = append(first, match{c, g, held})
			}
			continue
		}
		if held == 0 && (g.Tags[cloud.TagClass] != c.hash || len(s.byHeld[g.ID]) > 0) {
			continue
		}
		switch {
		case kind == cloud.KindClass:
			first = append(first, match{c, g, held})
		case kind == kindSpill && c.state == Guarded:
			spilled = append(spilled, match{c, g, held})
		}
	}
	return first, spilled
}

// reusable returns the groups of ours that interfaces of the class hold, and those that were made for it.
func (s *regionState) reusable(c *class, overlap map[string]int) []*cloud.Group {
	if s.memory.made == nil {
		s.memory.made = map[string][]*cloud.Group{}
		for i := range s.snap.Groups {
			if g := &s.snap.Groups[i]; s.owned(g) {
				s.memory.made[g.Tags[cloud.TagClass]] = append(s.memory.made[g.Tags[cloud.TagClass]], g)
			}
		}
	}
	out := slices.Clone(s.memory.made[c.hash])
	for id := range overlap {
		if g := s.groups[id]; s.owned(g) && g.Tags[cloud.TagClass] != c.hash {
			out = append(out, g)
		}
	}
	return out
}

// nameGroups makes the first group of every class, so that rules can refer to it.
func (s *regionState) nameGroups() {
	s.byKey = map[string]*group{}
	for _, c := range s.classes {
		s.addGroup(c)
	}
}

// allGroups returns the wanted groups, class by class.
func (s *regionState) allGroups() []*group {
	var out []*group
	for _, c := range s.classes {
		out = append(out, c.groups...)
	}
	return out
}

// addGroup appends the next group of the class: an existing one, or a new one with a free name.
func (s *regionState) addGroup(c *class) *group {
	i := len(c.groups)
	g := &group{class: c}
	if i < len(c.existing) {
		g.existing = c.existing[i]
		g.name, g.key = g.existing.Name, g.existing.ID
	} else {
		g.name = s.freeName(c, i)
		g.key = "+" + g.name
	}
	c.groups = append(c.groups, g)
	s.byKey[g.key] = g
	return g
}

func (s *regionState) freeName(c *class, index int) string {
	base := cloud.NamePrefix + shortID(s.in.ClusterID) + "-" + c.hash
	if index > 0 {
		base += fmt.Sprintf("-s%d", index)
	}
	free := func(name string) bool {
		if s.byKey["+"+name] != nil {
			return false
		}
		return !c.network.groupNames[folded(name)]
	}
	name := base
	for i := 2; !free(name); i++ {
		name = fmt.Sprintf("%s.%d", base, i)
	}
	return name
}

// folded returns a name in a form that is the same for names that differ in case only.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, name)
}

// shortID is a short form of the cluster id that may stand in a group's name.
func shortID(clusterID string) string {
	sum := sha256.Sum256([]byte(clusterID))
	return hex.EncodeToString(sum[:3])
}
