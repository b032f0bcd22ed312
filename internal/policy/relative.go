package policy

import (
	"maps"
	"slices"
	"strings"
)

// space is a Namespace in which a rule with peers relative to the Namespace applies, with the
// selections of its applied-to groups there.
type space struct {
	ns      *namespace
	applied []*terms
}

// groupsOf acquires the applied-to groups of a space.
func (t *translation) groupsOf(s space) []*group {
	out := make([]*group, len(s.applied))
	for i, narrowed := range s.applied {
		out[i] = t.use(t.e.acquireGroup(AppliedToGroup, narrowed))
	}
	return out
}

// isRelative reports whether any rule has a peer relative to the Namespace.
func (t *translation) isRelative(rules []Rule) bool {
	for i := range rules {
		for j := range rules[i].Peers {
			if rules[i].Peers[j].Namespaces != nil {
				return true
			}
		}
	}
	return false
}

// affected returns, sorted by name, the Namespaces that appliedTo reaches into, with one selection
// for each entry that does, narrowed to the Namespace.
func (t *translation) affected(appliedTo []AppliedTo, path string) []space {
	found := make(map[*namespace][]*terms)
	add := func(n *namespace, narrowed *terms) {
		if t.e.options.ReferenceNamespacePeers {
			found[n] = nil
		}
		found[n] = append(found[n], narrowed)
	}
	for i := range appliedTo {
		at := &appliedTo[i]
		for _, s := range t.appliedLeaves(at, indexed(path, i)) {
			for _, n := range t.namespacesOf(s) {
				add(n, &terms{namespace: n.name, pod: s.pod, external: s.external})
			}
		}
	}
	out := make([]space, 0, len(found))
	for n, applied := range found {
		out = append(out, space{n, applied})
	}
	slices.SortFunc(out, func(a, b space) int { return strings.Compare(a.ns.name, b.ns.name) })
	return out
}

// appliedLeaves returns the selections that make up one appliedTo. Services and Nodes are in no
// Namespace.
func (t *translation) appliedLeaves(at *AppliedTo, path string) []*terms {
	switch {
	case at.Service != nil || at.NodeSelector != nil:
		return nil
	case at.Group == "":
		s := t.appliedTerms(at, path)
		return t.inNamespaces(&s)
	}
	d := t.def(at.Group, below(path, ".group"))
	if !d.usable() {
		return nil
	}
	if !t.e.options.ReferenceNamespacePeers && len(t.inNamespaces(d.leaves()...)) == 0 {
		t.warns.add(below(path, ".group"), at.Group, "a group with members in Namespaces: rules with namespaces in their peers do not apply to this one")
	}
	if t.e.options.ReferenceNamespacePeers {
		s := &terms{}
		if len(d.children) == 0 && d.terms != nil {
			s.namespaces = d.terms.namespaces
		}
		return []*terms{s}
	}
	return t.inNamespaces(d.leaves()...)
}

// inNamespaces returns the selections that can be narrowed to a Namespace: not those of Nodes, nor
// that without any selector, which selects nothing.
func (t *translation) inNamespaces(list ...*terms) []*terms {
	if t.e.options.ReferenceNamespacePeers {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(s *terms) bool { return s.node != nil || s.normalized() == "" })
}

// namespacesOf returns the known Namespaces that a selection reaches into.
func (t *translation) namespacesOf(s *terms) []*namespace {
	var out []*namespace
	collect := func(n *namespace) { out = append(out, n) }
	switch {
	case s.namespaces != nil:
		t.e.knownNamespaces.each(s.namespaces, collect)
	case s.namespace != "":
		if n := t.e.namespaces[s.namespace]; n != nil && n.known {
			collect(n)
		}
	default:
		t.e.knownNamespaces.each(nil, collect)
	}
	return out
}

// selfRules adds one rule per Namespace, for peers in the same Namespace.
func (t *translation) selfRules(out RuleContent, peers []indexedPeer, spaces []space) {
	selections := make([]terms, len(peers))
	for i, peer := range peers {
		selections[i] = t.peerTerms(peer)
		selections[i].namespaces = nil
	}
	for _, s := range spaces {
		if len(peers) == 0 {
			return
		}
		appliedTo := t.groupNames(t.groupsOf(s))
		var p ComputedPeer
		for _, selection := range selections {
			narrowed := selection
			narrowed.namespace = s.ns.name
			p.AddressGroups = append(p.AddressGroups, t.use(t.e.acquireGroup(AddressGroup, &narrowed)).name)
		}
		t.addRule(out, p, appliedTo)
	}
}

// sameLabelRules adds, for one peer, a rule per combination of label values that the Namespaces
// have. Namespaces that lack one of the labels get none.
func (t *translation) sameLabelRules(out RuleContent, peer indexedPeer, spaces []space) {
	keys := peer.Namespaces.SameLabels
	type class struct {
		labels map[string]string
		groups []*group
	}
	classes := make(map[string]*class)
	selection := t.peerTerms(peer)
	for _, s := range spaces {
		values := make(map[string]string, len(keys))
		id := ""
		for _, k := range keys {
			v, ok := s.ns.labels.get(k)
			if !ok {
				values = nil
				break
			}
			values[k] = v
			id += v + "\x00"
		}
		if values == nil {
			continue
		}
		if classes[id] == nil {
			classes[id] = &class{labels: values}
		}
		classes[id].groups = append(classes[id].groups, t.groupsOf(s)...)
	}
	for _, id := range slices.Sorted(maps.Keys(classes)) {
		c := classes[id]
		appliedTo := t.groupNames(c.groups)
		narrowed := selection
		narrowed.namespaces = t.e.selector(&Selector{MatchLabels: c.labels}, below(peer.path, ".namespaces.sameLabels"), &t.errs)
		name := t.use(t.e.acquireGroup(AddressGroup, &narrowed)).name
		t.addRule(out, ComputedPeer{AddressGroups: []string{name}}, appliedTo)
	}
}
