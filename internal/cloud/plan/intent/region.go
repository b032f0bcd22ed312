package intent

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/netip"
	"slices"
	"strconv"
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
	vms      map[string]*VM
	Order    []*VM // selected VMs, sorted by ID

	// unknown are the interfaces whose record is not believed; see strangers.
	Unknown       []*NIC
	strangerCache map[*Network]addrset.Set

	ByFormer map[string][]*NIC // native group -> interfaces that natively belong to it
	ByHeld   map[string][]*NIC // group -> interfaces that hold it now
	Pinned   map[string]bool   // groups of ours that must not be changed; see pin

	peerCache  map[peerKey]addrset.Set
	groupCache map[nativeKey]addrset.Set
	// holders are the interfaces by address; nil until somebody asks.
	holders     map[netip.Addr][]*NIC
	heldCache   map[nativeKey]addrset.Set
	formerCache map[nativeKey]addrset.Set
	entryCache  map[string]addrset.Set // of prefix lists
	actualCache map[string][2]flow.Permit
	permitCache map[string][2]flow.Permit
	meanings    map[meaningOf]string // see NativeMeaning
	Noted       map[string][]Note    // by object
}

type peerKey struct {
	rule *rule
	view *Network
}

type nativeKey struct {
	group string
	view  *Network
}

// Network is a VPC that is seen in the region.
type Network struct {
	*cloud.Network
	// scope are the networks whose interfaces can be referenced by group: itself and those with an
	// active peering in the region.
	Scope []*Network
	// local are the addresses of the networks of the scope.
	local addrset.Set
	// around are the addresses of all networks whose interfaces a group reference can match: those
	// of the scope, and those of other accounts with an active peering in the region.
	around addrset.Set
	// foreign says why we must not work here; nil if we may.
	Foreign *Reason
	nics    []*NIC
	// groupNames are the names in use, folded.
	GroupNames map[string]bool
}

// Reaches reports whether interfaces of another network can be referenced by group here.
func (n *Network) Reaches(o *Network) bool { return slices.Contains(n.Scope, o) }

// NIC is a network interface.
type NIC struct {
	*cloud.Interface
	Network *Network
	vm      *VM
	Private addrset.Set // addresses that group references cover
	all     addrset.Set // private and public
	// ours and foreign are the groups that it holds now.
	Ours, Foreign []string
	// former are its native groups: what its owner wants it to hold.
	Former []string
	// recorded is the content of the former-groups tag; nil without tag.
	Recorded []string
	// forged is set if the tag says something else than recorded, which is what is remembered or
	// was confirmed.
	Forged bool
	// unsigned is set if the tag is believed although it is not signed, and unproven says why it is
	// not believed, and nothing else is known.
	Unsigned bool
	Unproven *Reason
	// alien says why it cannot be controlled at all; nil if it can. elsewhere is that as far as
	// another controller or account is the reason.
	Alien, Elsewhere *Reason
	// Blocked is what the cloud says why it refuses to change it; empty if it does not. Under
	// control it stays as it is, else it is alien.
	Blocked string
	// released says why it must not hold anything of ours in the end; nil if it may.
	Released *Reason
}

// Taken reports whether the interface is under our control now.
func (n *NIC) Taken() bool { return len(n.Ours) > 0 && n.Recorded != nil }

// Refused says that the cloud refuses to change the interface.
func (n *NIC) Refused() *Reason {
	return Why(CloudRefuses, n.ID).Quoting(n.Blocked)
}

// Controlled reports whether the interface is under our control, though somebody may have put it
// into other groups. One that holds its own groups, with or without ours, is not: it may be half
// way to us, or back.
func (n *NIC) Controlled() bool {
	if n.Taken() {
		return slices.ContainsFunc(n.Recorded, func(id string) bool { return !slices.Contains(n.Foreign, id) })
	}
	return n.Recorded != nil && n.Alien == nil && !slices.Equal(n.Recorded, n.Foreign)
}

// HalfBack reports whether the interface has its own groups again, and still others that somebody
// has put it into while it was under control: giving it back is not done.
func (n *NIC) HalfBack() bool {
	return len(n.Ours) == 0 && n.Controlled() && len(without(n.Recorded, n.Foreign)) == 0
}

// VM is a selected VM.
type VM struct {
	Ref      VMRef
	Observed *cloud.VM
	entities []EntityRef
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
		Networks: map[string]*Network{}, Groups: map[string]*cloud.Group{}, Lists: map[string]*cloud.PrefixList{},
		ByFormer: map[string][]*NIC{}, ByHeld: map[string][]*NIC{},
		peerCache: map[peerKey]addrset.Set{}, groupCache: map[nativeKey]addrset.Set{}, entryCache: map[string]addrset.Set{},
		heldCache: map[nativeKey]addrset.Set{}, formerCache: map[nativeKey]addrset.Set{}, strangerCache: map[*Network]addrset.Set{},
		actualCache: map[string][2]flow.Permit{}, permitCache: map[string][2]flow.Permit{}, meanings: map[meaningOf]string{}, Noted: map[string][]Note{},
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
	return s
}

func (s *Region) indexNetworks() {
	for i := range s.Snap.Networks {
		n := &Network{Network: &s.Snap.Networks[i], GroupNames: map[string]bool{}}
		if by := n.Tags[cloud.TagClaim]; by != "" && by != s.In.ClusterID {
			n.Foreign = Why(NetworkClaimed, n.ID, cloud.Words(by))
		}
		n.Scope = []*Network{n}
		s.Networks[n.ID] = n
	}
	for _, p := range s.Snap.Peerings {
		a, b := s.Networks[p.A.NetworkID], s.Networks[p.B.NetworkID]
		if p.ByAddress || p.A.Region != p.B.Region && p.A.Region != "" && p.B.Region != "" {
			continue
		}
		switch {
		case a == nil && b == nil || a == b:
		case b == nil:
			a.sees(p.B)
		case a == nil:
			b.sees(p.A)
		case !a.Reaches(b):
			a.Scope, b.Scope = append(a.Scope, b), append(b.Scope, a)
		}
	}
	for _, n := range s.Networks {
		slices.SortFunc(n.Scope, func(a, b *Network) int { return strings.Compare(a.ID, b.ID) })
		for _, o := range n.Scope {
			n.local = n.local.Union(addrset.OfPrefixes(o.CIDRs...))
		}
		n.around = n.around.Union(n.local)
	}
}

// sees makes a network know the addresses of one that it is peered with; there may be any if the
// cloud does not tell.
func (n *Network) sees(far cloud.PeeringEnd) {
	if len(far.CIDRs) == 0 {
		n.around = addrset.All()
	}
	n.around = n.around.Union(addrset.OfPrefixes(far.CIDRs...))
}

// contains reports whether an address lies in the network itself.
func (n *Network) contains(a netip.Addr) bool {
	return slices.ContainsFunc(n.CIDRs, func(p netip.Prefix) bool { return p.Contains(a) })
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
		n.Network.nics = append(n.Network.nics, n)
	}
	slices.SortFunc(s.NICs, func(a, b *NIC) int { return strings.Compare(a.ID, b.ID) })
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
	n.Recorded = formerFromTags(n.Tags)
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

// formerTagSize is the length of a tag value in AWS, the shortest among the clouds.
const formerTagSize = 256

// Former returns the groups that an interface had before it was taken over, sorted, as its tags
// record them; nil without record.
func Former(n *cloud.Interface) []string { return formerFromTags(n.Tags) }

// formerFromTags reads the recorded groups of an interface; nil if nothing is recorded.
func formerFromTags(tags map[string]string) []string { return cloud.FormerGroups(tags) }

// FormerTagKey is the key of the i-th tag of the record of former groups.
func FormerTagKey(i int) string { return numbered(cloud.TagFormer, i) }

// numbered is the key of a tag's i-th continuation.
func numbered(key string, i int) string {
	if i == 0 {
		return key
	}
	return key + "." + strconv.Itoa(i)
}

// FormerTags are the tags that record the groups.
func FormerTags(groups []string) map[string]string {
	out := map[string]string{}
	for i, part := range formerParts(groups) {
		out[FormerTagKey(i)] = part
	}
	return out
}

// formerParts are the values of the tags that record the groups; there is at least one.
func formerParts(groups []string) (out []string) {
	value := strings.Join(groups, " ")
	for len(out) == 0 || value != "" {
		part := value[:min(len(value), formerTagSize-1)]
		if cut := strings.LastIndexByte(part, ' '); len(part) < len(value) && cut > 0 {
			part = part[:cut+1]
		}
		// Clouds may trim tag values, so the separator goes to the front of the next part.
		value = value[len(part):]
		if trimmed := strings.TrimRight(part, " "); trimmed != part {
			part, value = trimmed, " "+value
		}
		out = append(out, part)
	}
	return out
}

// HeldAddrs returns the addresses that a reference to the group means now.
func (s *Region) HeldAddrs(id string, view *Network) addrset.Set {
	return groupMembers(s.heldCache, s.ByHeld[id], nativeKey{id, view})
}

// FormerAddrs returns the addresses of the interfaces that natively belong to the group.
func (s *Region) FormerAddrs(id string, view *Network) addrset.Set {
	return groupMembers(s.formerCache, s.ByFormer[id], nativeKey{id, view})
}

func groupMembers(known map[nativeKey]addrset.Set, nics []*NIC, key nativeKey) addrset.Set {
	set, ok := known[key]
	if !ok {
		set = addrsOf(nics, key.view)
		known[key] = set
	}
	return set
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
