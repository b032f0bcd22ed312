package plan

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// Succession tells the order in which entities came to belong to other groups since the cloud last followed. Taken as one change, such changes
// may have to wait for one another, which costs further edits of interfaces (see evade); taken one after the other they cost one edit each, and
// every state on the way is one that the policies had. For that to be true, nothing else may have changed since the first of them: no policy,
// and no group came or went. See docs/decisions/0009-one-after-the-other.md.
type Succession struct {
	// Before is what the entities of Changes belonged to before the first of them.
	Before map[EntityRef]Membership
	// Changes are in the order in which they came. The last one of an entity is what Input.AddressGroups and Input.AppliedToGroups say of it.
	Changes []Change
}

// Change is an entity's coming to belong to other groups.
type Change struct {
	Entity EntityRef
	Membership
}

// Membership is the groups that an entity belongs to, each kind sorted by name.
type Membership struct {
	Address, Applied []Listing
}

// Listing is how a group lists an entity.
type Listing struct {
	Group  string
	Member *v1beta2.GroupMember
}

// Same reports whether two memberships name the same groups.
func (m Membership) Same(o Membership) bool {
	same := func(a, b Listing) bool { return a.Group == b.Group }
	return slices.EqualFunc(m.Address, o.Address, same) && slices.EqualFunc(m.Applied, o.Applied, same)
}

// From returns the succession without the first n changes.
func (s Succession) From(n int) Succession {
	out := Succession{Before: maps.Clone(s.Before), Changes: s.Changes[n:]}
	for _, ch := range s.Changes[:n] {
		out.Before[ch.Entity] = ch.Membership
	}
	return out
}
