package world

import (
	"bytes"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/selectors"
	"github.com/nephele-io/nephele/internal/policy/slab"
	"github.com/nephele-io/nephele/internal/table"
)

// scope is a set of Namespaces chosen by their labels, shared by all selections with that
// namespaceSelector. A nil selector, and an empty one, choose every Namespace, also unknown ones.
type scope struct {
	sel        *selectors.Selector
	namespaces map[*Namespace]struct{}
	selections [policy.KindRemote + 1]selectors.SelectorIndex[*Selection]
	uses       int
}

func (s *scope) LabelSelector() *selectors.Selector { return s.sel }

// Selection is a set of entities, kept as a set of cells: what one selector selects, or the union
// of other selections.
type Selection struct {
	// nothing marks the selection without any selector, which is empty.
	nothing bool
	scoped  bool // has a namespaceSelector
	kind    policy.EntityKind
	uses    int32
	sel     *selectors.Selector // nil: all entities of the kind
	// Either pinned or in is set, unless nothing.
	pinned *Namespace
	in     *scope
	Cells  []selectionLink
	// Own are the followers that are found by the selection itself: a group for each role.
	Own [2]Follower
	// ties is nil for most.
	ties *ties
}

// Follower receives what comes to a selection and goes from it.
type Follower interface {
	// CellComes means that a cell comes to the selection, CellGoes that it leaves it.
	CellComes(c *Cell)
	CellGoes(c *Cell)
	// EntityChanges means that an entity in a cell of the selection comes, goes or changes, and its
	// value in groups of the role until then. The follower may be for groups of another role.
	EntityChanges(x *Entity, role policy.GroupRole, was *policy.Member)
}

// ties are what selections have to do with groups that are made from objects.
type ties struct {
	// children make this a union; parents are the unions over this.
	children []*Selection
	parents  []*Selection
	// counts says in how many children each cell of a union is.
	counts map[*Cell]int
	// followers are those other than own.
	followers []Follower
}

// tie returns the ties, to add to them.
func (s *Selection) tie() *ties {
	if s.ties == nil {
		s.ties = &ties{}
	}
	return s.ties
}

// Hold counts one more use.
func (s *Selection) Hold() { s.uses++ }

// Follow adds a follower other than own.
func (s *Selection) Follow(f Follower) {
	t := s.tie()
	t.followers = append(t.followers, f)
}

// Unfollow removes a follower.
func (s *Selection) Unfollow(f Follower) {
	for role := range s.Own {
		if s.Own[role] == f {
			s.Own[role] = nil
			return
		}
	}
	if s.ties != nil {
		s.ties.followers = table.Without(s.ties.followers, f)
	}
}

// EachFollower calls f for the followers.
func (s *Selection) EachFollower(f func(Follower)) {
	for _, g := range s.Own {
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
func (s *Selection) notify(x *Entity, role policy.GroupRole, was *policy.Member) {
	if g := s.Own[role]; g != nil {
		g.EntityChanges(x, role, was)
	}
	if s.ties != nil {
		for _, g := range s.ties.followers {
			g.EntityChanges(x, role, was)
		}
	}
}

func (s *Selection) isUnion() bool { return s.ties != nil && s.ties.counts != nil }

// above returns the unions over the selection.
func (s *Selection) above() []*Selection {
	if s.ties == nil {
		return nil
	}
	return s.ties.parents
}

func (s *Selection) LabelSelector() *selectors.Selector { return s.sel }

// Terms returns what the selection was made from, as far as that counts.
func (s *Selection) Terms() (t selectors.Terms) {
	switch s.kind {
	case policy.KindExternalEntity:
		t.External = s.sel
	case policy.KindNode:
		t.Node = s.sel
	case policy.KindRemote:
		t.Remote = s.sel
	default:
		t.Pod = s.sel
	}
	switch {
	case s.scoped && s.in.sel != nil:
		t.Namespaces = s.in.sel
	case s.scoped:
		t.Namespaces = &anyNamespace
	case s.pinned != nil:
		t.Namespace = s.pinned.Name
	}
	return t
}

// anyNamespace selects every Namespace.
var anyNamespace selectors.Selector

// selectionTable finds selections by their normalized text. Unions are not in it.
type selectionTable struct {
	table.Table[Selection]
	text, other []byte
}

// find returns the selection with these terms, nil if there is none, and the hash of its text.
func (x *selectionTable) find(t *selectors.Terms) (s *Selection, hash uint32) {
	x.text = t.AppendNormalized(x.text[:0])
	hash = x.HashBytes(x.text)
	return x.Find(hash, func(s *Selection) bool {
		made := s.Terms()
		if made == *t {
			return true
		}
		x.other = made.AppendNormalized(x.other[:0])
		return bytes.Equal(x.text, x.other)
	}), hash
}

// remove takes a selection out.
func (x *selectionTable) remove(s *Selection) {
	made := s.Terms()
	x.text = made.AppendNormalized(x.text[:0])
	x.Remove(x.HashBytes(x.text), s)
}

// AcquireSelection returns the one selection with these terms and counts a use of it.
func (w *World) AcquireSelection(t *selectors.Terms) *Selection {
	s, hash := w.Selections.find(t)
	if s != nil {
		s.uses++
		return s
	}
	s = slab.One(w.slabs.arena, &w.slabs.selections)
	s.uses, s.scoped = 1, t.Namespaces != nil
	w.Selections.Insert(hash, s)
	switch {
	case t.External != nil:
		s.kind, s.sel = policy.KindExternalEntity, t.External
	case t.Node != nil:
		s.kind, s.sel = policy.KindNode, t.Node
	case t.Remote != nil:
		s.kind, s.sel = policy.KindRemote, t.Remote
	default:
		s.kind, s.sel = policy.KindPod, t.Pod
	}
	switch {
	case s.kind == policy.KindNode || s.kind == policy.KindRemote:
		s.pinned = w.namespaceNamed("")
	case t.Namespaces != nil:
		s.in = w.acquireScope(t.Namespaces)
	case t.Namespace != "":
		s.pinned = w.namespaceNamed(t.Namespace)
	case s.sel != nil:
		s.in = w.acquireScope(nil)
	default:
		s.nothing = true
		return s
	}
	attach := func(c *Cell) { w.attach(s, c) }
	if s.pinned != nil {
		s.pinned.uses++
		s.pinned.of(s.kind, &w.slabs).pinned.Insert(s)
		s.pinned.eachCell(s.kind, s.sel, attach)
		return s
	}
	s.in.selections[s.kind].Insert(s)
	for n := range s.in.namespaces {
		n.eachCell(s.kind, s.sel, attach)
	}
	return s
}

// AcquireUnion returns a new selection of everything in the children, over whose uses it takes.
func (w *World) AcquireUnion(children []*Selection) *Selection {
	u := &Selection{uses: 1, ties: &ties{children: children, counts: make(map[*Cell]int)}}
	for _, child := range children {
		t := child.tie()
		t.parents = append(t.parents, u)
		for _, link := range child.Cells {
			w.attach(u, link.Cell)
		}
	}
	return u
}

// ReleaseSelection gives up a use.
func (w *World) ReleaseSelection(s *Selection) {
	if s.uses--; s.uses > 0 {
		return
	}
	for len(s.Cells) > 0 {
		c := s.Cells[len(s.Cells)-1].Cell
		if s.isUnion() {
			s.ties.counts[c] = 1
		}
		w.detach(s, c)
	}
	if s.isUnion() {
		for _, child := range s.ties.children {
			child.ties.parents = table.Without(child.ties.parents, s)
			w.ReleaseSelection(child)
		}
		return
	}
	w.Selections.remove(s)
	switch {
	case s.pinned != nil:
		s.pinned.kinds[s.kind].pinned.Remove(s)
		s.pinned.uses--
		w.dropNamespace(s.pinned)
	case s.in != nil:
		s.in.selections[s.kind].Remove(s)
		w.releaseScope(s.in)
	}
}

// attach puts a cell into a selection and the unions over it.
func (w *World) attach(s *Selection, c *Cell) {
	if s.isUnion() {
		s.ties.counts[c]++
		if s.ties.counts[c] > 1 {
			return
		}
	}
	s.EachFollower(func(f Follower) { f.CellComes(c) })
	if s.Cells == nil {
		s.Cells = slab.Room(w.slabs.arena, &w.slabs.selectionLinks, 2)
	}
	if c.SelectedBy == nil {
		c.SelectedBy = slab.Room(w.slabs.arena, &w.slabs.cellLinks, 2)
	}
	s.Cells = append(s.Cells, selectionLink{c, len(c.SelectedBy)})
	c.SelectedBy = append(c.SelectedBy, cellLink{s, len(s.Cells) - 1})
	for _, p := range s.above() {
		w.attach(p, c)
	}
}

// detach takes a cell out of a selection and the unions over it.
func (w *World) detach(s *Selection, c *Cell) {
	if s.isUnion() {
		s.ties.counts[c]--
		if s.ties.counts[c] > 0 {
			return
		}
		delete(s.ties.counts, c)
	}
	s.EachFollower(func(f Follower) { f.CellGoes(c) })
	s.unlink(c)
	for _, p := range s.above() {
		w.detach(p, c)
	}
}

// unlink removes the link between the selection and one of its cells.
func (s *Selection) unlink(c *Cell) {
	i := 0
	// The shorter list finds the link.
	if len(s.Cells) <= len(c.SelectedBy) {
		for s.Cells[i].Cell != c {
			i++
		}
	} else {
		j := 0
		for c.SelectedBy[j].Selection != s {
			j++
		}
		i = c.SelectedBy[j].at
	}
	j := s.Cells[i].at
	last := len(s.Cells) - 1
	moved := s.Cells[last]
	s.Cells[i] = moved
	moved.Cell.SelectedBy[moved.at].at = i
	s.Cells[last] = selectionLink{}
	s.Cells = s.Cells[:last]

	end := len(c.SelectedBy) - 1
	other := c.SelectedBy[end]
	c.SelectedBy[j] = other
	if other.Selection != s {
		other.Selection.Cells[other.at].at = j
	}
	c.SelectedBy[end] = cellLink{}
	c.SelectedBy = c.SelectedBy[:end]
}

// Contains reports whether the selection contains the cell.
func (s *Selection) Contains(c *Cell) bool {
	if c == nil {
		return false
	}
	if len(s.Cells) <= len(c.SelectedBy) {
		for i := range s.Cells {
			if s.Cells[i].Cell == c {
				return true
			}
		}
		return false
	}
	for i := range c.SelectedBy {
		if c.SelectedBy[i].Selection == s {
			return true
		}
	}
	return false
}

// acquireScope returns the scope of a namespaceSelector.
func (w *World) acquireScope(sel *selectors.Selector) *scope {
	all := sel == nil || sel.Everything()
	if all && w.everywhere != nil {
		w.everywhere.uses++
		return w.everywhere
	}
	if !all {
		if s := w.scopes[sel.Text]; s != nil {
			s.uses++
			return s
		}
	}
	s := &scope{uses: 1, namespaces: make(map[*Namespace]struct{})}
	if all {
		w.everywhere = s
		for _, n := range w.namespaces {
			w.enterScope(n, s)
		}
		return s
	}
	s.sel = sel
	w.scopes[sel.Text] = s
	w.scopeIndex.Insert(s)
	w.known.Each(sel, func(n *Namespace) { w.enterScope(n, s) })
	return s
}

func (w *World) releaseScope(s *scope) {
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
	w.scopeIndex.Remove(s)
	delete(w.scopes, s.sel.Text)
}

// enterScope makes the Namespace's cells available to the scope's selections; exitScope takes them
// away.
func (w *World) enterScope(n *Namespace, s *scope) {
	if n.scopes == nil {
		n.scopes = make(map[*scope]struct{}, 1)
	}
	n.scopes[s] = struct{}{}
	s.namespaces[n] = struct{}{}
	for kind := range s.selections {
		s.selections[kind].All(func(sel *Selection) {
			n.eachCell(policy.EntityKind(kind), sel.sel, func(c *Cell) { w.attach(sel, c) })
		})
	}
}

func (w *World) exitScope(n *Namespace, s *scope) {
	delete(n.scopes, s)
	delete(s.namespaces, n)
	for kind := range s.selections {
		s.selections[kind].All(func(sel *Selection) {
			n.eachCell(policy.EntityKind(kind), sel.sel, func(c *Cell) { w.detach(sel, c) })
		})
	}
}

// Confine adds the Namespaces that a selection is confined to, and reports whether it is to any.
func (s *Selection) Confine(into *[]string) bool {
	switch {
	case s.isUnion():
		for _, child := range s.ties.children {
			if !child.Confine(into) {
				return false
			}
		}
	case s.nothing:
	case s.pinned != nil:
		*into = append(*into, s.pinned.Name)
	default:
		named := s.in.sel.ValuesOf(namespaceNameLabel)
		*into = append(*into, named...)
		return named != nil
	}
	return true
}

// namespaceNameLabel is the label that every Namespace has with its name.
const namespaceNameLabel = "kubernetes.io/metadata.name"

// EachCell calls f once for every cell that a selection with these terms contains.
func (w *World) EachCell(t *selectors.Terms, f func(*Cell)) {
	if s, _ := w.Selections.find(t); s != nil {
		for _, link := range s.Cells {
			f(link.Cell)
		}
		return
	}
	kind, sel := t.Target()
	in := func(n *Namespace) {
		if n != nil {
			n.eachCell(kind, sel, f)
		}
	}
	switch {
	case kind == policy.KindNode || kind == policy.KindRemote:
		in(w.namespaces[""])
	case t.Namespaces != nil && !t.Namespaces.Everything():
		w.known.Each(t.Namespaces, in)
	case t.Namespaces == nil && t.Namespace != "":
		in(w.namespaces[t.Namespace])
	case t.Namespaces != nil || sel != nil:
		for _, n := range w.namespaces {
			in(n)
		}
	}
}

// Selects reports whether a selection with these terms contains the cell.
func Selects(t *selectors.Terms, c *Cell) bool {
	kind, sel := t.Target()
	if c.kind != kind || sel != nil && !sel.Matches(c.Labels) {
		return false
	}
	switch {
	case kind == policy.KindNode || kind == policy.KindRemote:
		return true
	case t.Namespaces != nil:
		return t.Namespaces.Everything() || c.Namespace.known && t.Namespaces.Matches(c.Namespace.Labels)
	case t.Namespace != "":
		return c.Namespace.Name == t.Namespace
	}
	return sel != nil
}
