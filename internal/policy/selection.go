package policy

import (
	"bytes"

	"github.com/nephele-io/nephele/internal/table"
)

// scope is a set of Namespaces chosen by their labels, shared by all selections with that
// namespaceSelector. A nil selector, and an empty one, choose every Namespace, also unknown ones.
type scope struct {
	sel        *selector
	namespaces map[*namespace]struct{}
	selections [KindRemote + 1]selectorIndex[*selection]
	uses       int
}

func (s *scope) LabelSelector() *selector { return s.sel }

// selection is a set of entities, kept as a set of cells: what one selector selects, or the union
// of other selections.
type selection struct {
	// nothing marks the selection without any selector, which is empty.
	nothing bool
	scoped  bool // has a namespaceSelector
	kind    EntityKind
	uses    int32
	sel     *selector // nil: all entities of the kind
	// Either pinned or in is set, unless nothing.
	pinned *namespace
	in     *scope
	cells  []selectionLink
	// own are the followers that are found by the selection itself: a group for each role.
	own [2]follower
	// ties is nil for most.
	ties *ties
}

// follower receives what comes to a selection and goes from it.
type follower interface {
	// CellComes means that a cell comes to the selection, CellGoes that it leaves it.
	CellComes(c *cell)
	CellGoes(c *cell)
	// EntityChanges means that an entity in a cell of the selection comes, goes or changes, and its
	// value in groups of the role until then. The follower may be for groups of another role.
	EntityChanges(x *entity, role GroupRole, was *Member)
}

// ties are what selections have to do with groups that are made from objects.
type ties struct {
	// children make this a union; parents are the unions over this.
	children []*selection
	parents  []*selection
	// counts says in how many children each cell of a union is.
	counts map[*cell]int
	// followers are those other than own.
	followers []follower
}

// tie returns the ties, to add to them.
func (s *selection) tie() *ties {
	if s.ties == nil {
		s.ties = &ties{}
	}
	return s.ties
}

// follow adds a follower other than own.
func (s *selection) follow(f follower) {
	t := s.tie()
	t.followers = append(t.followers, f)
}

// unfollow removes a follower.
func (s *selection) unfollow(f follower) {
	for role := range s.own {
		if s.own[role] == f {
			s.own[role] = nil
			return
		}
	}
	if s.ties != nil {
		s.ties.followers = table.Without(s.ties.followers, f)
	}
}

// eachFollower calls f for the followers.
func (s *selection) eachFollower(f func(follower)) {
	for _, g := range s.own {
		if g != nil {
			f(g)
		}
	}
	if s.ties != nil {
		for _, g := range s.ties.followers {
			f(g)
		}
	}
}

// notify gives the followers the change of an entity in the selection.
func (s *selection) notify(x *entity, role GroupRole, was *Member) {
	if g := s.own[role]; g != nil {
		g.EntityChanges(x, role, was)
	}
	if s.ties != nil {
		for _, g := range s.ties.followers {
			g.EntityChanges(x, role, was)
		}
	}
}

func (s *selection) isUnion() bool { return s.ties != nil && s.ties.counts != nil }

// above returns the unions over the selection.
func (s *selection) above() []*selection {
	if s.ties == nil {
		return nil
	}
	return s.ties.parents
}

func (s *selection) LabelSelector() *selector { return s.sel }

// terms returns what the selection was made from, as far as that counts.
func (s *selection) terms() (t terms) {
	switch s.kind {
	case KindExternalEntity:
		t.external = s.sel
	case KindNode:
		t.node = s.sel
	case KindRemote:
		t.remote = s.sel
	default:
		t.pod = s.sel
	}
	switch {
	case s.scoped && s.in.sel != nil:
		t.namespaces = s.in.sel
	case s.scoped:
		t.namespaces = &anyNamespace
	case s.pinned != nil:
		t.namespace = s.pinned.name
	}
	return t
}

// anyNamespace selects every Namespace.
var anyNamespace selector

// selectionTable finds selections by their normalized text. Unions are not in it.
type selectionTable struct {
	table.Table[selection]
	text, other []byte
}

// find returns the selection with these terms, nil if there is none, and the hash of its text.
func (x *selectionTable) find(t *terms) (s *selection, hash uint32) {
	x.text = t.appendNormalized(x.text[:0])
	hash = x.HashBytes(x.text)
	return x.Find(hash, func(s *selection) bool {
		made := s.terms()
		if made == *t {
			return true
		}
		x.other = made.appendNormalized(x.other[:0])
		return bytes.Equal(x.text, x.other)
	}), hash
}

// remove takes a selection out.
func (x *selectionTable) remove(s *selection) {
	made := s.terms()
	x.text = made.appendNormalized(x.text[:0])
	x.Remove(x.HashBytes(x.text), s)
}

// acquireSelection returns the one selection with these terms and counts a use of it.
func (w *world) acquireSelection(t *terms) *selection {
	s, hash := w.selections.find(t)
	if s != nil {
		s.uses++
		return s
	}
	s = one(w.slabs.arena, &w.slabs.selections)
	s.uses, s.scoped = 1, t.namespaces != nil
	w.selections.Insert(hash, s)
	switch {
	case t.external != nil:
		s.kind, s.sel = KindExternalEntity, t.external
	case t.node != nil:
		s.kind, s.sel = KindNode, t.node
	case t.remote != nil:
		s.kind, s.sel = KindRemote, t.remote
	default:
		s.kind, s.sel = KindPod, t.pod
	}
	switch {
	case s.kind == KindNode || s.kind == KindRemote:
		s.pinned = w.namespaceNamed("")
	case t.namespaces != nil:
		s.in = w.acquireScope(t.namespaces)
	case t.namespace != "":
		s.pinned = w.namespaceNamed(t.namespace)
	case s.sel != nil:
		s.in = w.acquireScope(nil)
	default:
		s.nothing = true
		return s
	}
	attach := func(c *cell) { w.attach(s, c) }
	if s.pinned != nil {
		s.pinned.uses++
		s.pinned.of(s.kind, &w.slabs).pinned.insert(s)
		s.pinned.eachCell(s.kind, s.sel, attach)
		return s
	}
	s.in.selections[s.kind].insert(s)
	for n := range s.in.namespaces {
		n.eachCell(s.kind, s.sel, attach)
	}
	return s
}

// acquireUnion returns a new selection of everything in the children, over whose uses it takes.
func (w *world) acquireUnion(children []*selection) *selection {
	u := &selection{uses: 1, ties: &ties{children: children, counts: make(map[*cell]int)}}
	for _, child := range children {
		t := child.tie()
		t.parents = append(t.parents, u)
		for _, link := range child.cells {
			w.attach(u, link.cell)
		}
	}
	return u
}

// releaseSelection gives up a use.
func (w *world) releaseSelection(s *selection) {
	if s.uses--; s.uses > 0 {
		return
	}
	for len(s.cells) > 0 {
		c := s.cells[len(s.cells)-1].cell
		if s.isUnion() {
			s.ties.counts[c] = 1
		}
		w.detach(s, c)
	}
	if s.isUnion() {
		for _, child := range s.ties.children {
			child.ties.parents = table.Without(child.ties.parents, s)
			w.releaseSelection(child)
		}
		return
	}
	w.selections.remove(s)
	switch {
	case s.pinned != nil:
		s.pinned.kinds[s.kind].pinned.remove(s)
		s.pinned.uses--
		w.dropNamespace(s.pinned)
	case s.in != nil:
		s.in.selections[s.kind].remove(s)
		w.releaseScope(s.in)
	}
}

// attach puts a cell into a selection and the unions over it.
func (w *world) attach(s *selection, c *cell) {
	if s.isUnion() {
		s.ties.counts[c]++
		if s.ties.counts[c] > 1 {
			return
		}
	}
	s.eachFollower(func(f follower) { f.CellComes(c) })
	if s.cells == nil {
		s.cells = roomFor(w.slabs.arena, &w.slabs.selectionLinks, 2)
	}
	if c.selectedBy == nil {
		c.selectedBy = roomFor(w.slabs.arena, &w.slabs.cellLinks, 2)
	}
	s.cells = append(s.cells, selectionLink{c, len(c.selectedBy)})
	c.selectedBy = append(c.selectedBy, cellLink{s, len(s.cells) - 1})
	for _, p := range s.above() {
		w.attach(p, c)
	}
}

// detach takes a cell out of a selection and the unions over it.
func (w *world) detach(s *selection, c *cell) {
	if s.isUnion() {
		s.ties.counts[c]--
		if s.ties.counts[c] > 0 {
			return
		}
		delete(s.ties.counts, c)
	}
	s.eachFollower(func(f follower) { f.CellGoes(c) })
	s.unlink(c)
	for _, p := range s.above() {
		w.detach(p, c)
	}
}

// unlink removes the link between the selection and one of its cells.
func (s *selection) unlink(c *cell) {
	i := 0
	// The shorter list finds the link.
	if len(s.cells) <= len(c.selectedBy) {
		for s.cells[i].cell != c {
			i++
		}
	} else {
		j := 0
		for c.selectedBy[j].selection != s {
			j++
		}
		i = c.selectedBy[j].at
	}
	j := s.cells[i].at
	last := len(s.cells) - 1
	moved := s.cells[last]
	s.cells[i] = moved
	moved.cell.selectedBy[moved.at].at = i
	s.cells[last] = selectionLink{}
	s.cells = s.cells[:last]

	end := len(c.selectedBy) - 1
	other := c.selectedBy[end]
	c.selectedBy[j] = other
	if other.selection != s {
		other.selection.cells[other.at].at = j
	}
	c.selectedBy[end] = cellLink{}
	c.selectedBy = c.selectedBy[:end]
}

// contains reports whether the selection contains the cell.
func (s *selection) contains(c *cell) bool {
	if c == nil {
		return false
	}
	if len(s.cells) <= len(c.selectedBy) {
		for i := range s.cells {
			if s.cells[i].cell == c {
				return true
			}
		}
		return false
	}
	for i := range c.selectedBy {
		if c.selectedBy[i].selection == s {
			return true
		}
	}
	return false
}

// acquireScope returns the scope of a namespaceSelector.
func (w *world) acquireScope(sel *selector) *scope {
	all := sel == nil || sel.everything()
	if all && w.everywhere != nil {
		w.everywhere.uses++
		return w.everywhere
	}
	if !all {
		if s := w.scopes[sel.text]; s != nil {
			s.uses++
			return s
		}
	}
	s := &scope{uses: 1, namespaces: make(map[*namespace]struct{})}
	if all {
		w.everywhere = s
		for _, n := range w.namespaces {
			w.enterScope(n, s)
		}
		return s
	}
	s.sel = sel
	w.scopes[sel.text] = s
	w.scopeIndex.insert(s)
	w.known.each(sel, func(n *namespace) { w.enterScope(n, s) })
	return s
}

func (w *world) releaseScope(s *scope) {
	if s.uses--; s.uses > 0 {
		return
	}
	for n := range s.namespaces {
		delete(n.scopes, s)
	}
	if s == w.everywhere {
		w.everywhere = nil
		return
	}
	w.scopeIndex.remove(s)
	delete(w.scopes, s.sel.text)
}

// enterScope makes the Namespace's cells available to the scope's selections; exitScope takes them
// away.
func (w *world) enterScope(n *namespace, s *scope) {
	if n.scopes == nil {
		n.scopes = make(map[*scope]struct{}, 1)
	}
	n.scopes[s] = struct{}{}
	s.namespaces[n] = struct{}{}
	for kind := range s.selections {
		s.selections[kind].all(func(sel *selection) {
			n.eachCell(EntityKind(kind), sel.sel, func(c *cell) { w.attach(sel, c) })
		})
	}
}

func (w *world) exitScope(n *namespace, s *scope) {
	delete(n.scopes, s)
	delete(s.namespaces, n)
	for kind := range s.selections {
		s.selections[kind].all(func(sel *selection) {
			n.eachCell(EntityKind(kind), sel.sel, func(c *cell) { w.detach(sel, c) })
		})
	}
}

// confine adds the Namespaces that a selection is confined to, and reports whether it is to any.
func (s *selection) confine(into *[]string) bool {
	switch {
	case s.isUnion():
		for _, child := range s.ties.children {
			if !child.confine(into) {
				return false
			}
		}
	case s.nothing:
	case s.pinned != nil:
		*into = append(*into, s.pinned.name)
	default:
		named := s.in.sel.valuesOf(namespaceNameLabel)
		*into = append(*into, named...)
		return named != nil
	}
	return true
}

// namespaceNameLabel is the label that every Namespace has with its name.
const namespaceNameLabel = "kubernetes.io/metadata.name"

// eachCell calls f once for every cell that a selection with these terms contains.
func (w *world) eachCell(t *terms, f func(*cell)) {
	if s, _ := w.selections.find(t); s != nil {
		for _, link := range s.cells {
			f(link.cell)
		}
		return
	}
	kind, sel := t.target()
	in := func(n *namespace) {
		if n != nil {
			n.eachCell(kind, sel, f)
		}
	}
	switch {
	case kind == KindNode || kind == KindRemote:
		in(w.namespaces[""])
	case t.namespaces != nil && !t.namespaces.everything():
		w.known.each(t.namespaces, in)
	case t.namespaces == nil && t.namespace != "":
		in(w.namespaces[t.namespace])
	case t.namespaces != nil || sel != nil:
		for _, n := range w.namespaces {
			in(n)
		}
	}
}

// selects reports whether a selection with these terms contains the cell.
func (t *terms) selects(c *cell) bool {
	kind, sel := t.target()
	if c.kind != kind || sel != nil && !sel.matches(c.labels) {
		return false
	}
	switch {
	case kind == KindNode || kind == KindRemote:
		return true
	case t.namespaces != nil:
		return t.namespaces.everything() || c.ns.known && t.namespaces.matches(c.ns.labels)
	case t.namespace != "":
		return c.ns.name == t.namespace
	}
	return sel != nil
}
