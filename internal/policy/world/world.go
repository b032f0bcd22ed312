package world

import (
	"net/netip"
	"slices"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/selectors"
	"github.com/nephele-io/nephele/internal/policy/slab"
	"github.com/nephele-io/nephele/internal/policy/span"
	"github.com/nephele-io/nephele/internal/table"
)

// World is what is given of Namespaces and entities, and what selectors choose of it. What comes
// and goes it passes to the followers of the selections that are concerned.
type World struct {
	slabs worldSlabs
	hosts *span.Hosts

	labels     selectors.Sets
	namespaces map[string]*Namespace
	recent     *Namespace // the one that was looked for last
	known      selectors.LabelIndex[*Namespace]
	everywhere *scope
	scopes     map[string]*scope
	scopeIndex selectors.SelectorIndex[*scope]
	Selections selectionTable
	Nodes      nodes
	// serials is the number of entities' serial numbers, freeSerials are the numbers among them
	// that are not used.
	serials     uint32
	freeSerials []uint32
	// dead are the entities that went since the last Commit, which forgets them.
	dead []*Entity
}

// newWorld returns an empty world that makes what it makes in the arena, and gives entities their
// hosts.
func New(in *slab.Arena, hosts *span.Hosts) World {
	return World{
		slabs: worldSlabs{arena: in}, hosts: hosts, labels: selectors.NewSets(in),
		namespaces: make(map[string]*Namespace), scopes: make(map[string]*scope),
	}
}

// nodes counts the Nodes by host, and what comes to that with the next Commit.
type nodes struct {
	Hosts  span.Counts
	shifts map[*span.Host]int32
}

// shift has a Node that came (1) or went (-1) taken into account in the next Commit.
func (ns *nodes) shift(h *span.Host, n int32) {
	if ns.shifts == nil {
		ns.shifts = make(map[*span.Host]int32)
	}
	ns.shifts[h] += n
}

// Settle takes what came into account, and calls f for each host that had no Node or has none now.
func (ns *nodes) Settle(f func(h *span.Host, n int32)) {
	for h, n := range ns.shifts {
		if n == 0 {
			continue
		}
		if before, after := ns.Hosts.Add(h.ID, n); before != after {
			f(h, n)
		}
	}
	ns.shifts = nil
}

// worldSlabs are where what the world is made of is made.
type worldSlabs struct {
	arena          *slab.Arena
	namespaces     slab.Slab[Namespace]
	kinds          slab.Slab[kindIndex]
	selections     slab.Slab[Selection]
	cells          slab.Slab[Cell]
	entities       slab.Slab[Entity]
	members        slab.Slab[memberAt]
	entityLists    slab.Slab[*Entity]
	cellLinks      slab.Slab[cellLink]
	selectionLinks slab.Slab[selectionLink]
}

// Namespace is a Namespace, or the place of entities and selections that name one which is not
// (yet) known. The namespace with the empty name holds the Nodes and what is remote.
type Namespace struct {
	Name   string
	known  bool
	Logged bool
	Labels *selectors.Set // nil unless known
	// kinds are indexes by kind of entity, nil until needed: see of.
	kinds [policy.KindRemote + 1]*kindIndex
	// byKey finds cells where there are many; nil while a look at all cells of the kind finds one
	// as fast.
	byKey map[cellKey]*Cell
	// scopes are the scopes that include this Namespace.
	scopes map[*scope]struct{}
	// uses counts the entities, cells and pinned selections that keep an unknown Namespace alive.
	uses int
}

// kindIndex is what a Namespace has of one kind: cells are the distinct label sets of its entities,
// pinned the selections of this Namespace alone.
type kindIndex struct {
	cells    selectors.LabelIndex[*Cell]
	pinned   selectors.SelectorIndex[*Selection]
	entities nameIndex
	// room is where the lists of these begin: most are no longer.
	room struct {
		cells    [2]*Cell
		pinned   [4]*Selection
		entities [4]*Entity
	}
}

// fewNames is the number of entities up to which looking at all of them finds one as fast.
const fewNames = 12

// nameIndex finds entities by name: in a list, or where there are many in a table.
type nameIndex struct {
	list []*Entity
	many *table.Table[Entity]
}

func (x *nameIndex) find(name string) *Entity {
	is := func(it *Entity) bool { return it.Name == name }
	if x.many != nil {
		return x.many.Find(x.many.Hash(name), is)
	}
	if i := slices.IndexFunc(x.list, is); i >= 0 {
		return x.list[i]
	}
	return nil
}

// insert adds an entity whose name is not there.
func (x *nameIndex) insert(it *Entity) {
	if x.many == nil && len(x.list) < fewNames {
		x.list = append(x.list, it)
		return
	}
	if x.many == nil {
		x.many = &table.Table[Entity]{}
		for _, old := range x.list {
			x.many.Insert(x.many.Hash(old.Name), old)
		}
		x.list = nil
	}
	x.many.Insert(x.many.Hash(it.Name), it)
}

func (x *nameIndex) remove(it *Entity) {
	if x.many != nil {
		x.many.Remove(x.many.Hash(it.Name), it)
		return
	}
	x.list = table.Without(x.list, it)
}

// each goes through all until f returns false, and says whether it never did.
func (x *nameIndex) each(f func(*Entity) bool) bool {
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
func (n *Namespace) of(kind policy.EntityKind, from *worldSlabs) *kindIndex {
	if n.kinds[kind] == nil {
		k := slab.One(from.arena, &from.kinds)
		k.cells.BeginIn(k.room.cells[:0])
		k.pinned.BeginIn(k.room.pinned[:0])
		k.entities.list = k.room.entities[:0]
		n.kinds[kind] = k
	}
	return n.kinds[kind]
}

// eachCell calls f for the cells of a kind that the selector matches; a nil one matches all. f must
// not make or drop cells.
func (n *Namespace) eachCell(kind policy.EntityKind, s *selectors.Selector, f func(*Cell)) {
	if k := n.kinds[kind]; k != nil {
		k.cells.Each(s, f)
	}
}

func (n *Namespace) LabelSet() *selectors.Set { return n.Labels }

// cellKey finds a cell in its Namespace.
type cellKey struct {
	kind   policy.EntityKind
	labels *selectors.Set
}

// Cell holds the entities of one kind that have the same labels in one Namespace: no selector can
// tell them apart.
type Cell struct {
	Namespace *Namespace
	kind      policy.EntityKind
	Labels    *selectors.Set
	Entities  []*Entity
	// SelectedBy are the selections that contain the cell.
	SelectedBy []cellLink
}

func (c *Cell) LabelSet() *selectors.Set { return c.Labels }

// cellLink and selectionLink are the two ends of "selection contains cell"; each knows where the
// other is.
type cellLink struct {
	Selection *Selection
	at        int // index in selection.cells
}

type selectionLink struct {
	Cell *Cell
	at   int // index in cell.selectedBy
}

// Entity is the state of one entity. It survives, dead, until the Commit after its deletion.
type Entity struct {
	// Member is the value in groups. It keeps its identity while its content stays the same.
	*policy.Member
	Cell *Cell
	At   *span.Host // that of its key, nil if it is dead or has none
	at   int32      // index in cell.entities
	// excluded marks host-network and terminated Pods.
	Alive, Excluded bool
}

// member returns the entity's value in groups of the role; nil if it cannot be a member.
func (x *Entity) In(role policy.GroupRole) *policy.Member {
	switch {
	case !x.Alive || x.Excluded:
		return nil
	case role == policy.AddressGroup && len(x.IPs) == 0 && x.Kind != policy.KindExternalEntity:
		return nil
	case role == policy.AppliedToGroup && x.Host == "":
		return nil
	}
	return x.Member
}

// roles is the number of roles of groups.
const roles = 2

// members returns the entity's values in groups, by role.
func (x *Entity) members() [roles]*policy.Member {
	return [...]*policy.Member{policy.AddressGroup: x.In(policy.AddressGroup), policy.AppliedToGroup: x.In(policy.AppliedToGroup)}
}

// assign takes over the content of an input.
func (x *Entity) assign(in *policy.Entity, from *worldSlabs) {
	x.Excluded = in.HostNetwork || in.Terminated
	if hostKeyOf(in) != x.Host || !sameAddresses(in.Addresses, x.IPs) || !slices.Equal(normalPorts(in.Ports), x.Ports) {
		in.Namespace = x.Namespace
		x.become(in, x.Serial, from)
	}
}

// become gives the entity, which has its host, a new value. Its Namespace and its host have the one
// text of all others there.
func (x *Entity) become(in *policy.Entity, serial uint32, from *worldSlabs) {
	x.Member = newMember(in, serial, from)
	if x.At != nil {
		x.Host = x.At.Key
	}
}

// memberAt is a member with one address, as most are.
type memberAt struct {
	policy.Member
	ip [1]netip.Addr
}

// newMember makes the member that the entity is, with a copy of its addresses.
func newMember(in *policy.Entity, serial uint32, from *worldSlabs) *policy.Member {
	x := slab.One(from.arena, &from.members)
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
func hostKeyOf(in *policy.Entity) string {
	if in.Kind == policy.KindNode {
		return in.Name
	}
	return in.Host
}

// normalPorts fills in the default protocol.
func normalPorts(in []policy.NamedPort) []policy.NamedPort {
	for i, p := range in {
		if p.Protocol == "" {
			out := slices.Clone(in)
			for j := i; j < len(out); j++ {
				if out[j].Protocol == "" {
					out[j].Protocol = policy.TCP
				}
			}
			return out
		}
	}
	return in
}

// SameIn reports whether two values of one entity say the same in groups of the role.
func SameIn(role policy.GroupRole, a, b *policy.Member) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.Ports, b.Ports) && SameIdentity(role, a, b) && (role == policy.AddressGroup || a.Host == b.Host)
}

// SameIdentity reports whether enforcers take a and b, members of the same group made from the same
// entity, for the same member.
func SameIdentity(role policy.GroupRole, a, b *policy.Member) bool {
	return role == policy.AppliedToGroup || slices.Equal(a.IPs, b.IPs)
}

// Entity returns what is known of an entity, also one that is gone since the last Commit; nil if
// nothing is.
func (w *World) Entity(ref policy.EntityRef) *Entity {
	n := w.recent
	if n == nil || n.Name != ref.Namespace {
		n = w.namespaces[ref.Namespace]
	}
	if n == nil || ref.Kind > policy.KindRemote || n.kinds[ref.Kind] == nil {
		return nil
	}
	return n.kinds[ref.Kind].entities.find(ref.Name)
}

// newEntity makes an entity that is not alive yet.
func (w *World) newEntity(in *policy.Entity) *Entity {
	n := w.namespaceNamed(in.Namespace)
	in.Namespace = n.Name // one text for all of them
	x := slab.One(w.slabs.arena, &w.slabs.entities)
	w.assignHost(x, hostKeyOf(in))
	x.become(in, w.takeSerial(), &w.slabs)
	n.of(in.Kind, &w.slabs).entities.insert(x)
	n.uses++
	return x
}

// takeSerial returns a serial number that no entity has.
func (w *World) takeSerial() uint32 {
	if n := len(w.freeSerials); n > 0 {
		s := w.freeSerials[n-1]
		w.freeSerials = w.freeSerials[:n-1]
		return s
	}
	w.serials++
	return w.serials
}

// forgetEntity forgets an entity that is not alive.
func (w *World) forgetEntity(x *Entity) {
	w.freeSerials = append(w.freeSerials, x.Serial)
	n := w.namespaces[x.Namespace]
	n.kinds[x.Kind].entities.remove(x)
	n.uses--
	w.dropNamespace(n)
}

// namespaceNamed returns the namespace state, making it if there is none.
func (w *World) namespaceNamed(name string) *Namespace {
	if n := w.recent; n != nil && n.Name == name {
		return n
	}
	n := w.namespaces[name]
	w.recent = n
	if n == nil {
		n = slab.One(w.slabs.arena, &w.slabs.namespaces)
		n.Name = name
		w.namespaces[name] = n
		if s := w.everywhere; s != nil {
			w.enterScope(n, s)
		}
	}
	return n
}

// dropNamespace forgets an unknown namespace that nothing uses.
func (w *World) dropNamespace(n *Namespace) {
	if n.known || n.uses > 0 {
		return
	}
	for s := range n.scopes {
		delete(s.namespaces, n)
	}
	delete(w.namespaces, n.Name)
	if w.recent == n {
		w.recent = nil
	}
}

// find returns a cell, or nil if there is none.
func (n *Namespace) find(key cellKey) *Cell {
	if n.byKey != nil {
		return n.byKey[key]
	}
	if k := n.kinds[key.kind]; k != nil {
		for _, c := range k.cells.Few() {
			if c.Labels == key.labels {
				return c
			}
		}
	}
	return nil
}

// insert makes a new cell one of the Namespace.
func (n *Namespace) insert(c *Cell, from *worldSlabs) {
	index := &n.of(c.kind, from).cells
	index.Insert(c)
	switch {
	case n.byKey != nil:
		n.byKey[cellKey{c.kind, c.Labels}] = c
	case index.Large():
		n.byKey = make(map[cellKey]*Cell, 2*fewNames)
		for kind := range n.kinds {
			n.eachCell(policy.EntityKind(kind), nil, func(c *Cell) { n.byKey[cellKey{c.kind, c.Labels}] = c })
		}
	}
}

// cellFor returns the cell for entities of the kind and labels, attaching a new one to the
// selections that match. It takes over one reference to the label set.
func (w *World) cellFor(n *Namespace, kind policy.EntityKind, labels *selectors.Set) *Cell {
	if c := n.find(cellKey{kind, labels}); c != nil {
		w.labels.Release(labels) // the cell holds one already
		return c
	}
	c := slab.One(w.slabs.arena, &w.slabs.cells)
	c.Namespace, c.kind, c.Labels = n, kind, labels
	n.insert(c, &w.slabs)
	n.uses++
	attach := func(s *Selection) { w.attach(s, c) }
	n.of(kind, &w.slabs).pinned.Each(labels, attach)
	for s := range n.scopes {
		s.selections[kind].Each(labels, attach)
	}
	return c
}

// dropCell forgets an empty cell.
func (w *World) dropCell(c *Cell) {
	// Leaf selections only: a union leaves when its last child does.
	for i := len(c.SelectedBy) - 1; i >= 0; i-- {
		if i < len(c.SelectedBy) && !c.SelectedBy[i].Selection.isUnion() {
			w.detach(c.SelectedBy[i].Selection, c)
		}
	}
	n := c.Namespace
	n.kinds[c.kind].cells.Remove(c)
	delete(n.byKey, cellKey{c.kind, c.Labels})
	w.labels.Release(c.Labels)
	n.uses--
	w.dropNamespace(n)
}

// enter puts a live entity into a cell; leave takes it out, and forgets the cell if that was the
// last.
func (w *World) enter(x *Entity, c *Cell) {
	x.Cell, x.at = c, int32(len(c.Entities))
	if c.Entities == nil {
		c.Entities = slab.Room(w.slabs.arena, &w.slabs.entityLists, 2)
	}
	c.Entities = append(c.Entities, x)
}

func (w *World) leave(x *Entity) {
	c := x.Cell
	last := len(c.Entities) - 1
	c.Entities[x.at] = c.Entities[last]
	c.Entities[x.at].at = x.at
	c.Entities[last] = nil
	c.Entities = c.Entities[:last]
	x.Cell = nil
	if last == 0 {
		w.dropCell(c)
	}
}

// Put adds or replaces an entity.
func (w *World) Put(in policy.Entity) {
	x := w.Entity(in.EntityRef)
	if x == nil {
		x = w.newEntity(&in)
	}
	var account selectors.Label
	if in.Kind == policy.KindPod && in.ServiceAccount != "" {
		account = selectors.Label{Key: selectors.ServiceAccountLabel, Value: in.ServiceAccount}
	}
	labels := w.labels.Acquire(in.Labels, account)
	if x.Alive && x.Cell.Labels == labels {
		w.labels.Release(labels)
		w.updateContent(x, &in)
		return
	}
	c := w.cellFor(w.namespaceNamed(in.Namespace), in.Kind, labels)
	if x.Alive {
		w.noteEntity(x, x.Cell)
		w.leave(x)
	} else if in.Kind == policy.KindNode {
		w.Nodes.shift(w.hosts.Use(in.Name), 1)
	}
	w.assignHost(x, hostKeyOf(&in))
	x.assign(&in, &w.slabs)
	x.Alive = true
	w.enter(x, c)
	for _, link := range c.SelectedBy {
		for role := range roles {
			link.Selection.notify(x, policy.GroupRole(role), nil)
		}
	}
}

// updateContent changes what does not concern selectors.
func (w *World) updateContent(x *Entity, in *policy.Entity) {
	was := x.members()
	w.assignHost(x, hostKeyOf(in))
	x.assign(in, &w.slabs)
	var changed [roles]bool
	for role := range changed {
		changed[role] = !SameIn(policy.GroupRole(role), was[role], x.In(policy.GroupRole(role)))
	}
	if !changed[0] && !changed[1] {
		return
	}
	for _, link := range x.Cell.SelectedBy {
		for role := range changed {
			if changed[role] {
				link.Selection.notify(x, policy.GroupRole(role), was[role])
			}
		}
	}
}

// noteEntity records that x may leave or change in all groups that contain its cell.
func (w *World) noteEntity(x *Entity, c *Cell) {
	was := x.members()
	for _, link := range c.SelectedBy {
		for role := range was {
			link.Selection.notify(x, policy.GroupRole(role), was[role])
		}
	}
}

// Drop forgets an entity.
func (w *World) Drop(ref policy.EntityRef) {
	x := w.Entity(ref)
	if x == nil || !x.Alive {
		return
	}
	w.noteEntity(x, x.Cell)
	w.leave(x)
	x.Alive = false
	w.assignHost(x, "")
	if ref.Kind == policy.KindNode {
		h := w.hosts.Named(ref.Name)
		w.Nodes.shift(h, -1)
		w.hosts.Release(h)
	}
	w.dead = append(w.dead, x)
}

// assignHost gives the entity its host and counts the use.
func (w *World) assignHost(x *Entity, key string) {
	former := x.At
	if former != nil && former.Key == key {
		return
	}
	x.At = nil
	if key != "" {
		x.At = w.hosts.Use(key)
	}
	if former != nil {
		w.hosts.Release(former)
	}
}

// relabel gives a Namespace other labels, or with nil makes it unknown, and moves it
// between scopes.
func (w *World) relabel(n *Namespace, labels *selectors.Set) {
	if n.known {
		w.known.Remove(n)
		w.labels.Release(n.Labels)
	}
	n.known, n.Labels = labels != nil, labels
	wanted := make(map[*scope]struct{})
	if labels != nil {
		w.known.Insert(n)
		w.scopeIndex.Each(labels, func(s *scope) { wanted[s] = struct{}{} })
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

// ForgetDead forgets the entities that went before a Commit that is done.
func (w *World) ForgetDead() {
	for _, x := range w.dead {
		// One that went, came and went is here twice.
		if !x.Alive && w.Entity(x.EntityRef) == x {
			w.forgetEntity(x)
		}
	}
	w.dead = slab.Scratch(w.dead)
}

// PutNamespace adds or replaces a Namespace, and reports whether its labels have changed, and
// whether the logging of its Kubernetes NetworkPolicies has.
func (w *World) PutNamespace(in policy.Namespace) (relabelled, logs bool) {
	n := w.namespaceNamed(in.Name)
	labels := w.labels.Acquire(in.Labels, selectors.Label{})
	logs = n.Logged != in.LogNetworkPolicies
	n.Logged = in.LogNetworkPolicies
	if n.known && n.Labels == labels {
		w.labels.Release(labels)
		return false, logs
	}
	w.relabel(n, labels)
	return true, logs
}

// DeleteNamespace forgets a Namespace, and reports whether it was known, and whether its Kubernetes
// NetworkPolicies were logged.
func (w *World) DeleteNamespace(name string) (was, logs bool) {
	n := w.namespaces[name]
	if n == nil || !n.known {
		return false, false
	}
	logs, n.Logged = n.Logged, false
	w.relabel(n, nil)
	w.dropNamespace(n)
	return true, logs
}

// Logs reports whether the Kubernetes NetworkPolicies of a Namespace are logged.
func (w *World) Logs(name string) bool {
	n := w.namespaces[name]
	return n != nil && n.Logged
}

// EachNamespace calls f for every known Namespace that what the terms select may be in.
func (w *World) EachNamespace(t *selectors.Terms, f func(*Namespace)) {
	switch {
	case t.Namespaces != nil:
		w.known.Each(t.Namespaces, f)
	case t.Namespace != "":
		if n := w.namespaces[t.Namespace]; n != nil && n.known {
			f(n)
		}
	default:
		w.known.Each(nil, f)
	}
}

// AllNamespaces goes through the known Namespaces until f returns false, and says whether it never
// did.
func (w *World) AllNamespaces(f func(*Namespace) bool) bool {
	for _, n := range w.namespaces {
		if n.known && !f(n) {
			return false
		}
	}
	return true
}

// Namespace returns a known Namespace; nil if there is none.
func (w *World) Namespace(name string) *Namespace {
	if n := w.namespaces[name]; n != nil && n.known {
		return n
	}
	return nil
}

// AllEntities goes through the entities until f returns false, and says whether it never did.
func (w *World) AllEntities(f func(*Entity) bool) bool {
	for _, n := range w.namespaces {
		for _, index := range n.kinds {
			if index != nil && !index.entities.each(func(x *Entity) bool { return !x.Alive || f(x) }) {
				return false
			}
		}
	}
	return true
}

// LabelSets calls f for each set of labels that entities of a kind have in a Namespace, or with an
// empty name in any, until f returns false.
func (w *World) LabelSets(kind policy.EntityKind, namespaceName string, f func(namespace string, labels *selectors.Set) bool) {
	for name, n := range w.namespaces {
		if namespaceName != "" && name != namespaceName {
			continue
		}
		more := true
		n.eachCell(kind, nil, func(c *Cell) {
			more = more && (len(c.Entities) == 0 || f(name, c.Labels))
		})
		if !more {
			return
		}
	}
}
