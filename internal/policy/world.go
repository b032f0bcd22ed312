package policy

import (
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/table"
)

// world is what is given of Namespaces and entities, and what selectors choose of it. What comes
// and goes it passes to the followers of the selections that are concerned.
type world struct {
	slabs worldSlabs
	hosts *hosts

	labels     labelTable
	namespaces map[string]*namespace
	recent     *namespace // the one that was looked for last
	known      labelIndex[*namespace]
	everywhere *scope
	scopes     map[string]*scope
	scopeIndex selectorIndex[*scope]
	selections selectionTable
	nodes      nodes
	// serials is the number of entities' serial numbers, freeSerials are those of them that are not
	// used.
	serials     uint32
	freeSerials []uint32
	// dead are the entities that went since the last Commit, which forgets them.
	dead []*entity
}

// nodes counts the Nodes by host, and what comes to that with the next Commit.
type nodes struct {
	hosts  hostCounts
	shifts map[*host]int32
}

// shift has a Node that came (1) or went (-1) taken into account in the next Commit.
func (ns *nodes) shift(h *host, n int32) {
	if ns.shifts == nil {
		ns.shifts = make(map[*host]int32)
	}
	ns.shifts[h] += n
}

// worldSlabs are where what the world is made of is made.
type worldSlabs struct {
	arena          *arena
	namespaces     slab[namespace]
	kinds          slab[kindIndex]
	selections     slab[selection]
	cells          slab[cell]
	entities       slab[entity]
	members        slab[memberAt]
	entityLists    slab[*entity]
	cellLinks      slab[cellLink]
	selectionLinks slab[selectionLink]
}

// namespace is a Namespace, or the place of entities and selections that name one which is not
// (yet) known. The namespace with the empty name holds the Nodes and what is remote.
type namespace struct {
	name   string
	known  bool
	logKNP bool
	labels *labelSet // nil unless known
	// kinds are indexes by kind of entity, nil until needed: see of.
	kinds [KindRemote + 1]*kindIndex
	// byKey finds cells where there are many; nil while a look at all those of the kind finds one
	// as fast.
	byKey map[cellKey]*cell
	// scopes are the scopes that include this Namespace.
	scopes map[*scope]struct{}
	// uses counts the entities, cells and pinned selections that keep an unknown Namespace alive.
	uses int
}

// kindIndex is what a Namespace has of one kind: cells are the distinct label sets of its entities,
// pinned the selections of this Namespace alone.
type kindIndex struct {
	cells    labelIndex[*cell]
	pinned   selectorIndex[*selection]
	entities nameIndex
	// room is where the lists of these begin: most are no longer.
	room struct {
		cells    [2]*cell
		pinned   [4]*selection
		entities [4]*entity
	}
}

// fewNames is the number of entities up to which looking at all of them finds one as fast.
const fewNames = 12

// nameIndex finds entities by name: in a list, or where there are many in a table.
type nameIndex struct {
	list []*entity
	many *table.Table[entity]
}

func (x *nameIndex) find(name string) *entity {
	is := func(it *entity) bool { return it.Name == name }
	if x.many != nil {
		return x.many.Find(x.many.Hash(name), is)
	}
	if i := slices.IndexFunc(x.list, is); i >= 0 {
		return x.list[i]
	}
	return nil
}

// insert adds an entity whose name is not there.
func (x *nameIndex) insert(it *entity) {
	if x.many == nil && len(x.list) < fewNames {
		x.list = append(x.list, it)
		return
	}
	if x.many == nil {
		x.many = &table.Table[entity]{}
		for _, old := range x.list {
			x.many.Insert(x.many.Hash(old.Name), old)
		}
		x.list = nil
	}
	x.many.Insert(x.many.Hash(it.Name), it)
}

func (x *nameIndex) remove(it *entity) {
	if x.many != nil {
		x.many.Remove(x.many.Hash(it.Name), it)
		return
	}
	x.list = table.Without(x.list, it)
}

// each goes through all until f returns false, and says whether it never did.
func (x *nameIndex) each(f func(*entity) bool) bool {
	for _, it := range x.list {
		if !f(it) {
			return false
		}
	}
	if x.many != nil {
		for it := range x.many.All() {
			if !f(it) {
				return false
			}
		}
	}
	return true
}

// of returns the index of a kind. Most Namespaces have nothing but Pods.
func (n *namespace) of(kind EntityKind, from *worldSlabs) *kindIndex {
	if n.kinds[kind] == nil {
		k := one(from.arena, &from.kinds)
		k.cells.beginIn(k.room.cells[:0])
		k.pinned.beginIn(k.room.pinned[:0])
		k.entities.list = k.room.entities[:0]
		n.kinds[kind] = k
	}
	return n.kinds[kind]
}

// eachCell calls f for the cells of a kind that the selector matches; a nil one matches all. f must
// not make or drop cells.
func (n *namespace) eachCell(kind EntityKind, s *selector, f func(*cell)) {
	if k := n.kinds[kind]; k != nil {
		k.cells.each(s, f)
	}
}

func (n *namespace) LabelSet() *labelSet { return n.labels }

// cellKey finds a cell in its Namespace.
type cellKey struct {
	kind   EntityKind
	labels *labelSet
}

// cell holds the entities of one kind that have the same labels in one Namespace: no selector can
// tell them apart.
type cell struct {
	ns       *namespace
	kind     EntityKind
	labels   *labelSet
	entities []*entity
	// selectedBy are the selections that contain the cell.
	selectedBy []cellLink
}

func (c *cell) LabelSet() *labelSet { return c.labels }

// cellLink and selectionLink are the two ends of "selection contains cell"; each knows where the
// other is.
type cellLink struct {
	selection *selection
	at        int // index in selection.cells
}

type selectionLink struct {
	cell *cell
	at   int // index in cell.selectedBy
}

// entity is the state of one entity. It survives, dead, until the Commit after its deletion.
type entity struct {
	// Member is the value in groups. It keeps its identity while its content stays the same.
	*Member
	cell *cell
	host *host // that of its key, nil if it is dead or has none
	at   int32 // index in cell.entities
	// excluded marks host-network and terminated Pods.
	alive, excluded bool
}

// member returns the entity's value in groups of the role; nil if it cannot be a member.
func (x *entity) member(role GroupRole) *Member {
	switch {
	case !x.alive || x.excluded:
		return nil
	case role == AddressGroup && len(x.IPs) == 0 && x.Kind != KindExternalEntity:
		return nil
	case role == AppliedToGroup && x.Host == "":
		return nil
	}
	return x.Member
}

// roles is the number of roles of groups.
const roles = 2

// members returns the entity's values in groups, by role.
func (x *entity) members() [roles]*Member {
	return [...]*Member{AddressGroup: x.member(AddressGroup), AppliedToGroup: x.member(AppliedToGroup)}
}

// assign takes over the content of an input.
func (x *entity) assign(in *Entity, from *worldSlabs) {
	x.excluded = in.HostNetwork || in.Terminated
	if hostKeyOf(in) != x.Host || !sameAddresses(in.Addresses, x.IPs) || !slices.Equal(normalPorts(in.Ports), x.Ports) {
		in.Namespace = x.Namespace
		x.become(in, x.Serial, from)
	}
}

// become gives the entity, which has its host, a new value. Its Namespace and its host have the one
// text of all others there.
func (x *entity) become(in *Entity, serial uint32, from *worldSlabs) {
	x.Member = newMember(in, serial, from)
	if x.host != nil {
		x.Host = x.host.key
	}
}

// memberAt is a member with one address, as most are.
type memberAt struct {
	Member
	ip [1]netip.Addr
}

// newMember makes the member that the entity is, with a copy of its addresses.
func newMember(in *Entity, serial uint32, from *worldSlabs) *Member {
	x := one(from.arena, &from.members)
	x.EntityRef, x.Host, x.Serial, x.Ports = in.EntityRef, hostKeyOf(in), serial, normalPorts(in.Ports)
	if len(in.Addresses) > 0 {
		x.IPs = x.ip[:0]
	}
	for _, a := range in.Addresses {
		x.IPs = append(x.IPs, plainAddress(a))
	}
	return &x.Member
}

// plainAddress is an address without zone, an IPv4-mapped one as IPv4.
func plainAddress(a netip.Addr) netip.Addr {
	if a.Is4In6() || a.Zone() != "" {
		return a.Unmap().WithZone("")
	}
	return a
}

// sameAddresses reports whether given addresses are those that a member has.
func sameAddresses(given, has []netip.Addr) bool {
	return slices.EqualFunc(given, has, func(a, b netip.Addr) bool { return plainAddress(a) == b })
}

// hostKeyOf is the key of the enforcer responsible.
func hostKeyOf(in *Entity) string {
	if in.Kind == KindNode {
		return in.Name
	}
	return in.Host
}

// normalPorts fills in the default protocol.
func normalPorts(in []NamedPort) []NamedPort {
	for i, p := range in {
		if p.Protocol == "" {
			out := slices.Clone(in)
			for j := i; j < len(out); j++ {
				if out[j].Protocol == "" {
					out[j].Protocol = TCP
				}
			}
			return out
		}
	}
	return in
}

// sameIn reports whether two values of one entity say the same in groups of the role.
func sameIn(role GroupRole, a, b *Member) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.Ports, b.Ports) && sameIdentity(role, a, b) && (role == AddressGroup || a.Host == b.Host)
}

// sameIdentity reports whether enforcers take a and b, members of the same group made from the same
// entity, for the same member.
func sameIdentity(role GroupRole, a, b *Member) bool {
	return role == AppliedToGroup || slices.Equal(a.IPs, b.IPs)
}

// entity returns what is known of an entity, also one that is gone since the last Commit; nil if
// nothing is.
func (w *world) entity(ref EntityRef) *entity {
	n := w.recent
	if n == nil || n.name != ref.Namespace {
		n = w.namespaces[ref.Namespace]
	}
	if n == nil || ref.Kind > KindRemote || n.kinds[ref.Kind] == nil {
		return nil
	}
	return n.kinds[ref.Kind].entities.find(ref.Name)
}

// newEntity makes an entity that is not alive yet.
func (w *world) newEntity(in *Entity) *entity {
	n := w.namespaceNamed(in.Namespace)
	in.Namespace = n.name // one text for all of them
	x := one(w.slabs.arena, &w.slabs.entities)
	w.assignHost(x, hostKeyOf(in))
	x.become(in, w.takeSerial(), &w.slabs)
	n.of(in.Kind, &w.slabs).entities.insert(x)
	n.uses++
	return x
}

// takeSerial returns a serial number that no entity has.
func (w *world) takeSerial() uint32 {
	if n := len(w.freeSerials); n > 0 {
		s := w.freeSerials[n-1]
		w.freeSerials = w.freeSerials[:n-1]
		return s
	}
	w.serials++
	return w.serials
}

// forgetEntity forgets an entity that is not alive.
func (w *world) forgetEntity(x *entity) {
	w.freeSerials = append(w.freeSerials, x.Serial)
	n := w.namespaces[x.Namespace]
	n.kinds[x.Kind].entities.remove(x)
	n.uses--
	w.dropNamespace(n)
}

// namespaceNamed returns the namespace state, making it if there is none.
func (w *world) namespaceNamed(name string) *namespace {
	if n := w.recent; n != nil && n.name == name {
		return n
	}
	n := w.namespaces[name]
	w.recent = n
	if n == nil {
		n = one(w.slabs.arena, &w.slabs.namespaces)
		n.name = name
		w.namespaces[name] = n
		if s := w.everywhere; s != nil {
			w.enterScope(n, s)
		}
	}
	return n
}

// dropNamespace forgets an unknown namespace that nothing uses.
func (w *world) dropNamespace(n *namespace) {
	if n.known || n.uses > 0 {
		return
	}
	for s := range n.scopes {
		delete(s.namespaces, n)
	}
	delete(w.namespaces, n.name)
	if w.recent == n {
		w.recent = nil
	}
}

// find returns a cell, or nil if there is none.
func (n *namespace) find(key cellKey) *cell {
	if n.byKey != nil {
		return n.byKey[key]
	}
	if k := n.kinds[key.kind]; k != nil {
		for _, c := range k.cells.list {
			if c.labels == key.labels {
				return c
			}
		}
	}
	return nil
}

// insert makes a new cell one of the Namespace.
func (n *namespace) insert(c *cell, from *worldSlabs) {
	index := &n.of(c.kind, from).cells
	index.insert(c)
	switch {
	case n.byKey != nil:
		n.byKey[cellKey{c.kind, c.labels}] = c
	case index.large():
		n.byKey = make(map[cellKey]*cell, 2*fewNames)
		for kind := range n.kinds {
			n.eachCell(EntityKind(kind), nil, func(c *cell) { n.byKey[cellKey{c.kind, c.labels}] = c })
		}
	}
}

// cellFor returns the cell for entities of the kind and labels, attaching a new one to the
// selections that match. It takes over one reference to the label set.
func (w *world) cellFor(n *namespace, kind EntityKind, labels *labelSet) *cell {
	if c := n.find(cellKey{kind, labels}); c != nil {
		w.labels.release(labels) // the cell holds one already
		return c
	}
	c := one(w.slabs.arena, &w.slabs.cells)
	c.ns, c.kind, c.labels = n, kind, labels
	n.insert(c, &w.slabs)
	n.uses++
	attach := func(s *selection) { w.attach(s, c) }
	n.of(kind, &w.slabs).pinned.each(labels, attach)
	for s := range n.scopes {
		s.selections[kind].each(labels, attach)
	}
	return c
}

// dropCell forgets an empty cell.
func (w *world) dropCell(c *cell) {
	// Leaf selections only: a union leaves when its last child does.
	for i := len(c.selectedBy) - 1; i >= 0; i-- {
		if i < len(c.selectedBy) && !c.selectedBy[i].selection.isUnion() {
			w.detach(c.selectedBy[i].selection, c)
		}
	}
	n := c.ns
	n.kinds[c.kind].cells.remove(c)
	delete(n.byKey, cellKey{c.kind, c.labels})
	w.labels.release(c.labels)
	n.uses--
	w.dropNamespace(n)
}

// enter puts a live entity into a cell; leave takes it out, and forgets the cell if that was the
// last.
func (w *world) enter(x *entity, c *cell) {
	x.cell, x.at = c, int32(len(c.entities))
	if c.entities == nil {
		c.entities = roomFor(w.slabs.arena, &w.slabs.entityLists, 2)
	}
	c.entities = append(c.entities, x)
}

func (w *world) leave(x *entity) {
	c := x.cell
	last := len(c.entities) - 1
	c.entities[x.at] = c.entities[last]
	c.entities[x.at].at = x.at
	c.entities[last] = nil
	c.entities = c.entities[:last]
	x.cell = nil
	if last == 0 {
		w.dropCell(c)
	}
}

// put adds or replaces an entity.
func (w *world) put(in Entity) {
	x := w.entity(in.EntityRef)
	if x == nil {
		x = w.newEntity(&in)
	}
	var account label
	if in.Kind == KindPod && in.ServiceAccount != "" {
		account = label{serviceAccountLabel, in.ServiceAccount}
	}
	labels := w.labels.acquire(in.Labels, account)
	if x.alive && x.cell.labels == labels {
		w.labels.release(labels)
		w.updateContent(x, &in)
		return
	}
	c := w.cellFor(w.namespaceNamed(in.Namespace), in.Kind, labels)
	if x.alive {
		w.noteEntity(x, x.cell)
		w.leave(x)
	} else if in.Kind == KindNode {
		w.nodes.shift(w.hosts.use(in.Name), 1)
	}
	w.assignHost(x, hostKeyOf(&in))
	x.assign(&in, &w.slabs)
	x.alive = true
	w.enter(x, c)
	for _, link := range c.selectedBy {
		for role := range roles {
			link.selection.notify(x, GroupRole(role), nil)
		}
	}
}

// updateContent changes what does not concern selectors.
func (w *world) updateContent(x *entity, in *Entity) {
	was := x.members()
	w.assignHost(x, hostKeyOf(in))
	x.assign(in, &w.slabs)
	var changed [roles]bool
	for role := range changed {
		changed[role] = !sameIn(GroupRole(role), was[role], x.member(GroupRole(role)))
	}
	if !changed[0] && !changed[1] {
		return
	}
	for _, link := range x.cell.selectedBy {
		for role := range changed {
			if changed[role] {
				link.selection.notify(x, GroupRole(role), was[role])
			}
		}
	}
}

// noteEntity records that x may leave or change in all groups that contain its cell.
func (w *world) noteEntity(x *entity, c *cell) {
	was := x.members()
	for _, link := range c.selectedBy {
		for role := range was {
			link.selection.notify(x, GroupRole(role), was[role])
		}
	}
}

// drop forgets an entity.
func (w *world) drop(ref EntityRef) {
	x := w.entity(ref)
	if x == nil || !x.alive {
		return
	}
	w.noteEntity(x, x.cell)
	w.leave(x)
	x.alive = false
	w.assignHost(x, "")
	if ref.Kind == KindNode {
		h := w.hosts.named(ref.Name)
		w.nodes.shift(h, -1)
		w.hosts.release(h)
	}
	w.dead = append(w.dead, x)
}

// assignHost gives the entity its host and counts the use.
func (w *world) assignHost(x *entity, key string) {
	former := x.host
	if former != nil && former.key == key {
		return
	}
	x.host = nil
	if key != "" {
		x.host = w.hosts.use(key)
	}
	if former != nil {
		w.hosts.release(former)
	}
}

// relabel gives a Namespace other labels, or with nil makes it unknown, and moves it
// between scopes.
func (w *world) relabel(n *namespace, labels *labelSet) {
	if n.known {
		w.known.remove(n)
		w.labels.release(n.labels)
	}
	n.known, n.labels = labels != nil, labels
	wanted := make(map[*scope]struct{})
	if labels != nil {
		w.known.insert(n)
		w.scopeIndex.each(labels, func(s *scope) { wanted[s] = struct{}{} })
	}
	for s := range n.scopes {
		if _, ok := wanted[s]; !ok && s != w.everywhere {
			w.exitScope(n, s)
		}
	}
	for s := range wanted {
		if _, ok := n.scopes[s]; !ok {
			w.enterScope(n, s)
		}
	}
}

// forgetDead forgets the entities that went before a Commit that is done.
func (w *world) forgetDead() {
	for _, x := range w.dead {
		// One that went, came and went is here twice.
		if !x.alive && w.entity(x.EntityRef) == x {
			w.forgetEntity(x)
		}
	}
	w.dead = scratchOf(w.dead)
}
