package watchstore

import (
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

// Resources returns all of them, in the order in which additions are published.
func Resources() []Resource { return []Resource{AddressGroups, AppliedToGroups, NetworkPolicies} }

// Changes are what one Publish changes. The store keeps what it is given: the caller must not modify it afterwards.
type Changes struct {
	AddressGroups   []GroupChange
	AppliedToGroups []GroupChange
	Policies        []PolicyChange
}

// Empty reports whether nothing changes.
func (c Changes) Empty() bool {
	return len(c.AddressGroups)+len(c.AppliedToGroups)+len(c.Policies) == 0
}

// PolicyChange adds, replaces or removes one policy.
type PolicyChange struct {
	// Policy is the new value. Of a removed policy, only the metadata and SourceRef are used.
	Policy *v1beta2.NetworkPolicy
	// Removed says that the policy is gone.
	Removed bool
	// SpanAdded and SpanRemoved are the enforcer keys that the policy begins and ceases to concern.
	SpanAdded   []string
	SpanRemoved []string
}

// GroupChange adds, changes or removes one group.
type GroupChange struct {
	Name string
	UID  types.UID
	// Deleted says that the group is gone; the lists of members are then not looked at.
	Deleted bool
	// Added are new members, and members that take the place of one of the same identity. Removed are members that
	// left. A member that moves to another host is in both.
	Added   []*Member
	Removed []*Member
	// SpanAdded and SpanRemoved are the enforcer keys that the group begins and ceases to concern.
	SpanAdded   []string
	SpanRemoved []string
}

// Member is a member of a group, and of an applied-to group also whose it is.
type Member struct {
	v1beta2.GroupMember
	// Host is the key of the enforcer that the member of an applied-to group belongs to. Empty: nobody's, it is seen by
	// watches without key only.
	Host string
	// Everywhere marks a member of an applied-to group that belongs to every key the group concerns.
	Everywhere bool
}

// identity is what tells members of one group apart: the reference and the addresses; for Nodes, the addresses alone.
func (m *Member) identity() string {
	b := make([]byte, 0, 96)
	switch {
	case m.Pod != nil:
		b = append(append(append(append(b, "Pod:"...), m.Pod.Namespace...), '/'), m.Pod.Name...)
	case m.ExternalEntity != nil:
		b = append(append(append(append(b, "ExternalEntity:"...), m.ExternalEntity.Namespace...), '/'), m.ExternalEntity.Name...)
	case m.Service != nil:
		b = append(append(append(append(b, "Service:"...), m.Service.Namespace...), '/'), m.Service.Name...)
	case m.Node != nil && len(m.IPs) == 0:
		b = append(append(b, "Node:"...), m.Node.Name...)
	case m.Node != nil:
		b = append(b, "Node"...)
	}
	for _, ip := range m.IPs {
		b = append(append(b, 0), ip...)
	}
	return string(b)
}
