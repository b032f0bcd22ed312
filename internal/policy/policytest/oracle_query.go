package policytest

import (
	"net/netip"
	"sort"

	"github.com/nephele-io/nephele/internal/policy"
)

// GroupMembers returns the members of a group, naively: every entity is tried. It also returns the
// ipBlocks.
func GroupMembers(w *World, name policy.NamespacedName) ([]policy.EntityRef, []policy.CIDRBlock) {
	o := &oracle{w: w}
	if !o.valid(name) {
		return nil, nil
	}
	var out []policy.EntityRef
	for ref, e := range w.Entities {
		if o.inGroup(name, e) && member(policy.AddressGroup, e) != nil {
			out = append(out, ref)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		if a.Kind != b.Kind {
			return a.Kind < b.Kind
		}
		if a.Namespace != b.Namespace {
			return a.Namespace < b.Namespace
		}
		return a.Name < b.Name
	})
	return out, o.groupBlocks(name)
}

// GroupsOf returns the groups that an entity is in.
func GroupsOf(w *World, ref policy.EntityRef) []policy.NamespacedName {
	o := &oracle{w: w}
	e := w.Entities[ref]
	var out []policy.NamespacedName
	for name := range w.Groups {
		if o.inGroup(name, e) && !e.HostNetwork && !e.Terminated {
			out = append(out, name)
		}
	}
	sortNames(out)
	return out
}

// GroupsWithAddress returns the groups that have the address in an ipBlock.
func GroupsWithAddress(w *World, a netip.Addr) []policy.NamespacedName {
	o := &oracle{w: w}
	var out []policy.NamespacedName
	for name := range w.Groups {
		found := false
		for _, b := range o.groupBlocks(name) {
			in := b.CIDR.Contains(a)
			for _, e := range b.Except {
				in = in && !e.Contains(a)
			}
			found = found || in
		}
		if found {
			out = append(out, name)
		}
	}
	sortNames(out)
	return out
}

func (o *oracle) inGroup(name policy.NamespacedName, e policy.Entity) bool {
	for _, s := range o.picks(name) {
		if o.has(s, e) {
			return true
		}
	}
	return false
}

func sortNames(names []policy.NamespacedName) {
	sort.Slice(names, func(i, j int) bool {
		if names[i].Namespace != names[j].Namespace {
			return names[i].Namespace < names[j].Namespace
		}
		return names[i].Name < names[j].Name
	})
}
