package policy

import "slices"

// WantOwnNamespace is what an error says that is wanted of a Group to which a policy of its
// Namespace is applied: it may select elsewhere as a peer, but a policy reaches no further than its
// Namespace. The error comes and goes with what the Group selects.
const WantOwnNamespace = "a group that selects nothing outside the Namespace of the policy"

// fence watches whether one of the selections of a Group has anything outside the Group's
// Namespace.
type fence struct {
	selection *selection
	home      string
	// foreign counts the cells outside.
	foreign int
	uses    int
	// policies are those to compute again when foreign becomes or ceases to be 0.
	policies map[*policyState]struct{}
}

// fence refuses a Group with members outside the policy's Namespace as what the policy is applied
// to.
func (t *translation) fence(d *groupDef, path string) {
	if t.in.Namespace == "" || !d.usable() {
		return
	}
	foreign := false
	for _, leaf := range d.leaves() {
		if leaf.namespaces == nil && leaf.namespace == t.in.Namespace || leaf.normalized() == "" {
			continue
		}
		f := t.e.acquireFence(leaf, t.in.Namespace)
		t.fences = append(t.fences, f)
		foreign = foreign || f.foreign > 0
	}
	if foreign {
		t.errs.add(path, d.name.Name, WantOwnNamespace)
	}
}

// acquireFence returns the one fence between a selection and a Namespace and counts a use of it.
func (e *Engine) acquireFence(t *terms, home string) *fence {
	s := e.acquireSelection(t)
	for _, f := range e.fences[s] {
		if f.home == home {
			e.releaseSelection(s) // the fence holds a use already
			f.uses++
			return f
		}
	}
	f := &fence{selection: s, home: home, uses: 1, policies: make(map[*policyState]struct{})}
	for _, link := range s.cells {
		if link.cell.ns.name != home {
			f.foreign++
		}
	}
	e.fences[s] = append(e.fences[s], f)
	s.fenced = true
	return f
}

// releaseFence gives up a use.
func (e *Engine) releaseFence(f *fence) {
	if f.uses--; f.uses > 0 {
		return
	}
	s := f.selection
	e.fences[s] = slices.DeleteFunc(e.fences[s], func(g *fence) bool { return g == f })
	if s.fenced = len(e.fences[s]) > 0; !s.fenced {
		delete(e.fences, s)
	}
	e.releaseSelection(s)
}

// cross takes into account that n cells (1 or -1) like c came into a selection with fences.
func (e *Engine) cross(s *selection, c *cell, n int) {
	for _, f := range e.fences[s] {
		if c.ns.name == f.home {
			continue
		}
		before := f.foreign > 0
		if f.foreign += n; before != (f.foreign > 0) {
			for p := range f.policies {
				e.touchPolicy(p)
			}
		}
	}
}

// refence makes the fences of the policy those of its new translation.
func (e *Engine) refence(p *policyState, next []*fence) {
	former := e.fenced[p]
	for _, f := range next {
		f.policies[p] = struct{}{}
	}
	for _, f := range former {
		if !slices.Contains(next, f) {
			delete(f.policies, p)
		}
		e.releaseFence(f)
	}
	if len(next) > 0 {
		e.fenced[p] = next
	} else if len(former) > 0 {
		delete(e.fenced, p)
	}
}
