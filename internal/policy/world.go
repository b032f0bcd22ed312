package policy

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/table"
)

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
	if x.many == nil && len(x.list) < smallIndex {
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
	x.list = without(x.list, it)
}

// of returns the index of a kind. Most Namespaces have nothing but Pods.
func (n *namespace) of(kind EntityKind, from *slabs) *kindIndex {
	if n.kinds[kind] == nil {
		k := one(from, &from.kinds)
		k.cells.list, k.pinned.list, k.entities.list = k.room.cells[:0], k.room.pinned[:0], k.room.entities[:0]
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

func (n *namespace) labelsOf() *labelSet { return n.labels }

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

func (c *cell) labelsOf() *labelSet { return c.labels }

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

// assign takes over the content of an input.
func (x *entity) assign(in *Entity, from *slabs) {
	x.excluded = in.HostNetwork || in.Terminated
	if in.hostKey() != x.Host || !sameAddresses(in.Addresses, x.IPs) || !slices.Equal(normalPorts(in.Ports), x.Ports) {
		in.Namespace = x.Namespace
		x.become(in, x.Serial, from)
	}
}

// become gives the entity, which has its host, a new value. Its Namespace and its host have the one
// text of all others there.
func (x *entity) become(in *Entity, serial uint32, from *slabs) {
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
func newMember(in *Entity, serial uint32, from *slabs) *Member {
	x := one(from, &from.members)
	x.EntityRef, x.Host, x.Serial, x.Ports = in.EntityRef, in.hostKey(), serial, normalPorts(in.Ports)
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

// hostKey is the key of the enforcer responsible.
func (in *Entity) hostKey() string {
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

func compareRefs(a, b EntityRef) int {
	if a.Kind != b.Kind {
		return int(a.Kind) - int(b.Kind)
	}
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

func compareMembers(a, b *Member) int { return compareRefs(a.EntityRef, b.EntityRef) }

// entity returns what is known of an entity, also one that is gone since the last Commit; nil if
// nothing is.
func (e *Engine) entity(ref EntityRef) *entity {
	n := e.recent
	if n == nil || n.name != ref.Namespace {
		n = e.namespaces[ref.Namespace]
	}
	if n == nil || ref.Kind > KindRemote || n.kinds[ref.Kind] == nil {
		return nil
	}
	return n.kinds[ref.Kind].entities.find(ref.Name)
}

// newEntity makes an entity that is not alive yet.
func (e *Engine) newEntity(in *Entity) *entity {
	n := e.namespaceNamed(in.Namespace)
	in.Namespace = n.name // one text for all of them
	x := one(&e.slabs, &e.slabs.entities)
	e.assignHost(x, in.hostKey())
	x.become(in, e.takeSerial(), &e.slabs)
	n.of(in.Kind, &e.slabs).entities.insert(x)
	n.uses++
	return x
}

// takeSerial returns a serial number that no entity has.
func (e *Engine) takeSerial() uint32 {
	if n := len(e.freeSerials); n > 0 {
		s := e.freeSerials[n-1]
		e.freeSerials = e.freeSerials[:n-1]
		return s
	}
	e.serials++
	return e.serials
}

// forgetEntity forgets an entity that is not alive.
func (e *Engine) forgetEntity(x *entity) {
	e.freeSerials = append(e.freeSerials, x.Serial)
	n := e.namespaces[x.Namespace]
	n.kinds[x.Kind].entities.remove(x)
	n.uses--
	e.dropNamespace(n)
}

// namespaceNamed returns the namespace state, making it if there is none.
func (e *Engine) namespaceNamed(name string) *namespace {
	if n := e.recent; n != nil && n.name == name {
		return n
	}
	n := e.namespaces[name]
	e.recent = n
	if n == nil {
		n = one(&e.slabs, &e.slabs.namespaces)
		n.name = name
		e.namespaces[name] = n
		if s := e.everywhere; s != nil {
			e.enterScope(n, s)
		}
	}
	return n
}

// dropNamespace forgets an unknown namespace that nothing uses.
func (e *Engine) dropNamespace(n *namespace) {
	if n.known || n.uses > 0 {
		return
	}
	for s := range n.scopes {
		delete(s.namespaces, n)
	}
	delete(e.namespaces, n.name)
	if e.recent == n {
		e.recent = nil
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
func (n *namespace) insert(c *cell, from *slabs) {
	index := &n.of(c.kind, from).cells
	index.insert(c)
	switch {
	case n.byKey != nil:
		n.byKey[cellKey{c.kind, c.labels}] = c
	case index.items != nil:
		n.byKey = make(map[cellKey]*cell, 2*smallIndex)
		for kind := range n.kinds {
			n.eachCell(EntityKind(kind), nil, func(c *cell) { n.byKey[cellKey{c.kind, c.labels}] = c })
		}
	}
}

// cellFor returns the cell for entities of the kind and labels, attaching a new one to the
// selections that match. It takes over one reference to the label set.
func (e *Engine) cellFor(n *namespace, kind EntityKind, labels *labelSet) *cell {
	if c := n.find(cellKey{kind, labels}); c != nil {
		e.labels.release(labels) // the cell holds one already
		return c
	}
	c := one(&e.slabs, &e.slabs.cells)
	c.ns, c.kind, c.labels = n, kind, labels
	n.insert(c, &e.slabs)
	n.uses++
	attach := func(s *selection) { e.attach(s, c) }
	n.of(kind, &e.slabs).pinned.each(labels, attach)
	for s := range n.scopes {
		s.selections[kind].each(labels, attach)
	}
	return c
}

// dropCell forgets an empty cell.
func (e *Engine) dropCell(c *cell) {
	// Leaf selections only: a union leaves when its last child does.
	for i := len(c.selectedBy) - 1; i >= 0; i-- {
		if i < len(c.selectedBy) && !c.selectedBy[i].selection.isUnion() {
			e.detach(c.selectedBy[i].selection, c)
		}
	}
	n := c.ns
	n.kinds[c.kind].cells.remove(c)
	delete(n.byKey, cellKey{c.kind, c.labels})
	e.labels.release(c.labels)
	n.uses--
	e.dropNamespace(n)
}

// enter puts a live entity into a cell; leave takes it out, and forgets the cell if that was the
// last.
func (e *Engine) enter(x *entity, c *cell) {
	x.cell, x.at = c, int32(len(c.entities))
	if c.entities == nil {
		c.entities = roomFor(&e.slabs, &e.slabs.entityLists, 2)
	}
	c.entities = append(c.entities, x)
}

func (e *Engine) leave(x *entity) {
	c := x.cell
	last := len(c.entities) - 1
	c.entities[x.at] = c.entities[last]
	c.entities[x.at].at = x.at
	c.entities[last] = nil
	c.entities = c.entities[:last]
	x.cell = nil
	if last == 0 {
		e.dropCell(c)
	}
}
