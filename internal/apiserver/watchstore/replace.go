package watchstore

import (
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Replace publishes the whole wanted content, as a first Publish does, into a store that has
// something already: nothing is sent for what is the same, and what is missing is deleted. All of
// it is one step.
func (s *Store) Replace(whole iter.Seq[Changes]) (told int) {
	return s.PublishParts(s.differences(whole))
}

// differences returns what is to be changed so that there is the whole. It is gone through while
// the store is locked.
func (s *Store) differences(whole iter.Seq[Changes]) iter.Seq[Changes] {
	return func(yield func(Changes) bool) {
		var brought [kinds]map[string]bool
		for kind := range brought {
			brought[kind] = map[string]bool{}
		}
		groups := func(kind int, list []GroupChange) (out []GroupChange) {
			for i := range list {
				brought[kind][list[i].Name] = true
				if c, differs := s.groupDifference(s.tables[kind].named(list[i].Name), list[i]); differs {
					out = append(out, c)
				}
			}
			return out
		}
		for c := range whole {
			next := Changes{AddressGroups: groups(0, c.AddressGroups), AppliedToGroups: groups(1, c.AppliedToGroups)}
			for i := range c.Policies {
				name, _ := c.Policies[i].source()
				brought[2][name] = true
				if p, differs := policyDifference(s.tables[2].named(name), c.Policies[i]); differs {
					next.Policies = append(next.Policies, p)
				}
			}
			if !next.Empty() && !yield(next) {
				return
			}
		}
		gone := func(kind int) (out []*entry) {
			for e := range s.tables[kind].entries.All() {
				if !brought[kind][e.name] {
					out = append(out, e)
				}
			}
			slices.SortFunc(out, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
			return out
		}
		var last Changes
		for _, e := range gone(0) {
			last.AddressGroups = append(last.AddressGroups, GroupChange{Name: e.name, UID: e.uid(), Deleted: true})
		}
		for _, e := range gone(1) {
			last.AppliedToGroups = append(last.AppliedToGroups, GroupChange{Name: e.name, UID: e.uid(), Deleted: true})
		}
		for _, e := range gone(2) {
			last.Policies = append(last.Policies, PolicyChange{Name: e.name, Source: e.policy, Removed: true})
		}
		if !last.Empty() {
			yield(last)
		}
	}
}

// groupDifference returns how a group that may be there becomes the one that is wanted.
func (s *Store) groupDifference(e *entry, want GroupChange) (GroupChange, bool) {
	if e == nil {
		return want, true
	}
	order := e.members.exact
	held, wanted := e.members.list, slices.Clone(want.Added)
	slices.SortStableFunc(wanted, order)
	out := GroupChange{Name: want.Name, UID: want.UID}
	for _, m := range held {
		if _, found := slices.BinarySearchFunc(wanted, m, order); !found {
			out.Removed = append(out.Removed, m)
		}
	}
	for _, m := range wanted {
		if i, found := slices.BinarySearchFunc(held, m, order); !found || !sameMember(held[i], m) {
			out.Added = append(out.Added, m)
		}
	}
	out.SpanAdded, out.SpanRemoved = e.span.difference(want.SpanAdded)
	return out, len(out.Added)+len(out.Removed)+len(out.SpanAdded)+len(out.SpanRemoved) > 0 || e.uid() != want.UID
}

// policyDifference is groupDifference for a policy.
func policyDifference(e *entry, want PolicyChange) (PolicyChange, bool) {
	if e == nil {
		return want, true
	}
	out := want
	out.SpanAdded, out.SpanRemoved = e.span.difference(want.SpanAdded)
	_, source := want.source()
	return out, len(out.SpanAdded)+len(out.SpanRemoved) > 0 || !reflect.DeepEqual(e.policy.NetworkPolicy(&PolicyRoom{}), source.NetworkPolicy(&PolicyRoom{}))
}

// difference returns which keys are to be added and removed so that a span is the wanted one.
func (s *span) difference(want []string) (added, removed []string) {
	wanted := make(map[string]bool, len(want))
	for _, name := range want {
		wanted[name] = true
	}
	for _, k := range s.keys {
		if !wanted[k.name] {
			removed = append(removed, k.name)
		}
		delete(wanted, k.name)
	}
	return slices.Sorted(maps.Keys(wanted)), removed
}
