package cloud

import (
	"cmp"
	"sort"
)

// The objects of a snapshot are sorted by ID, and these find one; nil if there is none. What they
// return is the snapshot's own, to be read only.

// Network finds a network.
func (s *Snapshot) Network(id string) *Network {
	return Find(s.Networks, id, func(n *Network) string { return n.ID })
}

// VM finds a VM.
func (s *Snapshot) VM(id string) *VM {
	return Find(s.VMs, id, func(v *VM) string { return v.ID })
}

// Interface finds a network interface.
func (s *Snapshot) Interface(id string) *Interface {
	return Find(s.Interfaces, id, func(n *Interface) string { return n.ID })
}

// Group finds a security group.
func (s *Snapshot) Group(id string) *Group {
	return Find(s.Groups, id, func(g *Group) string { return g.ID })
}

// Service finds a native service.
func (s *Snapshot) Service(id string) *Service {
	return Find(s.Services, id, func(x *Service) string { return x.ID })
}

// Find finds the object with an ID among objects that are sorted by it; nil if there is none. It
// copies none: snapshots are searched for every VM, and their objects are large.
func Find[T any](sorted []T, id string, idOf func(*T) string) *T {
	i, found := sort.Find(len(sorted), func(i int) int { return cmp.Compare(id, idOf(&sorted[i])) })
	if !found {
		return nil
	}
	return &sorted[i]
}
