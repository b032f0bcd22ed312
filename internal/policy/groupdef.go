package policy

import (
	"slices"
)

// groupDef is what is known about a Group or ClusterGroup by name: the object, if there is one, and
// its references.
type groupDef struct {
	name NamespacedName
	in   *Group // nil: no such object
	// terms, blocks and errs are the compiled object: its own selector, if it is that kind of
	// group, and its ipBlocks.
	terms  *terms
	blocks []CIDRBlock
	errs   []FieldError
	// children are the defs of childGroups; parents have this one as a child.
	children []*groupDef
	parents  map[*groupDef]struct{}
	policies map[*policyState]struct{}
	// computed are the live groups made from it, by role.
	computed [2]*group
	dirty    bool
}

// usable reports whether the group exists and is valid: otherwise it is treated as if it did not
// exist.
func (d *groupDef) usable() bool { return d.in != nil && len(d.problems()) == 0 }

// problems returns the group's own errors and those of its place among other groups.
func (d *groupDef) problems() []FieldError {
	out := d.errs
	for i, c := range d.children {
		if c.in != nil && len(c.in.ChildGroups) > 0 {
			out = append(slices.Clip(out), FieldError{Field: indexed("spec.childGroups", i), Value: c.name.Name,
				Want: "a group without child groups: groups nest one level only"})
		}
	}
	return out
}

// missing returns warnings about children that do not exist.
func (d *groupDef) missing() []FieldError {
	var out []FieldError
	for i, c := range d.children {
		if c.in == nil {
			out = append(out, FieldError{Field: indexed("spec.childGroups", i), Value: c.name.Name, Want: "an existing group"})
		}
	}
	return out
}

// serviceMissing returns a warning about a serviceReference that selects nothing whatever Pods
// there are.
func (e *Engine) serviceMissing(d *groupDef) []FieldError {
	name := d.in.ServiceReference
	if name == nil || len(d.in.IPBlocks)+len(d.in.ChildGroups) > 0 {
		return nil
	}
	want := "an existing Service"
	if s, ok := e.services[*name]; ok {
		if len(s.Selector) > 0 {
			return nil
		}
		want = "a Service with a selector: which Pods are behind this one is not known"
	}
	return []FieldError{{Field: "spec.serviceReference", Value: name.Namespace + "/" + name.Name, Want: want}}
}

// leaves returns the selections that make up the group.
func (d *groupDef) leaves() []*terms {
	if len(d.children) == 0 {
		if d.terms == nil {
			return nil
		}
		return []*terms{d.terms}
	}
	var out []*terms
	for _, c := range d.children {
		if c.usable() && c.terms != nil {
			out = append(out, c.terms)
		}
	}
	return out
}

// ipBlocks returns the ipBlocks of the group and its children.
func (d *groupDef) ipBlocks() []CIDRBlock {
	if len(d.children) == 0 {
		return d.blocks
	}
	var out []CIDRBlock
	for _, c := range d.children {
		if c.usable() {
			out = append(out, c.blocks...)
		}
	}
	return out
}

// groupDefNamed returns the def, making it if there is none.
func (e *Engine) groupDefNamed(name NamespacedName) *groupDef {
	d := e.groupDefs[name]
	if d == nil {
		d = &groupDef{name: name, parents: make(map[*groupDef]struct{}), policies: make(map[*policyState]struct{})}
		e.groupDefs[name] = d
	}
	return d
}

// dropGroupDef forgets a def without object that nobody refers to.
func (e *Engine) dropGroupDef(d *groupDef) {
	if d.in == nil && len(d.parents) == 0 && len(d.policies) == 0 && !d.dirty && e.groupDefs[d.name] == d {
		delete(e.groupDefs, d.name)
	}
}

// defineGroup replaces the object of a def.
func (e *Engine) defineGroup(d *groupDef, in *Group) {
	e.touchGroupDef(d) // dirty, it is not forgotten meanwhile
	former := d.children
	if d.in != in {
		e.referToService(d, d.in, in)
	}
	d.in, d.terms, d.blocks, d.errs, d.children = in, nil, nil, nil, nil
	if in != nil {
		e.compileGroup(d)
	}
	for _, c := range former {
		if !slices.Contains(d.children, c) {
			delete(c.parents, d)
			e.dropGroupDef(c)
		}
	}
	for _, c := range d.children {
		c.parents[d] = struct{}{}
	}
}

// touchGroupDef puts a def and its parents on the list of defs to bring up to date.
func (e *Engine) touchGroupDef(d *groupDef) {
	if !d.dirty {
		d.dirty = true
		e.dirtyDefs = append(e.dirtyDefs, d)
	}
	for p := range d.parents {
		if !p.dirty {
			p.dirty = true
			e.dirtyDefs = append(e.dirtyDefs, p)
		}
	}
}

// compileGroup fills in the compiled form. Where several parts are given, the first of ipBlocks,
// childGroups, serviceReference, selectors counts.
func (e *Engine) compileGroup(d *groupDef) {
	in, errs := d.in, &errorList{}
	switch {
	case len(in.IPBlocks) > 0:
		for i := range in.IPBlocks {
			d.blocks = append(d.blocks, compileIPBlock(&in.IPBlocks[i], indexed("spec.ipBlocks", i), errs))
		}
	case len(in.ChildGroups) > 0:
		for _, name := range in.ChildGroups {
			d.children = append(d.children, e.groupDefNamed(NamespacedName{in.Namespace, name}))
		}
	case in.ServiceReference != nil:
		d.terms = e.serviceTerms(*in.ServiceReference)
	default:
		d.terms = &terms{
			namespace:  in.Namespace,
			namespaces: compileSelector(in.NamespaceSelector, "spec.namespaceSelector", errs),
			pod:        compileSelector(in.PodSelector, "spec.podSelector", errs),
			external:   compileSelector(in.ExternalEntitySelector, "spec.externalEntitySelector", errs),
			node:       compileSelector(in.NodeSelector, "spec.nodeSelector", errs),
		}
		if d.terms.node != nil {
			d.terms = &terms{node: d.terms.node}
		}
	}
	d.errs = errs.list
}

// serviceTerms selects the Pods behind a Service.
func (e *Engine) serviceTerms(name NamespacedName) *terms {
	s, ok := e.services[name]
	if !ok || len(s.Selector) == 0 {
		return &terms{}
	}
	var ignored errorList // a Service's selector has been validated by its own API
	return &terms{namespace: name.Namespace, pod: compileSelector(&Selector{MatchLabels: s.Selector}, "", &ignored)}
}

// redefine recompiles the groups that refer to a Service.
func (e *Engine) redefine(service NamespacedName) {
	for d := range e.byService[service] {
		e.defineGroup(d, d.in)
	}
}

// referToService keeps byService in line with a change of the def's object.
func (e *Engine) referToService(d *groupDef, former, in *Group) {
	if former != nil && former.ServiceReference != nil {
		removeFrom(e.byService, *former.ServiceReference, d)
	}
	if in != nil && in.ServiceReference != nil {
		addTo(e.byService, *in.ServiceReference, d)
	}
}

// addTo and removeFrom maintain a map of sets without empty sets.
func addTo[K, V comparable](m map[K]map[V]struct{}, k K, v V) {
	if m[k] == nil {
		m[k] = make(map[V]struct{}, 1)
	}
	m[k][v] = struct{}{}
}

func removeFrom[K, V comparable](m map[K]map[V]struct{}, k K, v V) {
	if delete(m[k], v); len(m[k]) == 0 {
		delete(m, k)
	}
}

// selectionOf returns the group's members in a role as a selection with one more use; nil if the
// group has no selecting part. A group with child groups is applied to their Pods and
// ExternalEntities only, as Antrea has it: to select Nodes, a policy names their group itself.
func (e *Engine) selectionOf(role GroupRole, d *groupDef) *selection {
	if !d.usable() || len(d.leaves()) == 0 && len(d.children) == 0 {
		return nil
	}
	leaves := d.leaves()
	if role == AppliedToGroup && len(d.children) > 0 {
		leaves = slices.DeleteFunc(leaves, func(t *terms) bool { return t.node != nil })
	}
	if len(d.children) == 0 {
		return e.acquireSelection(leaves[0])
	}
	children := make([]*selection, len(leaves))
	for i, t := range leaves {
		children[i] = e.acquireSelection(t)
	}
	return e.acquireUnion(children)
}

// groupOf counts a policy's reference to the computed group made from a def; nil if there is none.
// As a peer, a group of ipBlocks only has no members to list.
func (e *Engine) groupOf(role GroupRole, d *groupDef) *group {
	leaves := len(d.leaves())
	if !d.usable() || leaves == 0 && (role == AddressGroup || len(d.children) == 0) {
		return nil
	}
	if g := d.computed[role]; g != nil && !g.gone {
		g.refs++
		return g
	}
	s := e.selectionOf(role, d)
	if s == nil {
		return nil
	}
	name := d.name.Name
	if d.name.Namespace != "" {
		name = d.name.Namespace + "/" + name
	}
	g := e.newGroup(role, name, &origin{uid: d.in.UID})
	g.selection = s
	s.addGroup(g)
	d.computed[role] = g
	return g
}

// updateGroupDefs brings the computed groups of changed defs, and the list of policies to compute
// again, up to date.
func (e *Engine) updateGroupDefs() {
	for _, d := range e.dirtyDefs {
		d.dirty = false
		for role, g := range d.computed {
			if g == nil || g.gone {
				d.computed[role] = nil
				continue
			}
			if s := e.selectionOf(GroupRole(role), d); s != nil {
				e.reselect(g, s)
				e.releaseSelection(s) // reselect counted the group's own use
				if g.origin.uid != d.in.UID {
					g.origin.uid, g.replaced = d.in.UID, true
					e.touch(g)
				}
			}
		}
		for p := range d.policies {
			e.touchPolicy(p)
		}
		e.touchReport(reportKey{group: d.name, isGroup: true})
	}
	for _, d := range e.dirtyDefs {
		e.dropGroupDef(d)
	}
	e.dirtyDefs = e.dirtyDefs[:0]
}
