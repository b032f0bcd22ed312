package intent

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
	"github.com/nephele-io/nephele/internal/cloud/plan/reason"
)

func newRegion(c *Account, r Observed) *Region {
	s := &Region{
		Account: c, Whole: r.Snapshot, Limits: r.Limits, remembered: r.Former,
		Networks: map[string]*Network{}, Groups: map[string]*cloud.Group{}, Lists: map[string]*cloud.PrefixList{}, vms: map[string]*VM{},
		ByFormer: map[string][]*NIC{}, ByHeld: map[string][]*NIC{}, Pinned: map[string]bool{}, Noted: map[string][]Note{},
	}
	s.Snap, s.TwinsNow = c.withoutTwins(r.Snapshot)
	s.indexNetworks()
	for i := range s.Snap.Groups {
		g := &s.Snap.Groups[i]
		s.Groups[g.ID] = g
		if n := s.Networks[g.NetworkID]; n != nil {
			n.GroupNames[Folded(g.Name)] = true
		}
	}
	for i := range s.Snap.PrefixLists {
		s.Lists[s.Snap.PrefixLists[i].ID] = &s.Snap.PrefixLists[i]
	}
	for i := range s.Snap.Interfaces {
		s.addInterface(&s.Snap.Interfaces[i])
	}
	s.selectVMs()
	return s
}

// addInterface finds out what an interface holds, and what may be done to it.
func (s *Region) addInterface(in *cloud.Interface) {
	n := &NIC{Interface: in, Network: s.Networks[in.NetworkID], Private: model.Private(in)}
	s.sortGroups(n)
	s.pin(n)
	if n.Network == nil {
		return
	}
	s.exclude(n)
	s.readRecord(n)
	s.suspend(n)
	if n.Record.Unproven != nil && n.Record.Unproven.Code == reason.OfService {
		s.OfUnread = append(s.OfUnread, n)
	}
	s.NICs = append(s.NICs, n)
	for _, g := range n.Groups.Former {
		s.ByFormer[g] = append(s.ByFormer[g], n)
	}
	for _, g := range n.GroupIDs {
		s.ByHeld[g] = append(s.ByHeld[g], n)
	}
}

// sortGroups finds out which groups of the interface are ours, and whether others belong to
// another controller or account.
func (s *Region) sortGroups(n *NIC) {
	for _, id := range n.GroupIDs {
		g := s.Groups[id]
		if s.Ours(g) {
			n.Groups.Ours = append(n.Groups.Ours, id)
			continue
		}
		n.Groups.Foreign = append(n.Groups.Foreign, id)
		if g != nil && g.Tags[cloud.TagCluster] != "" && g.Tags[cloud.TagKind] != "" && strings.HasPrefix(g.Name, cloud.NamePrefix) {
			n.Alien = reason.Why(reason.HeldElsewhere, n.ID, cloud.Words(g.Tags[cloud.TagCluster]), cloud.Words(g.Tags[cloud.TagAccount]))
		}
	}
	slices.Sort(n.Groups.Foreign)
}

// exclude says why the interface cannot be controlled at all. Of one that we guard and that is a
// service's only the record cannot be read.
func (s *Region) exclude(n *NIC) {
	if n.Alien == nil && len(n.Groups.Ours) > 0 && (n.Managed || n.Unread != "") {
		n.Record.Unproven = reason.Why(reason.OfService, n.ID)
	}
	switch {
	case n.Alien != nil:
	case n.Managed && n.Record.Unproven == nil:
		n.Alien = reason.Why(reason.OfService, n.ID)
	case n.Unread != "" && n.Record.Unproven == nil:
		n.Alien = reason.Why(reason.Untouchable, n.ID).Quoting(n.Unread)
	case n.Untouchable != "":
		n.Alien = reason.Why(reason.Untouchable, n.ID).Quoting(n.Untouchable)
	}
}

// selectVMs makes the VMs that have an entity known, with their interfaces.
func (s *Region) selectVMs() {
	selected := make(map[string]bool, len(s.Snap.VMs))
	for _, among := range []map[EntityRef]VMRef{s.Account.In.Entities, s.Account.In.Services} {
		for _, ref := range among {
			selected[ref.ID] = selected[ref.ID] || ref.Region == s.Snap.Region
		}
	}
	nics := make(map[string][]*NIC, len(s.Snap.VMs))
	for _, n := range s.NICs {
		nics[n.VMID] = append(nics[n.VMID], n)
	}
	for i := range s.Snap.VMs {
		v := &s.Snap.VMs[i]
		if !selected[v.ID] {
			continue
		}
		vm := &VM{Ref: VMRef{s.Snap.Region, v.ID}, Observed: v, NICs: nics[v.ID], Problems: map[*Policy]*reason.Reason{}}
		position := func(n *NIC) int { return slices.Index(v.Interfaces, n.ID) }
		slices.SortStableFunc(vm.NICs, func(a, b *NIC) int { return position(a) - position(b) })
		s.vms[v.ID] = vm
		s.Order = append(s.Order, vm)
	}
}
