package policy

import (
	"cmp"
	"slices"
)

// group is a computed address group or applied-to group. It lives while a policy refers to it.
type group struct {
	role GroupRole
	// fresh groups did not exist at the last Commit; dirty ones are on the Engine's list; replaced
	// ones are made from another object of the same name than at the last Commit; counting ones
	// have several reaches, see hosts; gone ones are forgotten.
	fresh, dirty, replaced, counting, gone bool
	// refs counts the policies that refer to the group.
	refs int32
	name string
	// selection holds the members; nil in the applied-to group of a Service.
	selection *selection
	// origin is nil for groups that are named after their selection.
	origin *origin
	// pending are the entities whose membership may have changed since the last Commit. The first
	// of an entity has its member value at that time; nil: not a member. Not kept for fresh groups.
	pending []pendingMember

	// hosts of an applied-to group counts its members by host.
	hosts hostCounts
	// reaches are the reaches an applied-to group is part of, or that use an address group. An
	// address group in several reaches counts them by host in hosts (counting is then set).
	reaches reachSet
	// alone is the reach of an applied-to group without others.
	alone *reach
	span  spanChange
	// mark is the translation that last used the group.
	mark uint64
}

// origin is what a group is made from other than its selection: an object with a UID, or a Service.
type origin struct {
	uid     string
	service *Member
}

// hostSpan returns the hosts the group concerns, as of the last Commit or, during Commit, as far as
// brought up to date.
func (g *group) hostSpan() *hostCounts {
	if g.role == AddressGroup && g.reaches.len() == 1 {
		return g.reaches.one.hostSpan()
	}
	return &g.hosts
}

// touch puts the group on the list of groups to bring up to date.
func (e *Engine) touch(g *group) {
	if !g.dirty {
		g.dirty = true
		e.dirtyGroups = append(e.dirtyGroups, g)
	}
}

// note records that the membership of x in g may change from now on; was is its present member
// value.
func (e *Engine) note(g *group, x *entity, was *Member) {
	if g.fresh {
		return
	}
	if g.pending == nil {
		g.pending = e.spares.takeList()
	}
	if n := len(g.pending); n >= maxFree && n == cap(g.pending) {
		// However often an entity changes before the next Commit, it is in there about twice.
		if g.pending = firstNotes(g.pending); len(g.pending) > n/2 {
			g.pending = slices.Grow(g.pending, n)
		}
	}
	g.pending = append(g.pending, pendingMember{x, was})
	e.touch(g)
}

// firstNotes leaves the first note about each entity, which says what it was.
func firstNotes(list []pendingMember) []pendingMember {
	slices.SortStableFunc(list, func(a, b pendingMember) int { return cmp.Compare(a.entity.Serial, b.entity.Serial) })
	return slices.CompactFunc(list, func(a, b pendingMember) bool { return a.entity == b.entity })
}

// pendingMember is an entity whose membership in a group may have changed, with its member value
// before.
type pendingMember struct {
	entity *entity
	was    *Member
}

// spares are what groups and reaches need while something is under way, from those that need it no
// more for those that do.
type spares struct {
	lists   [][]pendingMember
	records []*spanRecord
}

// maxFree is the number of each that are kept, and the length up to which their lists are.
const maxFree = 64

func (s *spares) takeList() []pendingMember {
	if n := len(s.lists); n > 0 {
		list := s.lists[n-1]
		s.lists = s.lists[:n-1]
		return list
	}
	return make([]pendingMember, 0, 4)
}

func (s *spares) giveList(list []pendingMember) {
	if cap(list) > 0 && cap(list) <= maxFree && len(s.lists) < maxFree {
		s.lists = append(s.lists, scratchOf(list))
	}
}

func (s *spares) takeRecord() *spanRecord {
	if n := len(s.records); n > 0 {
		r := s.records[n-1]
		s.records = s.records[:n-1]
		return r
	}
	return &spanRecord{hosts: make([]hostBefore, 0, 2)}
}

func (s *spares) giveRecord(r *spanRecord) {
	if cap(r.hosts) <= maxFree && len(s.records) < maxFree {
		*r = spanRecord{hosts: r.hosts[:0]}
		s.records = append(s.records, r)
	}
}

// noteCell records that the membership in g of all entities of the cell may change.
func (e *Engine) noteCell(g *group, c *cell, areMembers bool) {
	if g.fresh {
		return
	}
	for _, x := range c.entities {
		var was *Member
		if areMembers {
			was = x.member(g.role)
		}
		e.note(g, x, was)
	}
}

// acquireGroup counts a policy's reference to the group of a selector.
func (e *Engine) acquireGroup(role GroupRole, t *terms) *group {
	s := e.acquireSelection(t)
	if g := s.own[role]; g != nil {
		e.releaseSelection(s) // the group holds a use already
		g.refs++
		return g
	}
	g := e.newGroup(role, s.groupName(e), nil)
	g.selection = s
	s.own[role] = g
	return g
}

// newGroup makes a group with one reference.
func (e *Engine) newGroup(role GroupRole, name string, from *origin) *group {
	g := one(&e.slabs, &e.slabs.groups)
	g.role, g.name, g.origin, g.refs, g.fresh = role, name, from, 1, true
	e.groupCount[role]++
	e.touch(g)
	return g
}

// releaseGroup gives up a policy's reference. Groups left without are swept in the next Commit.
func (e *Engine) releaseGroup(g *group) {
	if g.refs--; g.refs == 0 {
		e.touch(g)
	}
}

// reselect gives the group other members.
func (e *Engine) reselect(g *group, s *selection) {
	old := g.selection
	g.selection = s
	s.uses++
	if !g.fresh {
		for _, link := range old.cells {
			e.noteCell(g, link.cell, true)
		}
		for _, link := range s.cells {
			e.noteCell(g, link.cell, false)
		}
	}
	old.dropGroup(g)
	s.addGroup(g)
	e.releaseSelection(old)
}

// uidOf returns the UID of the object that the group is made from, else its name.
func (g *group) uidOf() string {
	if g.origin == nil || g.origin.uid == "" {
		return g.name
	}
	return g.origin.uid
}

// groupName is the name of the groups that the selection itself makes.
func (s *selection) groupName(e *Engine) string {
	for _, g := range s.own {
		if g != nil {
			return g.name
		}
	}
	made := s.terms()
	e.scratch = made.appendNormalized(append(e.scratch[:0], groupNamespace[:]...))
	name := uuidOf(e.scratch)
	return textOf(&e.slabs, name[:])
}

// addGroup makes the selection hold the members of a group that is made from an object.
func (s *selection) addGroup(g *group) {
	t := s.tie()
	t.groups = append(t.groups, g)
}

func (s *selection) dropGroup(g *group) {
	if s.own[g.role] == g {
		s.own[g.role] = nil
	} else if s.ties != nil {
		s.ties.groups = without(s.ties.groups, g)
	}
}

// eachGroup calls f for the groups with these members.
func (s *selection) eachGroup(f func(*group)) {
	for _, g := range s.own {
		if g != nil {
			f(g)
		}
	}
	if s.ties != nil {
		for _, g := range s.ties.groups {
			f(g)
		}
	}
}

// forget removes a group without references.
func (e *Engine) forget(g *group) {
	g.gone = true
	e.groupCount[g.role]--
	if g.selection != nil {
		g.selection.dropGroup(g)
		e.releaseSelection(g.selection)
	} else {
		delete(e.serviceGroups, g.name)
	}
	e.spares.giveList(g.pending)
	g.pending = nil
}

// eachMember calls f for the present members, in no order.
func (g *group) eachMember(f func(*Member)) {
	if g.selection == nil {
		f(g.origin.service)
		return
	}
	for _, link := range g.selection.cells {
		for _, x := range link.cell.entities {
			if m := x.member(g.role); m != nil {
				f(m)
			}
		}
	}
}

// members returns the present members in order.
func (g *group) members() []*Member {
	return g.appendMembers(make([]*Member, 0, max(g.cellSize(), 1)))
}

// cellSize is the number of entities in the group's cells: it has no more members.
func (g *group) cellSize() (n int) {
	if g.selection != nil {
		for _, link := range g.selection.cells {
			n += len(link.cell.entities)
		}
	}
	return n
}

// appendMembers appends the present members in order to an empty list.
func (g *group) appendMembers(to []*Member) []*Member {
	to = g.appendUnsorted(to)
	slices.SortFunc(to, compareMembers)
	return to
}

func (g *group) appendUnsorted(to []*Member) []*Member {
	g.eachMember(func(m *Member) { to = append(to, m) })
	return to
}

// resolve turns the pending entities of a group that is not fresh into added and removed members,
// and calls count for every member that came to (1) or left (-1) a host.
func (g *group) resolve(to *spares, count func(*Member, int32)) (added, removed []*Member) {
	g.pending = firstNotes(g.pending)
	for _, p := range g.pending {
		x, was := p.entity, p.was
		var now *Member
		if x.alive && g.selection.contains(x.cell) {
			now = x.member(g.role)
		}
		if sameIn(g.role, was, now) {
			continue
		}
		stays := now != nil && was != nil && (g.role == AddressGroup || now.Host == was.Host)
		if now != nil {
			added = append(added, now)
			if !stays {
				count(now, 1)
			}
		}
		if was != nil {
			if !stays || !sameIdentity(g.role, was, now) {
				removed = append(removed, was)
			}
			if !stays {
				count(was, -1)
			}
		}
	}
	to.giveList(g.pending)
	g.pending = nil
	slices.SortFunc(added, compareMembers)
	slices.SortFunc(removed, compareMembers)
	return added, removed
}
