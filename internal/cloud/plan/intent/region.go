package intent

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// Region is one region, indexed, with the caches of one computation.
type Region struct {
	*Account
	// Snap is the region as its owners mean it, and Whole the same with the rules that we have
	// added to their groups, TwinsNow.
	Snap, Whole *cloud.Snapshot
	TwinsNow    map[string][]cloud.Rule
	Limits      cloud.Limits
	// remembered is Observed.Former.
	remembered map[string][]string

	Networks map[string]*Network
	Groups   map[string]*cloud.Group
	Lists    map[string]*cloud.PrefixList
	NICs     []*NIC // sorted by ID
	Order    []*VM  // selected VMs, sorted by ID
	vms      map[string]*VM

	// Unknown are the interfaces whose record is not believed; see strangers.
	Unknown  []*NIC
	ByFormer map[string][]*NIC // native group -> interfaces that natively belong to it
	ByHeld   map[string][]*NIC // group -> interfaces that hold it now
	Pinned   map[string]bool   // groups of ours that must not be changed; see pin
	Noted    map[string][]Note // by object

	// What was worked out: the addresses of the peers of rules, of address groups, of those that
	// hold a group now or natively belong to it, of all interfaces, of services and of strangers,
	// as they are seen from a network, and those of prefix lists.
	peers                  Once[peerOf, addrset.Set]
	groups, held, former   Once[viewed, addrset.Set]
	all, services, unknown Once[*Network, addrset.Set]
	entries                Once[*cloud.PrefixList, addrset.Set]
	// What interfaces with the same groups allow now, what those shall allow that Decided does not
	// tell apart, and NativeMeaning.
	actual   Once[viewed, [2]flow.Permit]
	decided  Once[string, [2]flow.Permit]
	meanings Once[meaningOf, string]
}

// peerOf is the peer of a rule as it is seen from a network.
type peerOf struct {
	rule *rule
	view *Network
}

// viewed is what has a name, or an ID, as it is seen from a network.
type viewed struct {
	name string
	view *Network
}

// VM is a selected VM.
type VM struct {
	Ref      VMRef
	Observed *cloud.VM
	NICs     []*NIC
	Applied  []*Bound  // rules that apply, in the order of evaluation
	Policies []*Policy // those of the rules, in the order of evaluation
	Groups   []string  // address groups that it is a member of, sorted
	// Problems are the policies that cannot be expressed for this VM, with the reason.
	Problems map[*Policy]*Reason
}

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
	n := &NIC{Interface: in, Network: s.Networks[in.NetworkID], Private: addrset.Of(in.PrivateIPs...)}
	s.sortGroups(n)
	s.pin(n)
	if n.Network == nil {
		return
	}
	s.exclude(n)
	s.readRecord(n)
	s.suspend(n)
	s.NICs = append(s.NICs, n)
	if n.Unproven != nil {
		s.Unknown = append(s.Unknown, n)
	}
	for _, g := range n.Former {
		s.ByFormer[g] = append(s.ByFormer[g], n)
	}
	for _, g := range n.GroupIDs {
		s.ByHeld[g] = append(s.ByHeld[g], n)
	}
}

// sortGroups finds out which groups of the interface are ours, and whether others are those of
// another controller or account.
func (s *Region) sortGroups(n *NIC) {
	for _, id := range n.GroupIDs {
		g := s.Groups[id]
		if s.Ours(g) {
			n.Ours = append(n.Ours, id)
			continue
		}
		n.Foreign = append(n.Foreign, id)
		if g != nil && g.Tags[cloud.TagCluster] != "" && g.Tags[cloud.TagKind] != "" && strings.HasPrefix(g.Name, cloud.NamePrefix) {
			n.Elsewhere = Why(HeldElsewhere, n.ID, cloud.Words(g.Tags[cloud.TagCluster]), cloud.Words(g.Tags[cloud.TagAccount]))
		}
	}
	slices.Sort(n.Foreign)
}

// exclude says why the interface cannot be controlled at all. Of one that we guard and that is a
// service's only the record cannot be read.
func (s *Region) exclude(n *NIC) {
	if n.Elsewhere == nil && len(n.Ours) > 0 && (n.Managed || n.Unread != "") {
		n.Unproven = Why(OfService, n.ID)
	}
	switch {
	case n.Elsewhere != nil:
		n.Alien = n.Elsewhere
	case n.Managed && n.Unproven == nil:
		n.Alien = Why(OfService, n.ID)
	case n.Unread != "" && n.Unproven == nil:
		n.Alien = Why(Untouchable, n.ID).Quoting(n.Unread)
	case n.Untouchable != "":
		n.Alien = Why(Untouchable, n.ID).Quoting(n.Untouchable)
	}
}

// selectVMs makes the VMs that have an entity known, with their interfaces.
func (s *Region) selectVMs() {
	selected := make(map[string]bool, len(s.Snap.VMs))
	for _, among := range []map[EntityRef]VMRef{s.In.Entities, s.In.Services} {
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
		vm := &VM{Ref: VMRef{s.Snap.Region, v.ID}, Observed: v, NICs: nics[v.ID], Problems: map[*Policy]*Reason{}}
		position := func(n *NIC) int { return slices.Index(v.Interfaces, n.ID) }
		slices.SortStableFunc(vm.NICs, func(a, b *NIC) int { return position(a) - position(b) })
		s.vms[v.ID] = vm
		s.Order = append(s.Order, vm)
	}
}

// Owned reports whether the group is ours to change: of this controller and this account, and not
// pinned.
func (s *Region) Owned(g *cloud.Group) bool { return s.Ours(g) && !s.Pinned[g.ID] }

// Ours reports whether the group belongs to this controller and this account.
func (s *Region) Ours(g *cloud.Group) bool {
	return g != nil && g.OwnedBy(s.In.ClusterID) && g.Tags[cloud.TagAccount] == s.In.Account
}

// Folded returns a name in a form that is the same for names that differ in case only.
func Folded(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, name)
}

// ShortID is a short form of the cluster id that may stand in a group's name.
func ShortID(clusterID string) string {
	sum := sha256.Sum256([]byte(clusterID))
	return hex.EncodeToString(sum[:3])
}
