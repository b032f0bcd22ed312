package target

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
)

// kindSpill is the cloud.TagKind of the further groups of a class whose rules do not fit into one.
const kindSpill = "class-spill"

// kindMembers is the cloud.TagKind of a group without rules that the members of one address group
// hold besides the groups of their classes, so that one reference stands for all of these classes.
const kindMembers = "members"

// Class is a set of interfaces of one network that share groups of ours.
type Class struct {
	key, Hash string
	Network   *intent.Network
	State     InterfaceState // Guarded or Member
	NICs      []*NIC
	addrs     addrset.Set    // private addresses of the interfaces
	Want      [2]flow.Permit // what it must allow: ingress, egress
	// existing are the groups that it goes on using: the one that rules refer to first, then
	// spilled ones.
	existing []*cloud.Group
	Groups   []*Group
	// gathers is set for what is no class by itself, but stands for all classes of members of an
	// address group; see gathering.
	Gathers bool
	// frozen is set if its interfaces stay as they are.
	frozen bool
}

// Group is a security group of ours as it is wanted.
type Group struct {
	Class    *Class
	Key      string // ID, or "+" and the name if it is to be created
	Name     string
	Existing *cloud.Group // nil if it is to be created
	Rules    []cloud.Rule
}

// peer is the group as a peer of rules.
func (g *Group) peer() cloud.Peer {
	if g.Existing != nil {
		return cloud.Peer{GroupID: g.Existing.ID}
	}
	return cloud.Peer{GroupName: g.Name}
}

// peerKey is the key of the group that a peer refers to; empty for other peers.
func groupKey(p cloud.Peer) string {
	if p.GroupName != "" {
		return "+" + p.GroupName
	}
	return p.GroupID
}

// design is the outcome of one attempt of settle.
type design struct {
	Classes     []*Class          // sorted by key
	ClassOf     map[*NIC]*Class   // of guarded interfaces and members
	Targets     map[*NIC][]string // keys of the wanted groups of interfaces: IDs, or "+" and the name of a group that is to be created
	ByKey       map[string]*Group // wanted groups of ours
	WantHeld    map[string][]*NIC // group key -> interfaces that shall hold it, native groups included
	memberships map[*NIC][]*Class // the gatherings that an interface belongs to
}

// Kind is that of the tag of a group.
func (g *Group) Kind() string {
	switch {
	case g.Class.Gathers:
		return kindMembers
	case g != g.Class.Groups[0]:
		return kindSpill
	}
	return cloud.KindClass
}

// unproven reports whether nothing but a record that is not believed makes the interfaces of the
// class stay as they are.
func (c *Class) unproven() bool {
	return !slices.ContainsFunc(c.NICs, func(n *NIC) bool { return n.Unproven == nil })
}
