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

// PolicySource makes a policy when it is needed, each time a new object: a store of a hundred
// thousand policies, most of which nobody asks for at the moment, need not hold them as they are on
// the wire. It may be called at any time by any goroutine.
type PolicySource interface {
	NetworkPolicy() *v1beta2.NetworkPolicy
}

// PolicyChange adds, replaces or removes one policy.
type PolicyChange struct {
	// Policy is the new value, unless Source is given. Of a removed policy, only the metadata and
	// SourceRef are used.
	Policy *v1beta2.NetworkPolicy
	// Name and Source stand for Policy.
	Name   string
	Source PolicySource
	// Removed says that the policy is gone.
	Removed bool
	// SpanAdded and SpanRemoved are the enforcer keys that the policy begins and ceases to concern.
	SpanAdded   []string
	SpanRemoved []string
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

// NetworkPolicy implements PolicySource.
func (g givenPolicy) NetworkPolicy() *v1beta2.NetworkPolicy {
	p := *g.policy
	return &p
}

// GroupChange adds, changes or removes one group.
type GroupChange struct {
	Name string
	UID  types.UID
	// Deleted says that the group is gone; the lists of members are then not looked at.
	Deleted bool
	// Added are new members, and members that take the place of one of the same identity. Removed
	// are members that left. A member that moves to another host is in both.
	Added   []*Member
	Removed []*Member
	// SpanAdded and SpanRemoved are the enforcer keys that the group begins and ceases to concern.
	SpanAdded   []string
	SpanRemoved []string
}

// Member is a member of a group, and of an applied-to group also whose it is. It may be a member of
// several groups.
type Member struct {
	v1beta2.GroupMember
	// Host is the key of the enforcer that the member of an applied-to group belongs to. Empty:
	// nobody's, it is seen by watches without key only.
	Host string
	// Everywhere marks a member of an applied-to group that belongs to every key the group
	// concerns.
	Everywhere bool
}
