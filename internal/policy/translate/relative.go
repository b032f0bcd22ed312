package translate

import (
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/selectors"
)

// space is a Namespace in which a rule with peers relative to the Namespace applies, with the
// selections of its applied-to groups there.
type space struct {
	name    string
	labels  *selectors.Set
	applied []selectors.Terms
}

// groupsOf returns the names of the applied-to groups of a space.
func (t *translation) groupsOf(s *space) (names []string) {
	for _, narrowed := range s.applied {
		names = t.addName(names, t.resolver.Group(policy.AppliedToGroup, narrowed))
	}
	return names
}

// isRelative reports whether any rule has a peer relative to the Namespace.
func (t *translation) isRelative(rules []policy.Rule) bool {
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
func (t *translation) affected(appliedTo []policy.AppliedTo, path string) []space {
	found := make(map[string]*space)
	reference := t.reference // of the translation nothing is to be kept in what the resolver is given
	for i := range appliedTo {
		at := &appliedTo[i]
		for _, s := range t.appliedLeaves(at, policy.Indexed(path, i)) {
			t.resolver.Namespaces(s, func(name string, labels *selectors.Set) {
				in := found[name]
				if in == nil {
					in = &space{name: name, labels: labels}
					found[name] = in
				}
				if reference {
					in.applied = nil
				}
				in.applied = append(in.applied, selectors.Terms{Namespace: name, Pod: s.Pod, External: s.External})
			})
		}
	}
	out := make([]space, 0, len(found))
	for _, s := range found {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b space) int { return strings.Compare(a.name, b.name) })
	return out
}

// appliedLeaves returns the selections that make up one appliedTo. Services and Nodes are in no
// Namespace.
func (t *translation) appliedLeaves(at *policy.AppliedTo, path string) []*selectors.Terms {
	switch {
	case at.Service != nil || at.NodeSelector != nil:
		return nil
	case at.Group == "":
		s := t.appliedTerms(at, path)
		return t.inNamespaces(&s)
	}
	d := t.definition(at.Group, policy.Below(path, ".group"))
	if !d.Usable() {
		return nil
	}
	leaves := d.Leaves()
	if !t.reference && len(t.inNamespaces(leaves...)) == 0 {
		t.warns.Add(policy.Below(path, ".group"), at.Group, "a group with members in Namespaces: rules with namespaces in their peers do not apply to this one")
	}
	if t.reference {
		s := &selectors.Terms{}
		if !d.Nested() && len(leaves) == 1 {
			s.Namespaces = leaves[0].Namespaces
		}
		return []*selectors.Terms{s}
	}
	return t.inNamespaces(leaves...)
}

// inNamespaces returns the selections that can be narrowed to a Namespace: not selections of Nodes,
// nor that without any selector, which selects nothing.
func (t *translation) inNamespaces(list ...*selectors.Terms) []*selectors.Terms {
	if t.reference {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(s *selectors.Terms) bool { return s.Node != nil || s.Normalized() == "" })
}

// selfRules adds one rule per Namespace, for peers in the same Namespace.
func (t *translation) selfRules(out policy.RuleContent, peers []indexedPeer, spaces []space) {
	selections := make([]selectors.Terms, len(peers))
	for i, peer := range peers {
		selections[i] = t.peerTerms(peer)
		selections[i].Namespaces = nil
	}
	for _, s := range spaces {
		if len(peers) == 0 {
			return
		}
		appliedTo := t.groupsOf(&s)
		var p policy.ComputedPeer
		for _, selection := range selections {
			narrowed := selection
			narrowed.Namespace = s.name
			p.AddressGroups = append(p.AddressGroups, t.resolver.Group(policy.AddressGroup, narrowed))
		}
		t.addRule(out, p, appliedTo)
	}
}

// sameLabelRules adds, for one peer, a rule per combination of label values that the Namespaces
// have. Namespaces that lack one of the labels get none.
func (t *translation) sameLabelRules(out policy.RuleContent, peer indexedPeer, spaces []space) {
	keys := peer.Namespaces.SameLabels
	type class struct {
		labels map[string]string
		groups []string
	}
	classes := make(map[string]*class)
	selection := t.peerTerms(peer)
	for _, s := range spaces {
		values := make(map[string]string, len(keys))
		id := ""
		for _, k := range keys {
			v, ok := s.labels.Get(k)
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
		for _, name := range t.groupsOf(&s) {
			classes[id].groups = t.addName(classes[id].groups, name)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(classes)) {
		c := classes[id]
		narrowed := selection
		narrowed.Namespaces = t.selector(&policy.Selector{MatchLabels: c.labels}, policy.Below(peer.path, ".namespaces.sameLabels"), &t.errs)
		name := t.resolver.Group(policy.AddressGroup, narrowed)
		t.addRule(out, policy.ComputedPeer{AddressGroups: []string{name}}, c.groups)
	}
}
