package compute

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/selectors"
	"github.com/nephele-io/nephele/internal/policy/slab"
	"github.com/nephele-io/nephele/internal/policy/span"
	"github.com/nephele-io/nephele/internal/policy/world"
)

// group is a computed address group or applied-to group. It lives while a policy refers to it.
type group struct {
	role policy.GroupRole
	// fresh groups did not exist at the last Commit; dirty ones are on the Engine's list; replaced
	// ones are made from another object of the same name than at the last Commit; counting ones
	// have several reaches, see hosts; gone ones are forgotten.
	fresh, dirty, replaced, counting, gone bool
	// refs counts the policies that refer to the group.
	refs int32
	name string
	// selection holds the members; nil in the applied-to group of a Service.
	selection *world.Selection
	// origin is nil for groups that are named after their selection.
	origin *origin
	// pending are the entities whose membership may have changed since the last Commit. The first
	// of an entity has its member value at that time; nil: not a member. Not kept for fresh groups.
	pending []pendingMember

	// hosts of an applied-to group counts its members by host.
	hosts span.Counts
	// reaches are the reaches an applied-to group is part of, or that use an address group. An
	// address group in several reaches counts them by host in hosts (counting is then set).
	reaches reachSet
	// alone is the reach of an applied-to group without others.
	alone *reach
	span  span.Change
	// mark is the translation that last used the group.
	mark uint64
	in   *groups
}

// origin is what a group is made from other than its selection: an object with a UID, or a Service.
type origin struct {
	uid     string
	service *policy.Member
}

// hostSpan returns the hosts the group concerns, as of the last Commit or, during Commit, as far as
// brought up to date.
func (g *group) hostSpan() *span.Counts {
	if g.role == policy.AddressGroup && g.reaches.len() == 1 {
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
	// where names are put together, and perHost counts members by the ids of hosts.
	spares  span.Spares
	lists   spareLists
	scratch []byte
	perHost []int32
}

// groupSlabs are where groups and their lists are made.
type groupSlabs struct {
	arena      *slab.Arena
	groups     slab.Slab[group]
	hostCounts slab.Slab[span.Count]
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
func (gs *groups) note(g *group, x *world.Entity, was *policy.Member) {
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
	entity *world.Entity
	was    *policy.Member
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
		*s = append(*s, slab.Scratch(list))
	}
}

// noteCell records that the membership in g of all entities of the cell may change.
func (gs *groups) noteCell(g *group, c *world.Cell, areMembers bool) {
	if g.fresh {
		return
	}
	for _, x := range c.Entities {
		var was *policy.Member
		if areMembers {
			was = x.In(g.role)
		}
		gs.note(g, x, was)
	}
}

// CellComes implements follower.
func (g *group) CellComes(c *world.Cell) { g.in.noteCell(g, c, false) }

// CellGoes implements follower.
func (g *group) CellGoes(c *world.Cell) { g.in.noteCell(g, c, true) }

// EntityChanges implements follower.
func (g *group) EntityChanges(x *world.Entity, role policy.GroupRole, was *policy.Member) {
	if role == g.role {
		g.in.note(g, x, was)
	}
}

// acquireService counts a policy's reference to the applied-to group of a Service.
func (gs *groups) acquireService(name policy.NamespacedName) *group {
	full := groupUUID(name.Namespace + "/" + name.Name)
	if g := gs.services[full]; g != nil {
		g.refs++
		return g
	}
	g := gs.add(policy.AppliedToGroup, full, &origin{
		service: &policy.Member{EntityRef: policy.EntityRef{Kind: policy.KindService, Namespace: name.Namespace, Name: name.Name}, Everywhere: true},
	})
	gs.services[full] = g
	return g
}

// countMembers counts the hosts of all members of a fresh group.
func (gs *groups) countMembers(g *group, hosts span.Table) {
	gs.perHost = append(gs.perHost, make([]int32, len(hosts)-len(gs.perHost))...)
	n := 0
	for _, link := range g.selection.Cells {
		for _, x := range link.Cell.Entities {
			if x.In(g.role) == nil {
				continue
			}
			if gs.perHost[x.At.ID]++; gs.perHost[x.At.ID] == 1 {
				n++
			}
		}
	}
	list := slab.Room(gs.slabs.arena, &gs.slabs.hostCounts, n)
	for _, link := range g.selection.Cells {
		for _, x := range link.Cell.Entities {
			if x.At == nil {
				continue
			}
			if count := &gs.perHost[x.At.ID]; *count > 0 {
				list = append(list, span.Count{ID: x.At.ID, N: *count})
				*count = 0
			}
		}
	}
	slices.SortFunc(list, func(a, b span.Count) int { return cmp.Compare(a.ID, b.ID) })
	g.hosts.List = list
}

// clean forgets what was needed for one Commit only.
func (gs *groups) clean() {
	for _, g := range gs.dirty {
		g.fresh, g.dirty, g.replaced = false, false, false
	}
	gs.dirty = slab.Scratch(gs.dirty)
}

// acquire counts a policy's reference to the group of a selector.
func (gs *groups) acquire(w *world.World, role policy.GroupRole, t *selectors.Terms) *group {
	s := w.AcquireSelection(t)
	if g, is := s.Own[role].(*group); is {
		w.ReleaseSelection(s) // the group holds a use already
		g.refs++
		return g
	}
	g := gs.add(role, gs.nameOf(s), nil)
	g.selection = s
	s.Own[role] = g
	return g
}

// add makes a group with one reference.
func (gs *groups) add(role policy.GroupRole, name string, from *origin) *group {
	g := slab.One(gs.slabs.arena, &gs.slabs.groups)
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
func (gs *groups) reselect(w *world.World, g *group, s *world.Selection) {
	old := g.selection
	g.selection = s
	s.Hold()
	if !g.fresh {
		for _, link := range old.Cells {
			gs.noteCell(g, link.Cell, true)
		}
		for _, link := range s.Cells {
			gs.noteCell(g, link.Cell, false)
		}
	}
	old.Unfollow(g)
	s.Follow(g)
	w.ReleaseSelection(old)
}

// uidOf returns the UID of the object that the group is made from, else its name.
func (g *group) uidOf() string {
	if g.origin == nil || g.origin.uid == "" {
		return g.name
	}
	return g.origin.uid
}

// nameOf is the name of the groups that a selection itself makes.
func (gs *groups) nameOf(s *world.Selection) string {
	for _, f := range s.Own {
		if g, is := f.(*group); is {
			return g.name
		}
	}
	made := s.Terms()
	gs.scratch = made.AppendNormalized(append(gs.scratch[:0], groupNamespace[:]...))
	name := uuidOf(gs.scratch)
	return gs.slabs.arena.Text(name[:])
}

// forget removes a group without references.
func (gs *groups) forget(w *world.World, g *group) {
	g.gone = true
	gs.count[g.role]--
	if g.selection != nil {
		g.selection.Unfollow(g)
		w.ReleaseSelection(g.selection)
	} else {
		delete(gs.services, g.name)
	}
	gs.lists.give(g.pending)
	g.pending = nil
}

// eachMember calls f for the present members, in no order.
func (g *group) eachMember(f func(*policy.Member)) {
	if g.selection == nil {
		f(g.origin.service)
		return
	}
	for _, link := range g.selection.Cells {
		for _, x := range link.Cell.Entities {
			if m := x.In(g.role); m != nil {
				f(m)
			}
		}
	}
}

// members returns the present members in order.
func (g *group) members() []*policy.Member {
	return g.appendMembers(make([]*policy.Member, 0, max(g.cellSize(), 1)))
}

// cellSize is the number of entities in the group's cells: it has no more members.
func (g *group) cellSize() (n int) {
	if g.selection != nil {
		for _, link := range g.selection.Cells {
			n += len(link.Cell.Entities)
		}
	}
	return n
}

// appendMembers appends the present members in order to an empty list.
func (g *group) appendMembers(to []*policy.Member) []*policy.Member {
	to = g.appendUnsorted(to)
	slices.SortFunc(to, policy.CompareMembers)
	return to
}

func (g *group) appendUnsorted(to []*policy.Member) []*policy.Member {
	g.eachMember(func(m *policy.Member) { to = append(to, m) })
	return to
}

// resolve turns the pending entities of a group that is not fresh into added and removed members,
// and calls count for every member that came to (1) or left (-1) a host.
func (g *group) resolve(to *spareLists, count func(*policy.Member, int32)) (added, removed []*policy.Member) {
	g.pending = firstNotes(g.pending)
	for _, p := range g.pending {
		x, was := p.entity, p.was
		var now *policy.Member
		if x.Alive && g.selection.Contains(x.Cell) {
			now = x.In(g.role)
		}
		if world.SameIn(g.role, was, now) {
			continue
		}
		stays := now != nil && was != nil && (g.role == policy.AddressGroup || now.Host == was.Host)
		if now != nil {
			added = append(added, now)
			if !stays {
				count(now, 1)
			}
		}
		if was != nil {
			if !stays || !world.SameIdentity(g.role, was, now) {
				removed = append(removed, was)
			}
			if !stays {
				count(was, -1)
			}
		}
	}
	to.give(g.pending)
	g.pending = nil
	slices.SortFunc(added, policy.CompareMembers)
	slices.SortFunc(removed, policy.CompareMembers)
	return added, removed
}
