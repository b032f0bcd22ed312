package watchstore

import (
	"net"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// Resource names one of the watchable kinds, as it stands in the path of the API.
type Resource string

// The resources.
const (
	NetworkPolicies Resource = "networkpolicies"
	AddressGroups   Resource = "addressgroups"
	AppliedToGroups Resource = "appliedtogroups"
)

// kinds is the number of resources.
const kinds = 3

// Resources returns all of them, in the order in which additions are published.
func Resources() []Resource { return []Resource{AddressGroups, AppliedToGroups, NetworkPolicies} }

// index is the place of a resource among Resources.
func (r Resource) index() (int, bool) {
	switch r {
	case AddressGroups:
		return 0, true
	case AppliedToGroups:
		return 1, true
	case NetworkPolicies:
		return 2, true
	}
	return 0, false
}

// Changes are what one Publish changes. The store keeps what it is given: the caller must not
// modify it afterwards.
type Changes struct {
	AddressGroups   []GroupChange
	AppliedToGroups []GroupChange
	Policies        []PolicyChange
}

// Empty reports whether nothing changes.
func (c Changes) Empty() bool {
	return len(c.AddressGroups)+len(c.AppliedToGroups)+len(c.Policies) == 0
}

// PolicySource makes a policy when it is needed: a store of a hundred thousand policies, most of
// which no watcher needs at the moment, need not hold them as they are on the wire. It may be
// called at any time by any goroutine.
type PolicySource interface {
	// NetworkPolicy makes it in a room, which may hold a policy that is no longer needed.
	NetworkPolicy(*PolicyRoom) *v1beta2.NetworkPolicy
	// Identity makes it with no more than its name, uid, generation and SourceRef, in a room too.
	Identity(*PolicyRoom) *v1beta2.NetworkPolicy
}

// PolicyRoom is a piece of memory for a policy and for what most policies point at.
type PolicyRoom struct {
	Policy v1beta2.NetworkPolicy
	Source v1beta2.NetworkPolicyReference
	Rules  []v1beta2.NetworkPolicyRule
}

// PolicyChange adds, replaces or removes one policy.
type PolicyChange struct {
	// Policy is the new value, unless Source is given. Of a removed policy, only the metadata and
	// SourceRef are used.
	Policy *v1beta2.NetworkPolicy
	// Name and Source replace Policy.
	Name   string
	Source PolicySource
	// Removed says that the policy is gone.
	Removed bool
	// SpanAdded and SpanRemoved are the enforcer keys that the policy begins and ceases to concern.
	SpanAdded   []string
	SpanRemoved []string
	// SpanNumber, unless it is 0, says that all objects with the same one in the same Publish are
	// new and have the same SpanAdded. Numbers are small.
	SpanNumber uint32
}

// source returns the name of the policy and what makes it.
func (c *PolicyChange) source() (string, PolicySource) {
	if c.Source != nil {
		return c.Name, c.Source
	}
	return c.Policy.Name, givenPolicy{c.Policy}
}

// givenPolicy is a policy that there is already.
type givenPolicy struct{ policy *v1beta2.NetworkPolicy }

// Identity implements PolicySource.
func (g givenPolicy) Identity(room *PolicyRoom) *v1beta2.NetworkPolicy {
	room.Policy = v1beta2.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: g.policy.Name, UID: g.policy.UID, Generation: g.policy.Generation},
		SourceRef:  g.policy.SourceRef,
	}
	return &room.Policy
}

// NetworkPolicy implements PolicySource.
func (g givenPolicy) NetworkPolicy(room *PolicyRoom) *v1beta2.NetworkPolicy {
	room.Policy = *g.policy
	return &room.Policy
}

// GroupChange adds, changes or removes one group.
type GroupChange struct {
	Name string
	UID  types.UID
	// Deleted says that the group is gone; the lists of members are then not looked at.
	Deleted bool
	// Added are new members, and members that take the place of one of the same identity. Removed
	// are members that left. A member that moves to another host is in both.
	Added   []Member
	Removed []Member
	// SpanAdded and SpanRemoved are the enforcer keys that the group begins and ceases to concern,
	// SpanNumber is as in PolicyChange.
	SpanAdded   []string
	SpanRemoved []string
	SpanNumber  uint32
}

// MemberKind is what a member is. The numeric order is the order in which kinds are listed.
type MemberKind uint8

// The kinds of members. KindNone is a plain address.
const (
	KindNone MemberKind = iota
	KindExternalEntity
	KindPod
	KindNode
	KindService
)

// Member is a member of a group as its maker holds it: the store makes the object that enforcers
// receive when somebody is to have it. It may be a member of several groups. It never changes, may
// be called by any goroutine, and is comparable: equal members are the same.
type Member interface {
	// Reference says what the member is.
	Reference() (kind MemberKind, namespace, name string)
	// Place says which keys see the member of an applied-to group: the enforcer with the key host;
	// if that is empty, only watches without key; with everywhere, every key that the group
	// concerns. Address groups do not ask.
	Place() (host string, everywhere bool)
	// Shape returns the number of addresses, and how many bytes the names of the ports have with
	// PortBytes for each port; Address returns one of the addresses, an IPv4 address as
	// ::ffff:a.b.c.d.
	Shape() (addresses, ports int)
	Address(i int) [16]byte
	// Fill writes the member as enforcers receive it into a zero one, with what the room has.
	Fill(to *v1beta2.GroupMember, room *Room)
}

// PortBytes is about how much a named port takes in JSON besides its name.
const PortBytes = 50

// GivenMember is a member that there is already as enforcers receive it.
type GivenMember struct {
	v1beta2.GroupMember
	// Host and Everywhere are what Place returns.
	Host       string
	Everywhere bool
}

// Reference implements Member.
func (m *GivenMember) Reference() (kind MemberKind, namespace, name string) {
	switch {
	case m.ExternalEntity != nil:
		return KindExternalEntity, m.ExternalEntity.Namespace, m.ExternalEntity.Name
	case m.Pod != nil:
		return KindPod, m.Pod.Namespace, m.Pod.Name
	case m.Node != nil:
		return KindNode, "", m.Node.Name
	case m.Service != nil:
		return KindService, m.Service.Namespace, m.Service.Name
	}
	return KindNone, "", ""
}

// Place implements Member.
func (m *GivenMember) Place() (host string, everywhere bool) { return m.Host, m.Everywhere }

// Shape implements Member.
func (m *GivenMember) Shape() (addresses, ports int) {
	for i := range m.Ports {
		ports += PortBytes + len(m.Ports[i].Name)
	}
	return len(m.IPs), ports
}

// Address implements Member.
func (m *GivenMember) Address(i int) [16]byte {
	var out [16]byte
	copy(out[:], net.IP(m.IPs[i]).To16())
	return out
}

// Fill implements Member.
func (m *GivenMember) Fill(to *v1beta2.GroupMember, _ *Room) { *to = m.GroupMember }

// Room is what members that are sent together point at: it is made for many of them at a time. The
// zero Room is made for each.
type Room struct {
	// left is how many members there may be yet.
	left int
	pods []v1beta2.PodReference
	at   []podAt
	// scratch, if not nil, keeps what is made.
	scratch *Scratch
}

// podAt is what a Pod with one address points at.
type podAt struct {
	pod   v1beta2.PodReference
	ips   [1]v1beta2.IPAddress
	bytes [16]byte
}

// maxRoom is the number of members for which room is made at a time.
const maxRoom = 64

func roomFor(members int) Room { return Room{left: members} }

// some is the number of members for which to make room now.
func (r *Room) some() int {
	if r.scratch != nil {
		return maxRoom
	}
	return max(1, min(r.left, maxRoom))
}

// append writes a member behind others.
func (r *Room) append(to []v1beta2.GroupMember, m Member) []v1beta2.GroupMember {
	to = append(to, v1beta2.GroupMember{})
	m.Fill(&to[len(to)-1], r)
	r.left--
	return to
}

// Pod makes the member a Pod without addresses.
func (r *Room) Pod(m *v1beta2.GroupMember, namespace, name string) {
	if len(r.pods) == 0 {
		r.pods = make([]v1beta2.PodReference, r.some())
		if r.scratch != nil {
			r.scratch.pods = r.pods
		}
	}
	m.Pod, r.pods = &r.pods[0], r.pods[1:]
	m.Pod.Namespace, m.Pod.Name = namespace, name
}

// PodAt makes the member a Pod with one address.
func (r *Room) PodAt(m *v1beta2.GroupMember, namespace, name string, address [16]byte) {
	if len(r.at) == 0 {
		r.at = make([]podAt, r.some())
		if r.scratch != nil {
			r.scratch.at = r.at
		}
	}
	var x *podAt
	x, r.at = &r.at[0], r.at[1:]
	x.pod, x.bytes = v1beta2.PodReference{Namespace: namespace, Name: name}, address
	x.ips[0] = x.bytes[:]
	m.Pod, m.IPs = &x.pod, x.ips[:]
}
