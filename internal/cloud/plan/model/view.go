package model

import (
	"net/netip"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// View answers what the rules of a snapshot's groups mean. It keeps what it has worked out, so one
// goroutine may use it at a time, and it is of no use once the snapshot changes.
type View struct {
	snap    *cloud.Snapshot
	holders map[string][]*cloud.Interface // by group ID
	peered  map[[2]string]bool
	members map[[2]string]addrset.Set // by group ID and network
	joined  map[joinKey]flow.Grant
}

// NewView indexes a snapshot.
func NewView(s *cloud.Snapshot) *View {
	v := &View{snap: s, peered: map[[2]string]bool{}, members: map[[2]string]addrset.Set{}, joined: map[joinKey]flow.Grant{}}
	for _, p := range s.Peerings {
		if p.CarriesGroups() {
			v.peered[[2]string{p.A.NetworkID, p.B.NetworkID}] = true
			v.peered[[2]string{p.B.NetworkID, p.A.NetworkID}] = true
		}
	}
	return v
}

// Snapshot is what the view is of.
func (v *View) Snapshot() *cloud.Snapshot { return v.snap }

// Group returns a group by its ID, nil if there is none.
func (v *View) Group(id string) *cloud.Group { return v.snap.Group(id) }

// List returns a prefix list by its ID, nil if there is none.
func (v *View) List(id string) *cloud.PrefixList {
	return cloud.Find(v.snap.PrefixLists, id, func(l *cloud.PrefixList) string { return l.ID })
}

// Private are all private addresses of interfaces: those that a reference to a group of theirs
// covers.
func Private(nics ...*cloud.Interface) addrset.Set {
	var addrs []netip.Addr
	var blocks []netip.Prefix
	for _, n := range nics {
		addrs, blocks = append(addrs, n.PrivateIPs...), append(blocks, n.Prefixes...)
	}
	return AddrsAndBlocks(addrs, blocks)
}

// AddrsAndBlocks is the set of addresses that are told one by one and of those in blocks.
func AddrsAndBlocks(addrs []netip.Addr, blocks []netip.Prefix) addrset.Set {
	if len(blocks) == 0 {
		return addrset.Of(addrs...)
	}
	return addrset.Of(addrs...).Union(addrset.OfPrefixes(blocks...))
}

// Holders are the interfaces that hold a group.
func (v *View) Holders(group string) []*cloud.Interface {
	if v.holders == nil {
		v.holders = map[string][]*cloud.Interface{}
		for i := range v.snap.Interfaces {
			for _, g := range v.snap.Interfaces[i].GroupIDs {
				v.holders[g] = append(v.holders[g], &v.snap.Interfaces[i])
			}
		}
	}
	return v.holders[group]
}

// Reaches reports whether group references of one network match interfaces of the other: it is the
// same, or there is an active peering in the region.
func (v *View) Reaches(from, to string) bool { return from == to || v.peered[[2]string{from, to}] }

// Rules returns the rules of groups in one direction. Groups that do not exist have none.
func (v *View) Rules(groups []string, d cloud.Direction) []cloud.Rule {
	var out []cloud.Rule
	for _, id := range cloud.Deciding(groups, v.Group) {
		if g := v.Group(id); g != nil {
			for _, r := range g.Rules {
				if r.Direction == d {
					out = append(out, r)
				}
			}
		}
	}
	return out
}

// Addresses are those that a peer of a rule means in a network; known is false if they cannot be
// seen in the snapshot.
func (v *View) Addresses(p cloud.Peer, network string) (set addrset.Set, known bool) {
	switch {
	case p.CIDR.IsValid():
		return addrset.OfPrefixes(p.CIDR), true
	case p.PrefixListID != "":
		l := v.List(p.PrefixListID)
		if l == nil || !l.Known() {
			return addrset.Set{}, false
		}
		return addrset.OfPrefixes(l.Entries...), true
	}
	if p.GroupOwner != "" && p.GroupOwner != v.snap.OwnerID && v.Group(p.GroupID) == nil {
		return addrset.Set{}, false
	}
	key := [2]string{p.GroupID, network}
	set, ok := v.members[key]
	if !ok {
		var in []*cloud.Interface
		for _, n := range v.Holders(p.GroupID) {
			if v.Reaches(network, n.NetworkID) {
				in = append(in, n)
			}
		}
		set = Private(in...)
		v.members[key] = set
	}
	return set, true
}

// Allowed is what rules of one direction allow of a service that each of them matches wholly or not
// at all: addresses, and peers whose addresses are not known here, sorted.
func (v *View) Allowed(rules []cloud.Rule, network string, s flow.Service) (addrs addrset.Set, opaque []cloud.Peer) {
	var peers []cloud.Peer
	for _, r := range rules {
		if flow.ServiceOf(r.Match).Covers(s) {
			peers = append(peers, r.Peer)
		}
	}
	g := v.join(s, peers, network)
	return g.All, g.Opaque
}

// Permit is what rules of one direction allow in a network.
func (v *View) Permit(rules []cloud.Rule, network string) flow.Permit {
	return permit(rules, func(s flow.Service, peers []cloud.Peer) flow.Grant { return v.join(s, peers, network) })
}

type joinKey struct {
	service        flow.Service
	peers, network string
}

// join is what peers are allowed of a service together: many permits name the same ones.
func (v *View) join(s flow.Service, peers []cloud.Peer, network string) flow.Grant {
	var names strings.Builder
	for _, p := range peers {
		names.WriteString(p.GroupOwner + "/" + p.String() + " ")
	}
	key := joinKey{s, names.String(), network}
	g, known := v.joined[key]
	if !known {
		g = join(s, peers, func(p cloud.Peer) Meaning { return Known(v.Addresses(p, network)) })
		v.joined[key] = g
	}
	return g
}
