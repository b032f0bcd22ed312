package intent

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/netip"
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
	// snap is the region as its owners mean it, and whole the same with the rules that we have
	// added to their groups, twinsNow.
	Snap, Whole *cloud.Snapshot
	TwinsNow    map[string][]cloud.Rule
	Limits      cloud.Limits
	// remembered is Region.Former.
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

	// What was worked out: the addresses of peers, of address groups, of prefix lists, of those that
	// hold a group or natively belong to it, and of strangers; what interfaces allow now and what
	// they shall allow; and NativeMeaning.
	peers        Once[peerOf, addrset.Set]
	groups       Once[viewed, addrset.Set]
	entries      Once[*cloud.PrefixList, addrset.Set]
	held, former Once[viewed, addrset.Set]
	unknown      Once[*Network, addrset.Set]
	actual       Once[viewed, [2]flow.Permit] // by the IDs of groups
	decided      Once[string, [2]flow.Permit]
	meanings     Once[meaningOf, string]
	// holders are the interfaces by address; nil until somebody asks.
	holders map[netip.Addr][]*NIC
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
	// problems are the policies that cannot be expressed for this VM, with the reason.
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
	s.pin()
	s.indexInterfaces()
	s.selectVMs()
	return s
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

func (s *Region) indexInterfaces() {
	all := make([]NIC, len(s.Snap.Interfaces))
	s.NICs = make([]*NIC, 0, len(all))
	for i := range s.Snap.Interfaces {
		in, n := &s.Snap.Interfaces[i], &all[i]
		if n.Interface, n.Network = in, s.Networks[in.NetworkID]; n.Network == nil {
			continue
		}
		n.Private = addrset.Of(in.PrivateIPs...)
		n.all = n.Private.Union(addrset.Of(in.PublicIPs...))
		s.sortGroups(n)
		s.suspend(n)
		s.NICs = append(s.NICs, n)
	}
	for _, n := range s.NICs {
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
}

// Owned reports whether the group is ours to change: of this controller and this account, and not
// pinned.
func (s *Region) Owned(g *cloud.Group) bool { return s.Ours(g) && !s.Pinned[g.ID] }

// sortGroups finds out which groups of the interface are ours and what its native groups are.
func (s *Region) sortGroups(n *NIC) {
	for _, id := range n.GroupIDs {
		g := s.Groups[id]
		switch {
		case s.Ours(g):
			n.Ours = append(n.Ours, id)
		case g != nil && g.Tags[cloud.TagCluster] != "" && g.Tags[cloud.TagKind] != "" && strings.HasPrefix(g.Name, cloud.NamePrefix):
			n.Alien = Why(HeldElsewhere, n.ID, cloud.Words(g.Tags[cloud.TagCluster]), cloud.Words(g.Tags[cloud.TagAccount]))
			n.Elsewhere = n.Alien
			n.Foreign = append(n.Foreign, id)
		default:
			n.Foreign = append(n.Foreign, id)
		}
	}
	switch {
	case n.Alien != nil || !n.Managed && n.Unread == "":
	case len(n.Ours) > 0: // a service that we guard, whose record cannot be read
		n.Unproven = Why(OfService, n.ID)
	case n.Managed:
		n.Alien = Why(OfService, n.ID)
	default:
		n.Alien = Why(Untouchable, n.ID).Quoting(n.Unread)
	}
	if n.Untouchable != "" && n.Alien == nil {
		n.Alien = Why(Untouchable, n.ID).Quoting(n.Untouchable)
	}
	slices.Sort(n.Foreign)
	n.Recorded = Former(n.Interface)
	if known, ok := s.remembered[n.ID]; ok && len(n.Ours) > 0 && n.Alien == nil &&
		(!slices.Equal(known, n.Recorded) || known != nil && !s.In.Seal.Believes(s.Snap.Region, n.Interface)) {
		n.Recorded, n.Forged = known, true
	}
	if n.Forged && n.Recorded != nil || s.In.Seal.Proves(s.Snap.Region, n.Interface) {
		n.Unproven = nil // it is remembered, or was read before
	}
	if n.Unproven == nil {
		s.judge(n)
	} else {
		n.Recorded = []string{}
	}
	n.Former = n.Foreign
	if n.Recorded != nil && n.Alien == nil && (len(n.Ours) > 0 || !slices.Equal(n.Recorded, n.Foreign)) {
		n.Former = n.Recorded
	}
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

// without returns the elements of a that are not in b.
func without[T comparable](a, b []T) []T {
	var out []T
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
