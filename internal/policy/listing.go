package policy

import (
	"slices"
	"strings"
)

// Listing returns everything computed. It must be called right after Commit: changes made since may
// show in part. Its cost is the size of the result.
func (e *Engine) Listing() *Listing {
	l := &Listing{
		AddressGroups:   e.listGroups(AddressGroup),
		AppliedToGroups: e.listGroups(AppliedToGroup),
	}
	for p := range e.policies.All() {
		if p.out != nil {
			l.Policies = append(l.Policies, PolicySpan{p.out, e.hostTable.keys(p.reach.hostSpan())})
		}
	}
	slices.SortFunc(l.Policies, func(a, b PolicySpan) int { return strings.Compare(a.Source.UID, b.Source.UID) })
	return l
}

// referred returns the Namespaces of the Services that a group is made of, whether or not there are
// any of these names.
func (d *groupDef) referred() []string {
	var out []string
	for _, of := range append([]*groupDef{d}, d.children...) {
		if of.in != nil && of.in.ServiceReference != nil {
			out = append(out, of.in.ServiceReference.Namespace)
		}
	}
	return out
}

// within returns the Namespaces that a group is confined to, with those that it refers to; nil if
// it is to none.
func (g *group) within(referred []string) []string {
	out := append([]string{}, referred...)
	if g.selection != nil && !g.selection.confine(&out) {
		return nil
	}
	slices.Sort(out)
	return slices.Compact(out)
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

// valuesOf returns the values that a selector demands of a label; nil if it lets any other.
func (s *selector) valuesOf(key string) []string {
	if s == nil {
		return nil
	}
	for i := range s.reqs {
		if r := &s.reqs[i]; r.key == key && (r.op == opEquals || r.op == opIn) {
			return r.values
		}
	}
	return nil
}

func (e *Engine) listGroups(role GroupRole) []ComputedGroup {
	out := make([]ComputedGroup, 0, e.groupCount[role])
	list := func(g *group, referred ...string) {
		if g != nil && g.role == role && !g.gone {
			out = append(out, ComputedGroup{Role: role, Name: g.name, UID: g.uidOf(), Members: g.members(), Span: e.hostTable.keys(g.hostSpan()), Within: g.within(referred)})
		}
	}
	for s := range e.selections.All() {
		list(s.own[role])
	}
	for _, d := range e.groupDefs {
		list(d.computed[role], d.referred()...)
	}
	for _, g := range e.serviceGroups {
		list(g)
	}
	slices.SortFunc(out, func(a, b ComputedGroup) int { return strings.Compare(a.Name, b.Name) })
	return out
}
