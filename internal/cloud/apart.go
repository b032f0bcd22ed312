package cloud

import (
	"cmp"
	"slices"
	"strings"
)

// Apart returns the snapshot in which each of the named interfaces is a machine of its own with the
// ID of the interface, as native services are in that of Joined. An interface that belongs to
// somebody else stays his: that of a VM which guarded names, and one that Unsettable refuses. So
// nothing ever has two owners. The snapshot itself does not change; one without such interfaces is
// returned as it is.
func (s *Snapshot) Apart(named, guarded func(id string) bool) *Snapshot {
	var at []int
	for i := range s.Interfaces {
		n := &s.Interfaces[i]
		if n.VMID != n.ID && named(n.ID) && n.Unsettable(s.OwnerID) == "" && (n.VMID == "" || !guarded(n.VMID)) {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return s
	}
	out := *s
	out.Interfaces, out.VMs = slices.Clone(s.Interfaces), slices.Clone(s.VMs)
	for _, i := range at {
		n := &out.Interfaces[i]
		if k, found := slices.BinarySearchFunc(s.VMs, n.VMID, func(v VM, id string) int { return cmp.Compare(v.ID, id) }); found {
			out.VMs[k].Interfaces = slices.DeleteFunc(slices.Clone(out.VMs[k].Interfaces), func(id string) bool { return id == n.ID })
		}
		n.VMID = n.ID
		out.VMs = append(out.VMs, VM{ID: n.ID, Name: n.Name(), NetworkID: n.NetworkID, State: VMRunning, Tags: n.Tags, Interfaces: []string{n.ID}})
	}
	slices.SortFunc(out.VMs, func(a, b VM) int { return cmp.Compare(a.ID, b.ID) })
	return &out
}

// Unsettable says why the groups of an interface in the snapshot of an account cannot be set, in
// words for people; empty if they can, as far as the interface itself tells. owner is the account's
// own number.
func (n *Interface) Unsettable(owner string) string {
	switch {
	case n.Service != "":
		return "it stands for a native service"
	case n.Managed:
		return "a service of the cloud has made it, which alone sets its security groups"
	case n.OwnerID != "" && owner != "" && n.OwnerID != owner:
		return "it is of the account " + Words(n.OwnerID)
	}
	return n.Untouchable
}

// Name is what the owner of an interface calls it: what comes last in an ID that is a path (Azure),
// else the tag Name.
func (n *Interface) Name() string {
	if at := strings.LastIndexByte(n.ID, '/'); at >= 0 {
		return n.ID[at+1:]
	}
	return n.Tags["Name"]
}
