package compute

import (
	"slices"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/selectors"
	"github.com/nephele-io/nephele/internal/policy/translate"
	"github.com/nephele-io/nephele/internal/policy/world"
)

// groupDef is what is known about a Group or ClusterGroup by name: the object, if there is one, and
// its references.
type groupDef struct {
	name policy.NamespacedName
	in   *policy.Group // nil: no such object
	// terms, blocks and errs are the compiled object: its own selector, if it is that kind of
	// group, and its ipBlocks.
	terms  *selectors.Terms
	blocks []policy.CIDRBlock
	errs   []policy.FieldError
	// children are the defs of childGroups; parents have this one as a child.
	children []*groupDef
	parents  map[*groupDef]struct{}
	policies map[*policyState]struct{}
	// computed are the live groups made from it, by role.
	computed [2]*group
	dirty    bool
}

// definitions are the Groups and ClusterGroups that are given or referred to, and the Services that
// some of them refer to.
type definitions struct {
	world    *world.World
	groups   *groups
	policies *policies
	reports  *reports

	services  map[policy.NamespacedName]*policy.Service
	byService map[policy.NamespacedName]map[*groupDef]struct{}
	byName    map[policy.NamespacedName]*groupDef
	// dirty are those to bring up to date in the next Commit.
	dirty []*groupDef
}

// Exists implements Definition.
func (d *groupDef) Exists() bool { return d.in != nil }

// Usable implements Definition.
func (d *groupDef) Usable() bool { return d.in != nil && len(d.problems()) == 0 }

// problems returns the group's own errors and the errors of its place among other groups.
func (d *groupDef) problems() []policy.FieldError {
	out := d.errs
	for i, c := range d.children {
		if c.in != nil && len(c.in.ChildGroups) > 0 {
			out = append(slices.Clip(out), policy.FieldError{Field: policy.Indexed("spec.childGroups", i), Value: c.name.Name,
				Want: "a group without child groups: groups nest one level only"})
		}
	}
	return out
}

// missing returns warnings about children that do not exist.
func (d *groupDef) missing() []policy.FieldError {
	var out []policy.FieldError
	for i, c := range d.children {
		if c.in == nil {
			out = append(out, policy.FieldError{Field: policy.Indexed("spec.childGroups", i), Value: c.name.Name, Want: "an existing group"})
		}
	}
	return out
}

// serviceMissing returns a warning about a serviceReference that selects nothing whatever Pods
// there are.
func (ds *definitions) serviceMissing(d *groupDef) []policy.FieldError {
	name := d.in.ServiceReference
	if name == nil || len(d.in.IPBlocks)+len(d.in.ChildGroups) > 0 {
		return nil
	}
	want := "an existing Service"
	if s, ok := ds.services[*name]; ok {
		if len(s.Selector) > 0 {
			return nil
		}
		want = "a Service with a selector: which Pods are behind this one is not known"
	}
	return []policy.FieldError{{Field: "spec.serviceReference", Value: name.Namespace + "/" + name.Name, Want: want}}
}

// Nested implements Definition.
func (d *groupDef) Nested() bool { return len(d.children) > 0 }

// Leaves implements Definition.
func (d *groupDef) Leaves() []*selectors.Terms {
	if len(d.children) == 0 {
		if d.terms == nil {
			return nil
		}
		return []*selectors.Terms{d.terms}
	}
	var out []*selectors.Terms
	for _, c := range d.children {
		if c.Usable() && c.terms != nil {
			out = append(out, c.terms)
		}
	}
	return out
}

// IPBlocks implements Definition.
func (d *groupDef) IPBlocks() []policy.CIDRBlock {
	if len(d.children) == 0 {
		return d.blocks
	}
	var out []policy.CIDRBlock
	for _, c := range d.children {
		if c.Usable() {
			out = append(out, c.blocks...)
		}
	}
	return out
}

// named returns the def, making it if there is none.
func (ds *definitions) named(name policy.NamespacedName) *groupDef {
	d := ds.byName[name]
	if d == nil {
		d = &groupDef{name: name, parents: make(map[*groupDef]struct{}), policies: make(map[*policyState]struct{})}
		ds.byName[name] = d
	}
	return d
}

// drop forgets a def without object that nobody refers to.
func (ds *definitions) drop(d *groupDef) {
	if d.in == nil && len(d.parents) == 0 && len(d.policies) == 0 && !d.dirty && ds.byName[d.name] == d {
		delete(ds.byName, d.name)
	}
}

// define replaces the object of a def.
func (ds *definitions) define(d *groupDef, in *policy.Group) {
	ds.touch(d) // dirty, it is not forgotten meanwhile
	former := d.children
	if d.in != in {
		ds.referToService(d, d.in, in)
	}
	d.in, d.terms, d.blocks, d.errs, d.children = in, nil, nil, nil, nil
	if in != nil {
		ds.compile(d)
	}
	for _, c := range former {
		if !slices.Contains(d.children, c) {
			delete(c.parents, d)
			ds.drop(c)
		}
	}
	for _, c := range d.children {
		c.parents[d] = struct{}{}
	}
}

// touch puts a def and its parents on the list of defs to bring up to date.
func (ds *definitions) touch(d *groupDef) {
	if !d.dirty {
		d.dirty = true
		ds.dirty = append(ds.dirty, d)
	}
	for p := range d.parents {
		if !p.dirty {
			p.dirty = true
			ds.dirty = append(ds.dirty, p)
		}
	}
}

// compile fills in the compiled form. Where several parts are given, the first of ipBlocks,
// childGroups, serviceReference, selectors counts.
func (ds *definitions) compile(d *groupDef) {
	in, errs := d.in, &policy.ErrorList{}
	switch {
	case len(in.IPBlocks) > 0:
		for i := range in.IPBlocks {
			d.blocks = append(d.blocks, translate.CompileIPBlock(&in.IPBlocks[i], policy.Indexed("spec.ipBlocks", i), errs))
		}
	case len(in.ChildGroups) > 0:
		for _, name := range in.ChildGroups {
			d.children = append(d.children, ds.named(policy.NamespacedName{Namespace: in.Namespace, Name: name}))
		}
	case in.ServiceReference != nil:
		d.terms = ds.serviceTerms(*in.ServiceReference)
	default:
		d.terms = &selectors.Terms{
			Namespace:  in.Namespace,
			Namespaces: selectors.Compile(in.NamespaceSelector, "spec.namespaceSelector", errs),
			Pod:        selectors.Compile(in.PodSelector, "spec.podSelector", errs),
			External:   selectors.Compile(in.ExternalEntitySelector, "spec.externalEntitySelector", errs),
			Node:       selectors.Compile(in.NodeSelector, "spec.nodeSelector", errs),
		}
		if d.terms.Node != nil {
			d.terms = &selectors.Terms{Node: d.terms.Node}
		}
	}
	d.errs = errs.List
}

// serviceTerms selects the Pods behind a Service.
func (ds *definitions) serviceTerms(name policy.NamespacedName) *selectors.Terms {
	s, ok := ds.services[name]
	if !ok || len(s.Selector) == 0 {
		return &selectors.Terms{}
	}
	var ignored policy.ErrorList // a Service's selector has been validated by its own API
	return &selectors.Terms{Namespace: name.Namespace, Pod: selectors.Compile(&policy.Selector{MatchLabels: s.Selector}, "", &ignored)}
}

// redefine recompiles the groups that refer to a Service.
func (ds *definitions) redefine(service policy.NamespacedName) {
	for d := range ds.byService[service] {
		ds.define(d, d.in)
	}
}

// referToService keeps byService in line with a change of the def's object.
func (ds *definitions) referToService(d *groupDef, former, in *policy.Group) {
	if former != nil && former.ServiceReference != nil {
		removeFrom(ds.byService, *former.ServiceReference, d)
	}
	if in != nil && in.ServiceReference != nil {
		addTo(ds.byService, *in.ServiceReference, d)
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
func (ds *definitions) selectionOf(role policy.GroupRole, d *groupDef) *world.Selection {
	if !d.Usable() || len(d.Leaves()) == 0 && len(d.children) == 0 {
		return nil
	}
	leaves := d.Leaves()
	if role == policy.AppliedToGroup && len(d.children) > 0 {
		leaves = slices.DeleteFunc(leaves, func(t *selectors.Terms) bool { return t.Node != nil })
	}
	if len(d.children) == 0 {
		return ds.world.AcquireSelection(leaves[0])
	}
	children := make([]*world.Selection, len(leaves))
	for i, t := range leaves {
		children[i] = ds.world.AcquireSelection(t)
	}
	return ds.world.AcquireUnion(children)
}

// groupOf counts a policy's reference to the computed group made from a def; nil if there is none.
// As a peer, a group of ipBlocks only has no members to list.
func (ds *definitions) groupOf(role policy.GroupRole, d *groupDef) *group {
	leaves := len(d.Leaves())
	if !d.Usable() || leaves == 0 && (role == policy.AddressGroup || len(d.children) == 0) {
		return nil
	}
	if g := d.computed[role]; g != nil && !g.gone {
		g.refs++
		return g
	}
	s := ds.selectionOf(role, d)
	if s == nil {
		return nil
	}
	name := d.name.Name
	if d.name.Namespace != "" {
		name = d.name.Namespace + "/" + name
	}
	g := ds.groups.add(role, name, &origin{uid: d.in.UID})
	g.selection = s
	s.Follow(g)
	d.computed[role] = g
	return g
}

// update brings the computed groups of changed defs, and the list of policies to compute
// again, up to date.
func (ds *definitions) update() {
	for _, d := range ds.dirty {
		d.dirty = false
		for role, g := range d.computed {
			if g == nil || g.gone {
				d.computed[role] = nil
				continue
			}
			if s := ds.selectionOf(policy.GroupRole(role), d); s != nil {
				ds.groups.reselect(ds.world, g, s)
				ds.world.ReleaseSelection(s) // reselect counted the group's own use
				if g.origin.uid != d.in.UID {
					g.origin.uid, g.replaced = d.in.UID, true
					ds.groups.touch(g)
				}
			}
		}
		for p := range d.policies {
			ds.policies.touch(p)
		}
		ds.reports.touch(reportKey{group: d.name, isGroup: true})
	}
	for _, d := range ds.dirty {
		ds.drop(d)
	}
	ds.dirty = ds.dirty[:0]
}
