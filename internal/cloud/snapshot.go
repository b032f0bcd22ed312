package cloud

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Scope is what one Observe call covers: one region of one account.
type Scope struct {
	// Account is the Nephele account, "namespace/name" of the CloudProviderAccount.
	Account string
	// Region is the cloud's own region name, for example "us-west-2".
	Region string
}

// Snapshot is one region of one account as it was at ObservedAt: all of it, or it would have been
// an error. Slices are sorted by ID, except Rules, which are sorted by Rule.Compare, and
// References, which are sorted by group and peering.
type Snapshot struct {
	Scope
	// OwnerID is the cloud's own account number.
	OwnerID    string
	ObservedAt time.Time

	Networks    []Network
	Peerings    []Peering
	VMs         []VM
	Interfaces  []Interface
	Groups      []Group
	PrefixLists []PrefixList
	// GroupsBeside is how many more groups there are that count against Limits.GroupsPerRegion, as
	// of the last reading that was not of named objects only.
	GroupsBeside int
	// References are what rules of other cloud accounts refer to, over peerings. They may be older
	// than the rest, by as much as the slow full reading is.
	References []Reference
	// Services are the native services, sorted by ID, if the provider shows them; ServiceFaults say
	// which of them could not be read, sorted by API.
	Services      []Service
	ServiceFaults []ServiceFault
	// ServiceTags are the lists of addresses that the cloud keeps under a name, each sorted, if the
	// provider shows them and has ever read them. They are the same for all regions, which share
	// the map: it is never written to.
	ServiceTags map[string][]netip.Prefix
	// ACLs are the filters of subnets, where they come with the reading of a region; see ACLReader
	// for the others. No plan changes because of them.
	ACLs []NetworkACL
}

// WithGroups returns the snapshot with the given groups that it lacks.
func (s *Snapshot) WithGroups(groups []Group) *Snapshot {
	byID := func(a, b Group) int { return cmp.Compare(a.ID, b.ID) }
	there := func(g Group) bool { _, found := slices.BinarySearchFunc(s.Groups, g, byID); return found }
	out := *s
	out.Groups = slices.Concat(s.Groups, slices.DeleteFunc(slices.Clone(groups), there))
	slices.SortFunc(out.Groups, byID)
	return &out
}

// CountedGroups is how many groups count against Limits.GroupsPerRegion. Views are none.
func (s *Snapshot) CountedGroups() int {
	n := s.GroupsBeside
	for i := range s.Groups {
		if !s.Groups[i].View {
			n++
		}
	}
	return n
}

// Reference says that rules in a network of another cloud account refer to a group. The rules, and
// the interfaces that they apply to, are unknown.
type Reference struct {
	GroupID string
	// NetworkID and OwnerID are the other network and its account, PeeringID is the way to it.
	NetworkID, OwnerID, PeeringID string
}

// Network is a VPC (AWS) or a VNet (Azure).
type Network struct {
	ID   string
	Name string
	// UID is what identifies the network in a label, where ID cannot; empty means ID.
	UID string
	// OwnerID is the cloud account that owns the network; it differs from the snapshot's for shared
	// networks.
	OwnerID string
	CIDRs   []netip.Prefix
	Tags    map[string]string
}

// Peering is an active peering between two networks. Only active peerings appear in a snapshot.
type Peering struct {
	ID   string
	A, B PeeringEnd
	// ByAddress is true if rules of one network cannot refer to groups of the other over it, as on
	// Azure.
	ByAddress bool
}

// CarriesGroups reports whether rules of one network can refer to groups of the other. It takes an
// active peering in one region.
func (p *Peering) CarriesGroups() bool { return p.A.Region == p.B.Region && !p.ByAddress }

// PeeringEnd names one of the two networks of a peering.
type PeeringEnd struct {
	NetworkID string
	OwnerID   string
	Region    string
	// CIDRs are the blocks of the network; nil if the cloud does not tell.
	CIDRs []netip.Prefix
}

// VMState is the life-cycle state of a VM, in the words of the VirtualMachine API.
type VMState string

// The states of a VM. A terminated VM has no interfaces and is left out of snapshots.
const (
	VMPending      VMState = "starting"
	VMRunning      VMState = "running"
	VMStopping     VMState = "stopping"
	VMStopped      VMState = "stopped"
	VMShuttingDown VMState = "shutting down"
	VMUnknown      VMState = "unknown"
)

// VM is a virtual machine.
type VM struct {
	ID string
	// UID is what identifies the VM in a label, and in what the cloud attests about it, where ID
	// cannot; empty means ID.
	UID string
	// Created is when the VM was made; zero if the cloud does not say, or it does not matter there.
	Created time.Time
	// Name is the cloud's display name (AWS: the tag Name); it may be empty and need not be unique.
	Name      string
	NetworkID string
	State     VMState
	Tags      map[string]string
	// Interfaces are the IDs of the attached network interfaces, in device order.
	Interfaces []string
}

// Interface is a network interface (AWS: ENI). Security groups hang on interfaces, not on VMs.
type Interface struct {
	ID        string
	NetworkID string
	SubnetID  string
	OwnerID   string
	// VMID is the VM that the interface is attached to; empty for a detached interface or one of a
	// managed service.
	VMID string
	MAC  string
	// PrivateIPs are all addresses that a group reference covers, IPv4 and IPv6, primary first.
	PrivateIPs []netip.Addr
	// Prefixes are blocks of private addresses that the cloud has delegated to the interface. A
	// group reference covers them, too. They are sorted.
	Prefixes []netip.Prefix
	// PublicIPs are the public addresses translated to one of the private ones.
	PublicIPs []netip.Addr
	// GroupIDs are the security groups that the interface holds, sorted.
	GroupIDs []string
	Tags     map[string]string
	// Managed is true if a service of the cloud owns the interface (load balancer, database, ...)
	// and its groups cannot be set here.
	Managed bool
	// Front is true if this is no interface, but represents addresses of a service that has none of
	// its own, such as a front end of a load balancer of Azure. No selector of interfaces means it.
	Front bool
	// Service is the kind of the native service that the interface represents, all interfaces of
	// which hold its groups; see Snapshot.Joined. Empty for every other one.
	Service ServiceKind
	// Unread says why it is not known what it records, in words for people; empty if it is.
	Unread string
	// Alone is true if no other interface may hold the groups of ours that this one holds.
	Alone bool
	// Requester is the creator of a service's interface, and Type its type, both as the cloud names
	// them. They are empty for interfaces of VMs, and where the cloud does not say. Only the cloud
	// itself can set them.
	Requester, Type string
	// Untouchable says why its groups cannot be taken over although no service owns it, in words
	// for people; empty if they can.
	Untouchable string
	// Description is the cloud's free text, for messages to people.
	Description string
	// DNSName is the private name that the cloud gave it; empty if none is known.
	DNSName string
}

// HasPrivate reports whether an address is one of the private addresses of the interface, by itself
// or within a delegated block.
func (n *Interface) HasPrivate(a netip.Addr) bool {
	return slices.Contains(n.PrivateIPs, a) || slices.ContainsFunc(n.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Group is a security group. Where the meaning of a group depends on the interface, an adapter
// shows one Group for each interface; see GroupObject.
type Group struct {
	ID          string
	Name        string
	NetworkID   string
	OwnerID     string
	Description string
	Tags        map[string]string
	// Default is true for the group a network cannot be without.
	Default bool
	// View is true if this is what somebody else's group means to one interface. No other interface
	// can hold it, and no rule can name it.
	View bool
	// Deleted is true if the group is not there any more and an interface remembers it. Its rules
	// are what counts in its place, as the adapter documents.
	Deleted bool
	// Shows is the group that a view is of, and Holder the interface.
	Shows, Holder string
	Rules         []Rule
}

// CloudOwned is the owner of the prefix lists that the cloud itself keeps.
const CloudOwned = "AWS"

// PrefixList is a named set of CIDRs of one family that rules can refer to.
type PrefixList struct {
	ID   string
	Name string
	// OwnerID is the account that keeps the list, or CloudOwned.
	OwnerID string
	// MaxEntries is the size that a reference counts with against the quota of rules, whatever the
	// list holds; 0 if the cloud does not say.
	MaxEntries int
	// Entries are sorted; see Known.
	Entries []netip.Prefix
}

// Known reports whether Entries are all that the list holds; otherwise its entries could not be
// read.
func (l *PrefixList) Known() bool {
	return len(l.Entries) > 0 || l.OwnerID != CloudOwned && l.MaxEntries > 0
}

// Weight is what a reference to the list counts against the quota of rules.
func (l *PrefixList) Weight() int {
	if l.MaxEntries > 0 {
		return l.MaxEntries
	}
	return max(len(l.Entries), 1)
}
