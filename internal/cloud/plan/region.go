package plan

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// region is one region, indexed, with the caches of one computation.
type region struct {
	*computation
	// snap is the region as its owners mean it, and whole the same with the rules that we have added to their groups, twinsNow.
	snap, whole *cloud.Snapshot
	twinsNow    map[string][]cloud.Rule
	limits      cloud.Limits
	// remembered is Region.Former.
	remembered map[string][]string

	networks map[string]*network
	groups   map[string]*cloud.Group
	lists    map[string]*cloud.PrefixList
	nics     []*iface // sorted by ID
	vms      map[string]*machine
	order    []*machine // selected VMs, sorted by ID

	// unknown are the interfaces whose record is not believed; see strangers.
	unknown       []*iface
	strangerCache map[*network]addrset.Set

	byFormer map[string][]*iface // native group -> interfaces that natively belong to it
	// missed are the interfaces that the cloud refuses to change and that natively belong to a group which they do not hold, by group.
	missed map[string][]*iface
	byHeld map[string][]*iface // group -> interfaces that hold it now
	pinned map[string]bool     // groups of ours that must not be changed; see pin

	peerCache   map[peerKey]addrset.Set
	nativeCache map[nativeKey]addrset.Set
	groupCache  map[nativeKey]addrset.Set
	heldCache   map[nativeKey]addrset.Set
	formerCache map[nativeKey]addrset.Set
	entryCache  map[string]addrset.Set // of prefix lists
	actualCache map[string][2]flow.Permit
	halfCache   map[string][2]flow.Permit
	meanings    map[string]string // see nativeMeaning
	noted       map[Note]bool
}

type peerKey struct {
	rule *rule
	view *network
}

type nativeKey struct {
	group string
	view  *network
}

// network is a VPC that is seen in the region.
type network struct {
	*cloud.Network
	// scope are the networks whose interfaces can be referenced by group: itself and those with an active peering in the region.
	scope []*network
	// local are the addresses of the networks of the scope.
	local addrset.Set
	// around are the addresses of all networks whose interfaces a group reference can match: those of the scope, and those of other accounts with
	// an active peering in the region.
	around addrset.Set
	// foreign says why we must not work here; empty if we may.
	foreign string
	nics    []*iface
	// groupNames are the names in use, folded.
	groupNames map[string]bool
}

func (n *network) reaches(o *network) bool { return slices.Contains(n.scope, o) }

// iface is a network interface.
type iface struct {
	*cloud.Interface
	network *network
	vm      *machine
	private addrset.Set // addresses that group references cover
	all     addrset.Set // private and public
	// ours and foreign are the groups that it holds now.
	ours, foreign []string
	// former are its native groups: what its owner wants it to hold.
	former []string
	// recorded is the content of the former-groups tag; nil without tag.
	recorded []string
	// forged is set if the tag says something else than recorded, which is what is remembered or was confirmed.
	forged bool
	// unsigned is set if the tag is believed although it is not signed, and unproven says why it is not believed, and nothing else is known.
	unsigned bool
	unproven string
	// alien says why it cannot be controlled at all; empty if it can. elsewhere is that as far as another controller or account is the reason.
	alien, elsewhere string
	// blocked is what the cloud says why it refuses to change it; empty if it does not.
	blocked string
	// released says why it must not hold anything of ours in the end; empty if it may.
	released string
}

// taken reports whether the interface is under our control now.
func (n *iface) taken() bool { return len(n.ours) > 0 && n.recorded != nil }

// controlled reports whether the interface is under our control, though somebody may have put it into
// other groups. One that holds just its own groups again is not: it may be half way to us, or back.
func (n *iface) controlled() bool {
	return n.taken() || n.recorded != nil && n.alien == "" && !slices.Equal(n.recorded, n.foreign)
}

// machine is a selected VM.
type machine struct {
	ref      VMRef
	vm       *cloud.VM
	entities []EntityRef
	nics     []*iface
	applied  []*bound  // rules that apply, in the order of evaluation
	policies []*policy // those of the rules, in the order of evaluation
	groups   []string  // address groups that it is a member of, sorted
	// problems are the policies that cannot be expressed for this VM, with the reason.
	problems map[*policy]string
}

func newRegion(c *computation, r Region) *region {
	s := &region{
		computation: c, whole: r.Snapshot, limits: r.Limits, remembered: r.Former,
		networks: map[string]*network{}, groups: map[string]*cloud.Group{}, lists: map[string]*cloud.PrefixList{},
		vms: map[string]*machine{}, byFormer: map[string][]*iface{}, missed: map[string][]*iface{}, byHeld: map[string][]*iface{},
		peerCache: map[peerKey]addrset.Set{}, nativeCache: map[nativeKey]addrset.Set{}, groupCache: map[nativeKey]addrset.Set{}, entryCache: map[string]addrset.Set{},
		heldCache: map[nativeKey]addrset.Set{}, formerCache: map[nativeKey]addrset.Set{}, strangerCache: map[*network]addrset.Set{},
		actualCache: map[string][2]flow.Permit{}, halfCache: map[string][2]flow.Permit{}, meanings: map[string]string{}, noted: map[Note]bool{},
	}
	s.snap, s.twinsNow = c.withoutTwins(r.Snapshot)
	s.indexNetworks()
	for i := range s.snap.Groups {
		g := &s.snap.Groups[i]
		s.groups[g.ID] = g
		if n := s.networks[g.NetworkID]; n != nil {
			n.groupNames[folded(g.Name)] = true
		}
	}
	for i := range s.snap.PrefixLists {
		s.lists[s.snap.PrefixLists[i].ID] = &s.snap.PrefixLists[i]
	}
	s.pin()
	s.indexInterfaces()
	return s
}

func (s *region) quota() Quota { return Quota{s.limits, s.lists} }

func (s *region) indexNetworks() {
	for i := range s.snap.Networks {
		n := &network{Network: &s.snap.Networks[i], groupNames: map[string]bool{}}
		if by := n.Tags[cloud.TagClaim]; by != "" && by != s.in.ClusterID {
			n.foreign = "the network " + n.ID + " is claimed by the controller " + cloud.Words(by) + " (tag " + cloud.TagClaim + ")"
		}
		n.scope = []*network{n}
		s.networks[n.ID] = n
	}
	for _, p := range s.snap.Peerings {
		a, b := s.networks[p.A.NetworkID], s.networks[p.B.NetworkID]
		if p.A.Region != p.B.Region && p.A.Region != "" && p.B.Region != "" {
			continue
		}
		switch {
		case a == nil && b == nil || a == b:
		case b == nil:
			a.sees(p.B)
		case a == nil:
			b.sees(p.A)
		case !a.reaches(b):
			a.scope, b.scope = append(a.scope, b), append(b.scope, a)
		}
	}
	for _, n := range s.networks {
		slices.SortFunc(n.scope, func(a, b *network) int { return strings.Compare(a.ID, b.ID) })
		for _, o := range n.scope {
			n.local = n.local.Union(addrset.OfPrefixes(o.CIDRs...))
		}
		n.around = n.around.Union(n.local)
	}
}

// sees makes a network know the addresses of one that it is peered with; there may be any if the cloud does not tell.
func (n *network) sees(far cloud.PeeringEnd) {
	if len(far.CIDRs) == 0 {
		n.around = addrset.All()
	}
	n.around = n.around.Union(addrset.OfPrefixes(far.CIDRs...))
}

// contains reports whether an address lies in the network itself.
func (n *network) contains(a netip.Addr) bool {
	return slices.ContainsFunc(n.CIDRs, func(p netip.Prefix) bool { return p.Contains(a) })
}

func (s *region) indexInterfaces() {
	for i := range s.snap.Interfaces {
		in := &s.snap.Interfaces[i]
		n := &iface{Interface: in, network: s.networks[in.NetworkID]}
		if n.network == nil {
			continue
		}
		n.private = addrset.Of(in.PrivateIPs...)
		n.all = n.private.Union(addrset.Of(in.PublicIPs...))
		s.sortGroups(n)
		s.suspend(n)
		s.nics = append(s.nics, n)
		n.network.nics = append(n.network.nics, n)
	}
	slices.SortFunc(s.nics, func(a, b *iface) int { return strings.Compare(a.ID, b.ID) })
	for _, n := range s.nics {
		if n.unproven != "" {
			s.unknown = append(s.unknown, n)
		}
		for _, g := range n.former {
			s.byFormer[g] = append(s.byFormer[g], n)
		}
		for _, g := range n.GroupIDs {
			s.byHeld[g] = append(s.byHeld[g], n)
		}
		if n.blocked == "" || !n.taken() {
			continue
		}
		for _, g := range n.recorded {
			if !slices.Contains(n.GroupIDs, g) {
				s.missed[g] = append(s.missed[g], n)
			}
		}
	}
}

// owned reports whether the group is ours to change: of this controller and this account, and not pinned.
func (s *region) owned(g *cloud.Group) bool { return s.ours(g) && !s.pinned[g.ID] }

// sortGroups finds out which groups of the interface are ours and what its native groups are.
func (s *region) sortGroups(n *iface) {
	for _, id := range n.GroupIDs {
		g := s.groups[id]
		switch {
		case s.ours(g):
			n.ours = append(n.ours, id)
		case g != nil && g.Tags[cloud.TagCluster] != "" && g.Tags[cloud.TagKind] != "" && strings.HasPrefix(g.Name, cloud.NamePrefix):
			n.alien = "the interface " + n.ID + " is held by the controller " + cloud.Words(g.Tags[cloud.TagCluster]) + " for the account " + cloud.Words(g.Tags[cloud.TagAccount])
			n.elsewhere = n.alien
			n.foreign = append(n.foreign, id)
		default:
			n.foreign = append(n.foreign, id)
		}
	}
	if n.Managed {
		n.alien = "the interface " + n.ID + " belongs to a service of the cloud, its groups cannot be set"
	}
	slices.Sort(n.foreign)
	n.recorded = formerFromTags(n.Tags)
	if known, ok := s.remembered[n.ID]; ok && len(n.ours) > 0 && n.alien == "" &&
		(!slices.Equal(known, n.recorded) || known != nil && !s.in.Seal.Believes(s.snap.Region, n.Interface)) {
		n.recorded, n.forged = known, true
	}
	s.judge(n)
	n.former = n.foreign
	if n.recorded != nil && n.alien == "" && (len(n.ours) > 0 || !slices.Equal(n.recorded, n.foreign)) {
		n.former = n.recorded
	}
}

// formerTagSize is the length of a tag value in AWS, the shortest among the clouds.
const formerTagSize = 256

// Former returns the groups that an interface had before it was taken over, sorted, as its tags record them; nil without record.
func Former(n *cloud.Interface) []string { return formerFromTags(n.Tags) }

// formerFromTags reads the recorded groups of an interface; nil if nothing is recorded.
func formerFromTags(tags map[string]string) []string {
	value, ok := tags[cloud.TagFormer]
	if !ok {
		return nil
	}
	for i := 1; ; i++ {
		more, ok := tags[formerTagKey(i)]
		if !ok {
			break
		}
		value += more
	}
	out := strings.Fields(value)
	slices.Sort(out)
	return slices.Compact(out)
}

func formerTagKey(i int) string { return numbered(cloud.TagFormer, i) }

// numbered is the key of a tag's i-th continuation.
func numbered(key string, i int) string {
	if i == 0 {
		return key
	}
	return key + "." + strconv.Itoa(i)
}

// formerTags are the tags that record the groups.
func formerTags(groups []string) map[string]string {
	value := strings.Join(groups, " ")
	out := map[string]string{}
	for i := 0; i == 0 || value != ""; i++ {
		part := value[:min(len(value), formerTagSize-1)]
		if cut := strings.LastIndexByte(part, ' '); len(part) < len(value) && cut > 0 {
			part = part[:cut+1]
		}
		// Clouds may trim tag values, so the separator goes to the front of the next part.
		value = value[len(part):]
		if trimmed := strings.TrimRight(part, " "); trimmed != part {
			part, value = trimmed, " "+value
		}
		out[formerTagKey(i)] = part
	}
	return out
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
