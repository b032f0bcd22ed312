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

func (s *scope) selectorOf() *selector { return s.sel }

// selection is a set of entities, kept as a set of cells: what one selector selects, or the union
// of other selections.
type selection struct {
	// nothing marks the selection without any selector, which is empty.
	nothing bool
	// scoped selections have a namespaceSelector; fenced ones have fences in the Engine.
	scoped, fenced bool
	kind           EntityKind
	uses           int32
	sel            *selector // nil: all entities of the kind
	// Either pinned or in is set, unless nothing.
	pinned *namespace
	in     *scope
	cells  []selectionLink
	// own are the computed groups that are named after the selection, by role.
	own [2]*group
	// ties is nil for most.
	ties *ties
}

// ties are what selections have to do with groups that are made from objects.
type ties struct {
	// children make this a union; parents are the unions over this.
	children []*selection
	parents  []*selection
	// counts says in how many children each cell of a union is.
	counts map[*cell]int
	// groups are the computed groups with these members, other than own.
	groups []*group
}

// tie returns the ties, to add to them.
func (s *selection) tie() *ties {
	if s.ties == nil {
		s.ties = &ties{}
	}
	return s.ties
}

func (s *selection) isUnion() bool { return s.ties != nil && s.ties.counts != nil }

// above returns the unions over the selection.
func (s *selection) above() []*selection {
	if s.ties == nil {
		return nil
	}
	return s.ties.parents
}

func (s *selection) selectorOf() *selector { return s.sel }

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
func (e *Engine) acquireSelection(t *terms) *selection {
	s, hash := e.selections.find(t)
	if s != nil {
		s.uses++
		return s
	}
	s = one(&e.slabs, &e.slabs.selections)
	s.uses, s.scoped = 1, t.namespaces != nil
	e.selections.Insert(hash, s)
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
		s.pinned = e.namespaceNamed("")
	case t.namespaces != nil:
		s.in = e.acquireScope(t.namespaces)
	case t.namespace != "":
		s.pinned = e.namespaceNamed(t.namespace)
	case s.sel != nil:
		s.in = e.acquireScope(nil)
	default:
		s.nothing = true
		return s
	}
	attach := func(c *cell) { e.attach(s, c) }
	if s.pinned != nil {
		s.pinned.uses++
		s.pinned.of(s.kind, &e.slabs).pinned.insert(s)
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
func (e *Engine) acquireUnion(children []*selection) *selection {
	u := &selection{uses: 1, ties: &ties{children: children, counts: make(map[*cell]int)}}
	for _, child := range children {
		t := child.tie()
		t.parents = append(t.parents, u)
		for _, link := range child.cells {
			e.attach(u, link.cell)
		}
	}
	return u
}

// releaseSelection gives up a use.
func (e *Engine) releaseSelection(s *selection) {
	if s.uses--; s.uses > 0 {
		return
	}
	for len(s.cells) > 0 {
		c := s.cells[len(s.cells)-1].cell
		if s.isUnion() {
			s.ties.counts[c] = 1
		}
		e.detach(s, c)
	}
	if s.isUnion() {
		for _, child := range s.ties.children {
			child.ties.parents = without(child.ties.parents, s)
			e.releaseSelection(child)
		}
		return
	}
	e.selections.remove(s)
	switch {
	case s.pinned != nil:
		s.pinned.kinds[s.kind].pinned.remove(s)
		s.pinned.uses--
		e.dropNamespace(s.pinned)
	case s.in != nil:
		s.in.selections[s.kind].remove(s)
		e.releaseScope(s.in)
	}
}

// attach puts a cell into a selection and the unions over it.
func (e *Engine) attach(s *selection, c *cell) {
	if s.isUnion() {
		s.ties.counts[c]++
		if s.ties.counts[c] > 1 {
			return
		}
	}
	s.eachGroup(func(g *group) { e.noteCell(g, c, false) })
	if s.cells == nil {
		s.cells = roomFor(&e.slabs, &e.slabs.selectionLinks, 2)
	}
	if c.selectedBy == nil {
		c.selectedBy = roomFor(&e.slabs, &e.slabs.cellLinks, 2)
	}
	s.cells = append(s.cells, selectionLink{c, len(c.selectedBy)})
	c.selectedBy = append(c.selectedBy, cellLink{s, len(s.cells) - 1})
	if s.fenced {
		e.cross(s, c, 1)
	}
	for _, p := range s.above() {
		e.attach(p, c)
	}
}

// detach takes a cell out of a selection and the unions over it.
func (e *Engine) detach(s *selection, c *cell) {
	if s.isUnion() {
		s.ties.counts[c]--
		if s.ties.counts[c] > 0 {
			return
		}
		delete(s.ties.counts, c)
	}
	s.eachGroup(func(g *group) { e.noteCell(g, c, true) })
	s.unlink(c)
	if s.fenced {
		e.cross(s, c, -1)
	}
	for _, p := range s.above() {
		e.detach(p, c)
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
func (e *Engine) acquireScope(sel *selector) *scope {
	all := sel == nil || len(sel.reqs) == 0
	if all && e.everywhere != nil {
		e.everywhere.uses++
		return e.everywhere
	}
	if !all {
		if s := e.scopes[sel.text]; s != nil {
			s.uses++
			return s
		}
	}
	s := &scope{uses: 1, namespaces: make(map[*namespace]struct{})}
	if all {
		e.everywhere = s
		for _, n := range e.namespaces {
			e.enterScope(n, s)
		}
		return s
	}
	s.sel = sel
	e.scopes[sel.text] = s
	e.scopeIndex.insert(s)
	e.knownNamespaces.each(sel, func(n *namespace) { e.enterScope(n, s) })
	return s
}

func (e *Engine) releaseScope(s *scope) {
	if s.uses--; s.uses > 0 {
		return
	}
	for n := range s.namespaces {
		delete(n.scopes, s)
	}
	if s == e.everywhere {
		e.everywhere = nil
		return
	}
	e.scopeIndex.remove(s)
	delete(e.scopes, s.sel.text)
}

// enterScope makes the Namespace's cells available to the scope's selections; exitScope takes them
// away.
func (e *Engine) enterScope(n *namespace, s *scope) {
	if n.scopes == nil {
		n.scopes = make(map[*scope]struct{}, 1)
	}
	n.scopes[s] = struct{}{}
	s.namespaces[n] = struct{}{}
	for kind := range s.selections {
		s.selections[kind].all(func(sel *selection) {
			n.eachCell(EntityKind(kind), sel.sel, func(c *cell) { e.attach(sel, c) })
		})
	}
}

func (e *Engine) exitScope(n *namespace, s *scope) {
	delete(n.scopes, s)
	delete(s.namespaces, n)
	for kind := range s.selections {
		s.selections[kind].all(func(sel *selection) {
			n.eachCell(EntityKind(kind), sel.sel, func(c *cell) { e.detach(sel, c) })
		})
	}
}
