package cloud

import (
	"cmp"
	"net/netip"
	"slices"
)

// Joined returns the snapshot in which a native service whose groups can be set is what a VM is:
// one machine with one interface. The interface has the ID, the tags and all addresses of the
// service, and represents those that the cloud has made for it, which hold one list of groups
// between them. One whose tags are not known at present says so (Interface.Unread). Services of
// which none of that can be said stay what they are, interfaces that are managed. The snapshot
// itself does not change; one without such services is returned as it is.
//
// Where the interfaces do not hold the same, because one is new or a change is under way, the one
// that represents them holds what any of them holds.
func (s *Snapshot) Joined() *Snapshot {
	in := map[string]*Service{} // by the ID of an interface
	for i := range s.Services {
		x := &s.Services[i]
		if x.Fixed != "" && !x.Unread || x.Ambiguous != "" {
			continue
		}
		for _, id := range x.Interfaces {
			if id != x.ID { // else nothing is known of it but the interface
				in[id] = x
			}
		}
	}
	if len(in) == 0 {
		return s
	}
	out := *s
	out.Interfaces, out.VMs = make([]Interface, 0, len(s.Interfaces)), slices.Clone(s.VMs)
	joined := map[*Service]*Interface{}
	var made []*Interface
	for i := range s.Interfaces {
		n := &s.Interfaces[i]
		x := in[n.ID]
		switch {
		case x == nil:
			out.Interfaces = append(out.Interfaces, *n)
			continue
		case joined[x] == nil:
			joined[x] = &Interface{
				ID: x.ID, NetworkID: n.NetworkID, SubnetID: n.SubnetID, OwnerID: n.OwnerID, VMID: x.ID, Tags: x.Tags, Description: n.Description,
				Service: x.Kind, Alone: x.Alone, Unread: x.Fixed,
			}
			made = append(made, joined[x])
			out.VMs = append(out.VMs, VM{ID: x.ID, Name: x.Name, NetworkID: n.NetworkID, State: VMRunning, Tags: x.Tags, Interfaces: []string{x.ID}})
		}
		joined[x].join(n)
	}
	if len(made) == 0 {
		return s
	}
	for _, n := range made {
		out.Interfaces = append(out.Interfaces, *n)
	}
	slices.SortFunc(out.Interfaces, func(a, b Interface) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(out.VMs, func(a, b VM) int { return cmp.Compare(a.ID, b.ID) })
	return &out
}

// join adds an interface to the one that represents it.
func (n *Interface) join(o *Interface) {
	if n.SubnetID != o.SubnetID {
		n.SubnetID = ""
	}
	n.PrivateIPs, n.PublicIPs = append(n.PrivateIPs, o.PrivateIPs...), append(n.PublicIPs, o.PublicIPs...)
	n.Prefixes = append(n.Prefixes, o.Prefixes...)
	slices.SortFunc(n.PrivateIPs, netip.Addr.Compare)
	slices.SortFunc(n.Prefixes, netip.Prefix.Compare)
	slices.SortFunc(n.PublicIPs, netip.Addr.Compare)
	n.GroupIDs = append(n.GroupIDs, o.GroupIDs...)
	slices.Sort(n.GroupIDs)
	n.GroupIDs = slices.Compact(n.GroupIDs)
}
