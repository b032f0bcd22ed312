package form

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// KindSpill is the cloud.TagKind of the further groups of a class whose rules do not fit into one.
const KindSpill = "class-spill"

// KindMembers is the cloud.TagKind of a group without rules that the members of one address group
// hold besides the groups of their classes, so that one reference covers all of these classes.
const KindMembers = "members"

// Class is a set of interfaces of one network that share groups of ours.
type Class struct {
	Key, Hash string
	Network   *intent.Network
	State     guard.InterfaceState // Guarded or Member
	NICs      []*guard.NIC
	Addrs     addrset.Set    // private addresses of the interfaces
	Want      [2]flow.Permit // what it must allow: ingress, egress
	// Existing are the groups that it goes on using: the one that rules refer to first, then
	// spilled ones.
	Existing []*cloud.Group
	Groups   []*Group
	// Gathers is set for what is no class by itself, but stands for all classes of members of an
	// address group; see gathering.
	Gathers bool
	// Frozen is set if its interfaces stay as they are.
	Frozen bool
}

// Group is a security group of ours as it is wanted.
type Group struct {
	Class    *Class
	Key      string // ID, or "+" and the name if it is to be created
	Name     string
	Existing *cloud.Group // nil if it is to be created
	Rules    []cloud.Rule
}

// Peer is the group as a peer of rules.
func (g *Group) Peer() cloud.Peer {
	if g.Existing != nil {
		return cloud.Peer{GroupID: g.Existing.ID}
	}
	return cloud.Peer{GroupName: g.Name}
}

// GroupKey is the key of the group that a peer refers to; empty for other peers.
func GroupKey(p cloud.Peer) string {
	if p.GroupName != "" {
		return "+" + p.GroupName
	}
	return p.GroupID
}

// Design is the outcome of one attempt of settle.
type Design struct {
	Classes     []*Class                // sorted by key
	ClassOf     map[*guard.NIC]*Class   // of guarded interfaces and members
	Targets     map[*guard.NIC][]string // keys of the wanted groups of interfaces: IDs, or "+" and the name of a group that is to be created
	ByKey       map[string]*Group       // wanted groups of ours
	WantHeld    map[string][]*guard.NIC // group key -> interfaces that shall hold it, native groups included
	Memberships map[*guard.NIC][]*Class // the gatherings that an interface belongs to
}

// Kind is that of the tag of a group.
func (g *Group) Kind() string {
	switch {
	case g.Class.Gathers:
		return KindMembers
	case g != g.Class.Groups[0]:
		return KindSpill
	}
	return cloud.KindClass
}

// Held are the rules that its groups have now.
func (c *Class) Held() [][]cloud.Rule {
	out := make([][]cloud.Rule, len(c.Existing))
	for i, g := range c.Existing {
		out[i] = cloud.RuleKeys(g.Rules)
	}
	return out
}

// Unproven reports whether nothing but a record that is not believed makes the interfaces of the
// class stay as they are.
func (c *Class) Unproven() bool {
	return !slices.ContainsFunc(c.NICs, func(n *guard.NIC) bool { return n.Record.Unproven == nil })
}

// Family is one of the two families of addresses.
type Family struct {
	Name string
	All  addrset.Set
	of   func(addrset.Set) addrset.Ranges // the part of a set in it
}

// Families are both, IPv4 first.
func Families() [2]Family {
	return [2]Family{{"IPv4", addrset.AllIPv4(), addrset.Set.IPv4}, {"IPv6", addrset.AllIPv6(), addrset.Set.IPv6}}
}
