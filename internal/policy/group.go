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
	in   *groups
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

// groups are those that policies refer to.
type groups struct {
	slabs groupSlabs
	count [2]int // by role
	// services are the applied-to groups of Services by name, present at every Node. All other
	// groups are found by their selection or definition.
	services map[string]*group
	// dirty are those to bring up to date in the next Commit.
	dirty []*group
	// spares are records for the spans of groups and reaches, lists those for notes, scratch is
	// where names are put together, and tally counts members by the ids of hosts.
	spares  spares
	lists   spareLists
	scratch []byte
	tally   []int32
}

// groupSlabs are where groups and their lists are made.
type groupSlabs struct {
	arena      *arena
	groups     slab[group]
	hostCounts slab[hostCount]
}

// touch puts the group on the list of groups to bring up to date.
func (gs *groups) touch(g *group) {
	if !g.dirty {
		g.dirty = true
		gs.dirty = append(gs.dirty, g)
	}
}

// note records that the membership of x in g may change from now on; was is its present member
// value.
func (gs *groups) note(g *group, x *entity, was *Member) {
	if g.fresh {
		return
	}
	if g.pending == nil {
		g.pending = gs.lists.take()
	}
	if n := len(g.pending); n >= maxFree && n == cap(g.pending) {
		// However often an entity changes before the next Commit, it is in there about twice.
		if g.pending = firstNotes(g.pending); len(g.pending) > n/2 {
			g.pending = slices.Grow(g.pending, n)
		}
	}
	g.pending = append(g.pending, pendingMember{x, was})
	gs.touch(g)
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

// spareLists are lists of notes of groups that have none any more, for those that will.
type spareLists [][]pendingMember

// maxFree is the number of lists that are kept, and the length up to which they are.
const maxFree = 64

func (s *spareLists) take() []pendingMember {
	if n := len(*s); n > 0 {
		list := (*s)[n-1]
		*s = (*s)[:n-1]
		return list
	}
	return make([]pendingMember, 0, 4)
}

func (s *spareLists) give(list []pendingMember) {
	if cap(list) > 0 && cap(list) <= maxFree && len(*s) < maxFree {
		*s = append(*s, scratchOf(list))
	}
}

// noteCell records that the membership in g of all entities of the cell may change.
func (gs *groups) noteCell(g *group, c *cell, areMembers bool) {
	if g.fresh {
		return
	}
	for _, x := range c.entities {
		var was *Member
		if areMembers {
			was = x.member(g.role)
		}
		gs.note(g, x, was)
	}
}

// CellComes implements follower.
func (g *group) CellComes(c *cell) { g.in.noteCell(g, c, false) }

// CellGoes implements follower.
func (g *group) CellGoes(c *cell) { g.in.noteCell(g, c, true) }

// EntityChanges implements follower.
func (g *group) EntityChanges(x *entity, role GroupRole, was *Member) {
	if role == g.role {
		g.in.note(g, x, was)
	}
}

// acquireService counts a policy's reference to the applied-to group of a Service.
func (gs *groups) acquireService(name NamespacedName) *group {
	full := groupUUID(name.Namespace + "/" + name.Name)
	if g := gs.services[full]; g != nil {
		g.refs++
		return g
	}
	g := gs.add(AppliedToGroup, full, &origin{
		service: &Member{EntityRef: EntityRef{KindService, name.Namespace, name.Name}, Everywhere: true},
	})
	gs.services[full] = g
	return g
}

// countMembers counts the hosts of all members of a fresh group.
func (gs *groups) countMembers(g *group, hosts hostTable) {
	gs.tally = append(gs.tally, make([]int32, len(hosts)-len(gs.tally))...)
	n := 0
	for _, link := range g.selection.cells {
		for _, x := range link.cell.entities {
			if x.member(g.role) == nil {
				continue
			}
			if gs.tally[x.host.id]++; gs.tally[x.host.id] == 1 {
				n++
			}
		}
	}
	list := roomFor(gs.slabs.arena, &gs.slabs.hostCounts, n)
	for _, link := range g.selection.cells {
		for _, x := range link.cell.entities {
			if x.host == nil {
				continue
			}
			if count := &gs.tally[x.host.id]; *count > 0 {
				list = append(list, hostCount{x.host.id, *count})
				*count = 0
			}
		}
	}
	slices.SortFunc(list, func(a, b hostCount) int { return cmp.Compare(a.id, b.id) })
	g.hosts.list = list
}

// clean forgets what was needed for one Commit only.
func (gs *groups) clean() {
	for _, g := range gs.dirty {
		g.fresh, g.dirty, g.replaced = false, false, false
	}
	gs.dirty = scratchOf(gs.dirty)
}

// acquire counts a policy's reference to the group of a selector.
func (gs *groups) acquire(w *world, role GroupRole, t *terms) *group {
	s := w.acquireSelection(t)
	if g, is := s.own[role].(*group); is {
		w.releaseSelection(s) // the group holds a use already
		g.refs++
		return g
	}
	g := gs.add(role, gs.nameOf(s), nil)
	g.selection = s
	s.own[role] = g
	return g
}

// add makes a group with one reference.
func (gs *groups) add(role GroupRole, name string, from *origin) *group {
	g := one(gs.slabs.arena, &gs.slabs.groups)
	g.role, g.name, g.origin, g.refs, g.fresh, g.in = role, name, from, 1, true, gs
	gs.count[role]++
	gs.touch(g)
	return g
}

// release gives up a policy's reference. Groups left without are swept in the next Commit.
func (gs *groups) release(g *group) {
	if g.refs--; g.refs == 0 {
		gs.touch(g)
	}
}

// reselect gives the group other members.
func (gs *groups) reselect(w *world, g *group, s *selection) {
	old := g.selection
	g.selection = s
	s.uses++
	if !g.fresh {
		for _, link := range old.cells {
			gs.noteCell(g, link.cell, true)
		}
		for _, link := range s.cells {
			gs.noteCell(g, link.cell, false)
		}
	}
	old.unfollow(g)
	s.follow(g)
	w.releaseSelection(old)
}

// uidOf returns the UID of the object that the group is made from, else its name.
func (g *group) uidOf() string {
	if g.origin == nil || g.origin.uid == "" {
		return g.name
	}
	return g.origin.uid
}

// nameOf is the name of the groups that a selection itself makes.
func (gs *groups) nameOf(s *selection) string {
	for _, f := range s.own {
		if g, is := f.(*group); is {
			return g.name
		}
	}
	made := s.terms()
	gs.scratch = made.appendNormalized(append(gs.scratch[:0], groupNamespace[:]...))
	name := uuidOf(gs.scratch)
	return gs.slabs.arena.text(name[:])
}

// forget removes a group without references.
func (gs *groups) forget(w *world, g *group) {
	g.gone = true
	gs.count[g.role]--
	if g.selection != nil {
		g.selection.unfollow(g)
		w.releaseSelection(g.selection)
	} else {
		delete(gs.services, g.name)
	}
	gs.lists.give(g.pending)
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
	slices.SortFunc(to, CompareMembers)
	return to
}

func (g *group) appendUnsorted(to []*Member) []*Member {
	g.eachMember(func(m *Member) { to = append(to, m) })
	return to
}

// resolve turns the pending entities of a group that is not fresh into added and removed members,
// and calls count for every member that came to (1) or left (-1) a host.
func (g *group) resolve(to *spareLists, count func(*Member, int32)) (added, removed []*Member) {
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
	to.give(g.pending)
	g.pending = nil
	slices.SortFunc(added, CompareMembers)
	slices.SortFunc(removed, CompareMembers)
	return added, removed
}
