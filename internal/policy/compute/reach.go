package compute

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/policy/slab"
	"github.com/nephele-io/nephele/internal/policy/span"
)

// reach is the span shared by the policies that apply to the same applied-to groups.
type reach struct {
	// one is the applied-to group if there is just one; otherwise several is set.
	one     [1]*group
	several *manyGroups
	// fresh reaches did not exist at the last Commit: their span is computed as a whole, late in
	// Commit.
	fresh, dirty bool
	// policies are those with this reach; each knows its place.
	policies []*policyState
	// ags counts the policies that use each address group.
	ags    groupCounts
	span   span.Change
	change *reachChange
	// spelled says where the keys of hostSpan are in the Changes with that serial number.
	spelled struct{ serial, at uint32 }
}

// reaches are the reaches of policies; byKey are the reaches of several applied-to groups, or of
// none.
type reaches struct {
	slabs  reachSlabs
	groups *groups
	byKey  map[string]*reach
	// Lists for the next Commit: dirty have another span, fresh were made since the last one, empty
	// have lost their policies, changed have a new change.
	dirty, fresh, empty, changed []*reach
}

// reachSlabs are where reaches and their lists are made.
type reachSlabs struct {
	arena       *slab.Arena
	reaches     slab.Slab[reach]
	policyLists slab.Slab[*policyState]
}

// reachChange is how the span of a reach changed in one Commit.
type reachChange struct {
	added, removed []string
}

// manyGroups are several applied-to groups, sorted by name, or none. hosts counts by host how many
// of them have it.
type manyGroups struct {
	atgs  []*group
	hosts span.Counts
}

// atgs returns the applied-to groups, sorted by name.
func (r *reach) atgs() []*group {
	if r.several != nil {
		return r.several.atgs
	}
	return r.one[:]
}

func (r *reach) hostSpan() *span.Counts {
	if r.several != nil {
		return &r.several.hosts
	}
	return &r.one[0].hosts
}

// groupCounts counts uses of groups. Most reaches use one, for which a map would be the larger part
// of them.
type groupCounts struct {
	one  *group
	n    int
	many map[*group]int
}

// add changes the count of a group and returns it. A count of zero is forgotten.
func (c *groupCounts) add(g *group, n int) int {
	if c.one == nil && len(c.many) == 0 {
		c.one, c.n = g, 0
	}
	if c.one == g {
		if c.n += n; c.n == 0 {
			c.one = nil
			return 0
		}
		return c.n
	}
	if c.one != nil {
		if c.many == nil {
			c.many = make(map[*group]int)
		}
		c.many[c.one] = c.n
		c.one = nil
	}
	c.many[g] += n
	count := c.many[g]
	if count == 0 {
		delete(c.many, g)
	}
	return count
}

func (c *groupCounts) each(f func(*group)) {
	if c.one != nil {
		f(c.one)
	}
	for g := range c.many {
		f(g)
	}
}

// reachSet is a set of reaches, each with a mark: whether its hosts are counted in the address
// group that holds the set.
type reachSet struct {
	one  *reach // while there is just one
	many map[*reach]bool
}

func (s *reachSet) len() int {
	if s.one != nil {
		return 1
	}
	return len(s.many)
}

func (s *reachSet) insert(r *reach) {
	switch {
	case s.one == nil && len(s.many) == 0:
		s.one = r
	case s.one != nil:
		s.many = map[*reach]bool{s.one: false, r: false}
		s.one = nil
	default:
		s.many[r] = false
	}
}

func (s *reachSet) remove(r *reach) {
	if s.one == r {
		s.one = nil
		return
	}
	delete(s.many, r)
	if len(s.many) == 1 {
		for last := range s.many {
			s.one = last
		}
		s.many = nil
	}
}

func (s *reachSet) each(f func(*reach)) {
	if s.one != nil {
		f(s.one)
	}
	for r := range s.many {
		f(r)
	}
}

// reachKey identifies the reach of a sorted list of distinct applied-to groups, of which there is
// not just one.
func reachKey(atgs []*group) string {
	names := make([]string, len(atgs))
	for i, g := range atgs {
		names[i] = g.name
	}
	return strings.Join(names, "\x00")
}

// of returns the reach of a sorted list of distinct applied-to groups.
func (rs *reaches) of(atgs []*group) *reach {
	r := rs.known(atgs)
	if r != nil {
		return r
	}
	r = slab.One(rs.slabs.arena, &rs.slabs.reaches)
	r.fresh = true
	if len(atgs) == 1 {
		r.one[0], atgs[0].alone = atgs[0], r
	} else {
		r.several = &manyGroups{atgs: slices.Clone(atgs)}
		rs.byKey[reachKey(atgs)] = r
	}
	rs.fresh = append(rs.fresh, r)
	for _, g := range atgs {
		g.reaches.insert(r)
	}
	return r
}

// known returns the reach of a sorted list of distinct applied-to groups; nil if there is
// none.
func (rs *reaches) known(atgs []*group) *reach {
	if len(atgs) == 1 {
		return atgs[0].alone
	}
	return rs.byKey[reachKey(atgs)]
}

// join makes the policy one of the reach, using these address groups.
func (rs *reaches) join(r *reach, p *policyState, ags []*group) {
	p.reach, p.at = r, int32(len(r.policies))
	if r.policies == nil {
		r.policies = slab.Room(rs.slabs.arena, &rs.slabs.policyLists, 1)
	}
	r.policies = append(r.policies, p)
	for _, g := range ags {
		if r.ags.add(g, 1) == 1 {
			if !g.fresh {
				g.span.Keep(&rs.groups.spares, g.hostSpan())
			}
			g.reaches.insert(r)
			rs.groups.touch(g)
		}
	}
}

// quit is the opposite of join for a policy that was at the given place with these address groups.
// It must be called before the hosts of applied-to groups are brought up to date.
func (rs *reaches) quit(r *reach, at int32, ags []*group) {
	last := len(r.policies) - 1
	r.policies[at] = r.policies[last]
	r.policies[at].at = at
	r.policies[last] = nil
	r.policies = r.policies[:last]
	for _, g := range ags {
		if r.ags.add(g, -1) > 0 {
			continue
		}
		if !g.fresh {
			g.span.Keep(&rs.groups.spares, g.hostSpan())
		}
		if g.counting && g.reaches.many[r] {
			for _, c := range r.hostSpan().List {
				g.hosts.Add(c.ID, -1)
			}
		}
		if g.reaches.remove(r); g.reaches.len() < 2 {
			g.counting, g.hosts = false, span.Counts{}
		}
		rs.groups.touch(g)
	}
	if last == 0 {
		rs.empty = append(rs.empty, r)
	}
}

// sweep forgets the reaches without policies.
func (rs *reaches) sweep() {
	for _, r := range rs.empty {
		if len(r.policies) > 0 || rs.known(r.atgs()) != r {
			continue
		}
		if r.several == nil {
			r.one[0].alone = nil
		} else {
			delete(rs.byKey, reachKey(r.atgs()))
		}
		for _, g := range r.atgs() {
			g.reaches.remove(r)
		}
	}
	rs.empty = rs.empty[:0]
	rs.fresh = slices.DeleteFunc(rs.fresh, func(r *reach) bool { return len(r.policies) == 0 && rs.known(r.atgs()) != r })
}

// shift counts n more members of the applied-to group at the host and carries a change of its span
// on to the reaches that existed before this Commit and their address groups.
func (rs *reaches) shift(g *group, h *span.Host, n int32) {
	before, after := g.hosts.Add(h.ID, n)
	if before == after {
		return
	}
	if !g.fresh {
		g.span.Flip(&rs.groups.spares, h.ID, before)
	}
	g.reaches.each(func(r *reach) {
		if r.fresh {
			return
		}
		was, is := before, after
		if r.several != nil {
			step := int32(1)
			if before {
				step = -1
			}
			was, is = r.several.hosts.Add(h.ID, step)
		}
		if was != is {
			rs.flip(r, h.ID, was)
		}
	})
}

// flip carries a host that came to or went from a reach on to its address groups.
func (rs *reaches) flip(r *reach, id uint32, was bool) {
	r.span.Flip(&rs.groups.spares, id, was)
	if !r.dirty {
		r.dirty = true
		rs.dirty = append(rs.dirty, r)
	}
	step := int32(1)
	if was {
		step = -1
	}
	r.ags.each(func(g *group) {
		if g.counting {
			if !g.reaches.many[r] {
				return // counted later, as a whole
			}
			if before, after := g.hosts.Add(id, step); before == after {
				return
			}
		}
		if !g.fresh {
			g.span.Flip(&rs.groups.spares, id, was)
		}
		rs.groups.touch(g)
	})
}

// fill computes the hosts of the reaches made in this Commit.
func (rs *reaches) fill() {
	for _, r := range rs.fresh {
		r.fresh = false
		if r.several == nil {
			continue
		}
		r.several.hosts = span.Counts{}
		for _, g := range r.atgs() {
			for _, c := range g.hosts.List {
				r.several.hosts.Add(c.ID, 1)
			}
		}
	}
	rs.fresh = rs.fresh[:0]
}

// recount brings the host counts of an address group in line with its reaches.
func (g *group) recount() {
	if g.reaches.len() < 2 {
		g.counting, g.hosts = false, span.Counts{}
		return
	}
	if !g.counting {
		g.counting, g.hosts = true, span.Counts{}
		for r := range g.reaches.many {
			g.reaches.many[r] = false
		}
	}
	for r, counted := range g.reaches.many {
		if counted {
			continue
		}
		for _, c := range r.hostSpan().List {
			g.hosts.Add(c.ID, 1)
		}
		g.reaches.many[r] = true
	}
}

// clean forgets what was needed for one Commit only.
func (rs *reaches) clean() {
	for _, r := range rs.dirty {
		r.dirty = false
	}
	for _, r := range rs.changed {
		r.change = nil
	}
	rs.dirty, rs.changed = slab.Scratch(rs.dirty), slab.Scratch(rs.changed)
}
