package policy

import (
	"net/netip"
	"slices"
	"strings"
)

// ComputedPolicy is a policy as enforcers receive it. Its name is the UID of its source.
type ComputedPolicy struct {
	Source     PolicyRef
	Generation int64
	// TierPriority and Priority are nil for Kubernetes NetworkPolicies only.
	TierPriority *int32
	Priority     *float64
	// AppliedToGroups are names without duplicates, as appliedTo is written. Empty if every rule
	// has its own.
	AppliedToGroups []string
	// Rules are the ingress rules in order, then the egress rules in order, then the deny-all rules
	// of a Kubernetes NetworkPolicy. The copies of a rule with peers relative to the Namespace
	// stand together, with equal Priority.
	Rules []ComputedRule
}

// PolicyRef identifies the object a policy was made from.
type PolicyRef struct {
	Kind      PolicyKind
	Namespace string
	Name      string
	UID       string
}

// ComputedRule is one rule of a ComputedPolicy: what it says, which rules of other policies may
// say too, and its groups.
type ComputedRule struct {
	*RuleContent
	// AddressGroups are the groups of the Peer.
	AddressGroups   []string
	AppliedToGroups []string
}

// RuleContent is what a rule says but for its groups. It may be that of several rules.
type RuleContent struct {
	Direction Direction
	// Action is empty in the deny-all rule of a Kubernetes NetworkPolicy, which also has Priority
	// 0.
	Action Action
	// Priority is the index of the source rule in its direction; -1 in Kubernetes NetworkPolicies.
	Priority      int32
	EnableLogging bool
	// Services is the traffic matched; empty means all.
	Services    []ServiceMatch
	Name        string
	L7Protocols []L7Protocol
	LogLabel    string
	// IPBlocks, FQDNs and ToServices come from the Peer.
	IPBlocks   []CIDRBlock
	FQDNs      []string
	ToServices []NamespacedName
}

// NewRule returns a rule with a content, of which the parts of the peer are not looked at, and the
// peer.
func NewRule(c RuleContent, peer ComputedPeer, appliedTo []string) ComputedRule {
	c.IPBlocks, c.FQDNs, c.ToServices = peer.IPBlocks, peer.FQDNs, peer.ToServices
	return ComputedRule{RuleContent: &c, AddressGroups: peer.AddressGroups, AppliedToGroups: appliedTo}
}

// Peer returns the other end of the rule: where an ingress rule lets traffic come from, or an
// egress rule lets it go to.
func (r *ComputedRule) Peer() ComputedPeer {
	return ComputedPeer{AddressGroups: r.AddressGroups, IPBlocks: r.IPBlocks, FQDNs: r.FQDNs, ToServices: r.ToServices}
}

// ComputedPeer is the other end of a rule: the union of its parts. All parts empty: nothing.
type ComputedPeer struct {
	// AddressGroups are names in the order of the source peers; one occurs once per source peer
	// that resolves to it.
	AddressGroups []string
	IPBlocks      []CIDRBlock
	FQDNs         []string
	ToServices    []NamespacedName
}

// CIDRBlock is a parsed IPBlock. Host bits are kept as written.
type CIDRBlock struct {
	CIDR   netip.Prefix
	Except []netip.Prefix
}

// Contains reports whether the block, less its exceptions, contains the address.
func (b *CIDRBlock) Contains(a netip.Addr) bool {
	return b.CIDR.Contains(a) && !slices.ContainsFunc(b.Except, func(p netip.Prefix) bool { return p.Contains(a) })
}

// AnyContains reports whether one of the blocks contains the address, which may be none.
func AnyContains(blocks []CIDRBlock, a netip.Addr) bool {
	return a.IsValid() && slices.ContainsFunc(blocks, func(b CIDRBlock) bool { return b.Contains(a) })
}

// ServiceMatch is traffic of one protocol. Nil fields match anything.
type ServiceMatch struct {
	// Protocol is empty for a named port of any protocol.
	Protocol   Protocol
	Port       *PortRef
	EndPort    *int32
	SrcPort    *int32
	SrcEndPort *int32
	ICMPType   *int32
	ICMPCode   *int32
	IGMPType   *int32
	// GroupAddress is the multicast group of IGMP.
	GroupAddress string
}

// Member is a member of groups: one value for all of them. What it is in a group of one role, As
// tells. Its identity in the group is its reference together with what As leaves of its addresses
// (Node members of address groups: the addresses alone).
type Member struct {
	EntityRef
	// IPs do not count in applied-to groups.
	IPs   []netip.Addr
	Ports []NamedPort
	// Host is the key of the enforcer the member belongs to; it does not count in address groups.
	Host string
	// Everywhere marks a member of an applied-to group that belongs to every Node: a Service.
	Everywhere bool
	// Serial is a small number that tells the entities of one moment apart, for tables; 0 for a
	// Service. As leaves it out.
	Serial uint32
}

// As returns the member without what does not count in a group of the role.
func (m *Member) As(role GroupRole) Member {
	if role == AddressGroup {
		return Member{EntityRef: m.EntityRef, IPs: m.IPs, Ports: m.Ports}
	}
	return Member{EntityRef: m.EntityRef, Ports: m.Ports, Host: m.Host, Everywhere: m.Everywhere}
}

// On reports whether the member of an applied-to group is for the enforcer with the given key.
func (m *Member) On(key string) bool { return m.Everywhere || m.Host == key }

// GroupRole tells address groups (peers) from applied-to groups. Names are unique per role only.
type GroupRole uint8

// The roles of groups.
const (
	AddressGroup GroupRole = iota
	AppliedToGroup
)

// ChangeKind says what happened to an object since the last Commit.
type ChangeKind uint8

// The kinds of changes.
const (
	Added ChangeKind = iota + 1
	Updated
	Removed
)

// Delta is what one Commit changed. All lists are sorted: policies by UID, groups by name, members
// by reference, keys by text.
//
// To keep every enforcer consistent at any moment, apply AddressGroups that are added or widen
// their span first, then AppliedToGroups, then Policies, and removals in the opposite order.
type Delta struct {
	AddressGroups   []GroupDelta
	AppliedToGroups []GroupDelta
	Policies        []PolicyDelta
	// Problems has an entry for every policy and group whose errors or warnings changed. Objects
	// that never had any have none; a deleted object that had some gets an empty one.
	Problems []Problem
}

// Empty reports whether nothing changed.
func (d *Delta) Empty() bool {
	return len(d.AddressGroups)+len(d.AppliedToGroups)+len(d.Policies)+len(d.Problems) == 0
}

// PolicyDelta is the change of one policy, or of its span alone (Updated with Old == Policy).
type PolicyDelta struct {
	Change ChangeKind
	// Policy is the new value; if Removed, the last one.
	Policy *ComputedPolicy
	// Old is the former value; nil if Added.
	Old *ComputedPolicy
	// SpanAdded and SpanRemoved are the enforcer keys the policy begins and ceases to concern. If
	// Added, SpanAdded is the whole span; if Removed, SpanRemoved is.
	SpanAdded   []string
	SpanRemoved []string
	// SpanNumber, unless it is 0, is the same for all of the Changes that are Added with the same
	// SpanAdded. There is none in a Delta.
	SpanNumber uint32
}

// GroupDelta is the change of one group.
type GroupDelta struct {
	Change ChangeKind
	Role   GroupRole
	Name   string
	// UID is that of the Group or ClusterGroup the group was made from, else equal to Name. If that
	// object was deleted and made again between two Commits, the change is Updated, perhaps with
	// nothing new but this.
	UID string
	// Added are new members, members with a new host, and members with other named ports than
	// before under the same identity: a receiver overwrites what it holds. Removed are members that
	// left, in their last form. If the group is Removed both are empty.
	//
	// A member of an applied-to group that moves from one enforcer to another is in both lists,
	// with different hosts; For gives each enforcer its part.
	Added   []*Member
	Removed []*Member
	// SpanAdded, SpanRemoved and SpanNumber are as in PolicyDelta.
	SpanAdded   []string
	SpanRemoved []string
	SpanNumber  uint32
}

// Problem says what is wrong with a policy or group. A policy with a problem has no computed form.
type Problem struct {
	// Policy is set for a problem of a policy; otherwise Group is, with an empty Namespace for a
	// ClusterGroup.
	Policy PolicyRef
	Group  NamespacedName
	// Errors is empty when the problem is gone.
	Errors []FieldError
	// Warnings name references to groups that do not exist; the object is computed as if they were
	// empty.
	Warnings []FieldError
}

// ComputedGroup is the whole of a group, as listed.
type ComputedGroup struct {
	Role GroupRole
	Name string
	UID  string
	// Members are sorted by reference.
	Members []*Member
	// Span is the sorted set of enforcer keys the group is for.
	Span []string
	// Within are the Namespaces that its selector confines it to, sorted, the empty one for Nodes:
	// whatever there is, it has no member elsewhere. Nil means that it may have some anywhere.
	Within []string
	// Unseen says that there may be more members, of which nothing is known: an endpoint that is no
	// known entity may be one.
	Unseen bool
}

// PolicySpan is a computed policy with the sorted set of enforcer keys it is for.
type PolicySpan struct {
	*ComputedPolicy
	Span []string
}

// Listing is everything computed at one moment, sorted like Delta.
type Listing struct {
	Policies        []PolicySpan
	AddressGroups   []ComputedGroup
	AppliedToGroups []ComputedGroup
}

// For returns the part of the change that the enforcer with the given key sees; an empty key stands
// for a receiver of all keys. No member is in both lists under the same identity.
func (g *GroupDelta) For(key string) (added, removed []*Member) {
	if g.Role == AddressGroup {
		return g.Added, g.Removed
	}
	for _, m := range g.Added {
		if key == "" || m.On(key) {
			added = append(added, m)
		}
	}
	for _, m := range g.Removed {
		if key != "" {
			if m.On(key) {
				removed = append(removed, m)
			}
			continue
		}
		_, moved := slices.BinarySearchFunc(g.Added, m, CompareMembers)
		if !moved {
			removed = append(removed, m)
		}
	}
	return added, removed
}

// CompareRefs orders references: by kind, namespace and name.
func CompareRefs(a, b EntityRef) int {
	if a.Kind != b.Kind {
		return int(a.Kind) - int(b.Kind)
	}
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// CompareMembers orders members by reference.
func CompareMembers(a, b *Member) int { return CompareRefs(a.EntityRef, b.EntityRef) }
