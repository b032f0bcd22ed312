package intent

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
)

// PeerAddrs returns the addresses of the rule's peer as they are seen from a network.
func (s *Region) PeerAddrs(b *Bound, view *Network) addrset.Set {
	if len(b.Groups) == 0 {
		return b.Blocks
	}
	return s.peers.Get(peerOf{b.rule, view}, func() addrset.Set {
		out := b.Blocks
		for _, g := range b.Groups {
			out = out.Union(s.groupAddrs(g, view))
		}
		return out
	})
}

// groupAddrs returns the addresses that the members of an address group have when seen from a
// network: the private addresses of interfaces in reach of group references, else all known
// addresses except a VM's addresses that denote another host there.
func (s *Region) groupAddrs(name string, view *Network) addrset.Set {
	return s.groups.Get(viewed{name, view}, func() addrset.Set {
		var addrs []netip.Addr
		var blocks []netip.Prefix
		if g := s.Account.addressGroups[name]; g != nil {
			for i := range g.GroupMembers {
				addrs = append(addrs, s.memberAddrs(&g.GroupMembers[i], view)...)
				blocks = append(blocks, s.memberBlocks(&g.GroupMembers[i], view)...)
			}
		}
		return model.AddrsAndBlocks(addrs, blocks)
	})
}

// memberBlocks are the blocks that are delegated to an interface, or to the interfaces of a VM:
// blocks in reach, and of the others all that do not denote another host here.
func (s *Region) memberBlocks(m *v1beta2.GroupMember, view *Network) (out []netip.Prefix) {
	if ref, ok := s.Account.In.Services[EntityOf(m)]; ok {
		if n := s.interfaceOf(ref); n != nil && view.Reaches(s.Networks[n.NetworkID]) {
			return n.Prefixes
		}
		return nil
	}
	ref, ok := s.Account.In.Entities[EntityOf(m)]
	if !ok || ref.Region != s.Snap.Region || s.vms[ref.ID] == nil {
		return nil
	}
	for _, n := range s.vms[ref.ID].NICs {
		for _, p := range n.Prefixes {
			if view.Reaches(n.Network) || !view.local.Overlaps(addrset.OfPrefixes(p)) {
				out = append(out, p)
			}
		}
	}
	return out
}

// memberAddrs are the addresses of one member of an address group.
func (s *Region) memberAddrs(m *v1beta2.GroupMember, view *Network) []netip.Addr {
	var told []netip.Addr // by the maker of the group
	for _, raw := range m.IPs {
		if a, ok := netip.AddrFromSlice(raw); ok {
			told = append(told, a.Unmap())
		}
	}
	entity := EntityOf(m)
	if n := s.Networks[s.Account.In.Shared[entity]]; n != nil && view.Reaches(n) {
		return slices.DeleteFunc(told, func(a netip.Addr) bool { return !n.contains(a) })
	}
	if ref, ok := s.Account.In.Services[entity]; ok {
		return s.serviceAddrs(told, ref, view)
	}
	var private, near []netip.Addr // of interfaces in reach; near are all of these
	if ref, ok := s.Account.In.Entities[entity]; ok && ref.Region == s.Snap.Region {
		vm := s.vms[ref.ID]
		if vm == nil {
			return nil // gone in the cloud; its addresses may already denote somebody else
		}
		far := false
		for _, n := range vm.NICs {
			if view.Reaches(n.Network) {
				private = append(private, n.PrivateIPs...)
				near = append(append(near, n.PrivateIPs...), n.PublicIPs...)
			} else {
				far = true
			}
		}
		if !far {
			return private
		}
	}
	// A Pod whose address lies in the network is a host there (the cloud's own CNI); a VM that is
	// known to be elsewhere is not.
	return append(private, slices.DeleteFunc(told, func(a netip.Addr) bool {
		return slices.Contains(near, a) || m.Pod == nil && view.local.Contains(a)
	})...)
}

// serviceAddrs are the addresses of a native service as they are seen from a network. An address of
// a network in reach counts only while an interface of a service holds it: what was told of the
// service may be older than the snapshot, and the address somebody else's. Where services cannot be
// read of which nothing else tells the addresses, those count that nobody is seen to hold: the
// service is known from before, and that nothing stands for it proves nothing.
func (s *Region) serviceAddrs(told []netip.Addr, ref VMRef, view *Network) []netip.Addr {
	if n := s.interfaceOf(ref); n != nil && view.Reaches(s.Networks[n.NetworkID]) {
		return n.PrivateIPs
	}
	here := ref.Region == s.Snap.Region
	unread := here && s.Snap.FrontsUnread() && s.Snap.Service(ref.ID) == nil
	held := s.all.Get(view, func() addrset.Set { return addrsOf(s.NICs, view) })
	byService := s.services.Get(view, func() addrset.Set {
		return addrsOf(slices.DeleteFunc(slices.Clone(s.NICs), func(n *NIC) bool { return !n.Managed && n.Service == "" }), view)
	})
	return slices.DeleteFunc(told, func(a netip.Addr) bool {
		return view.local.Contains(a) && !(here && byService.Contains(a)) && !(unread && !held.Contains(a))
	})
}

// Named returns the addresses that the peer of a rule names itself; it names none if it is a group,
// or a prefix list that cannot be seen.
func (s *Region) Named(p cloud.Peer) (addrs addrset.Set, named bool) {
	if p.CIDR.IsValid() {
		return addrset.OfPrefixes(p.CIDR), true
	}
	return s.Entries(p)
}

// Actual is what the interfaces with exactly these groups allow now, in both directions: ingress,
// egress.
func (s *Region) Actual(groups []string, view *Network) [2]flow.Permit {
	return s.actual.Get(viewed{strings.Join(groups, " "), view}, func() (out [2]flow.Permit) {
		for i, d := range flow.Directions() {
			rules := s.GroupRules(groups, d)
			for _, id := range groups {
				rules = appendIn(rules, d, s.TwinsNow[id])
			}
			out[i] = s.Evaluate(rules, view, func(p cloud.Peer) addrset.Set { return s.HeldAddrs(p.GroupID, view) })
		}
		return out
	})
}

// GroupRules returns the rules that existing groups have in a direction.
func (s *Region) GroupRules(groups []string, d cloud.Direction) (out []cloud.Rule) {
	for _, id := range cloud.Deciding(groups, func(id string) *cloud.Group { return s.Groups[id] }) {
		if g := s.Groups[id]; g != nil {
			out = appendIn(out, d, g.Rules)
		}
	}
	return out
}

// appendIn appends the rules among some that are about a direction.
func appendIn(out []cloud.Rule, d cloud.Direction, rules []cloud.Rule) []cloud.Rule {
	for _, r := range rules {
		if r.Direction == d {
			out = append(out, r)
		}
	}
	return out
}

// addrsOf returns the private addresses of those interfaces that can be referenced from the
// network.
func addrsOf(nics []*NIC, view *Network) addrset.Set {
	var in []*cloud.Interface
	for _, n := range nics {
		if view.Reaches(n.Network) {
			in = append(in, n.Interface)
		}
	}
	return model.Private(in...)
}

// Evaluate returns what rules of one direction allow, given the members of groups.
func (s *Region) Evaluate(rules []cloud.Rule, view *Network, members func(p cloud.Peer) addrset.Set) flow.Permit {
	return model.Permit(rules, func(p cloud.Peer) model.Meaning {
		addrs, _ := s.Named(p)
		switch {
		case p.CIDR.IsValid():
			return model.Meaning{All: addrs, Anonymous: addrs, Plain: addrs}
		case p.PrefixListID != "":
			return model.Meaning{All: addrs, Anonymous: addrs, Opaque: true}
		case p.GroupName == "" && s.Groups[p.GroupID] == nil:
			// A group of this account that is not there is a stale reference and means nobody.
			return model.Meaning{Opaque: p.GroupOwner != "" && p.GroupOwner != s.Snap.OwnerID}
		}
		return model.Meaning{All: members(p)}
	})
}

// Entries returns the addresses of a prefix list; known is false if the peer is none, or if they
// cannot be seen.
func (s *Region) Entries(p cloud.Peer) (set addrset.Set, known bool) {
	list := s.Lists[p.PrefixListID]
	if list == nil || !list.Known() {
		return addrset.Set{}, false
	}
	return s.entries.Get(list, func() addrset.Set { return addrset.OfPrefixes(list.Entries...) }), true
}

// HeldAddrs returns the addresses that a reference to the group means now.
func (s *Region) HeldAddrs(id string, view *Network) addrset.Set {
	return s.held.Get(viewed{id, view}, func() addrset.Set { return addrsOf(s.ByHeld[id], view) })
}

// FormerAddrs returns the addresses of the interfaces that natively belong to the group.
func (s *Region) FormerAddrs(id string, view *Network) addrset.Set {
	return s.former.Get(viewed{id, view}, func() addrset.Set { return addrsOf(s.ByFormer[id], view) })
}

// interfaceOf returns the interface that an entity represents; nil if it represents something else,
// or if none is shown.
func (s *Region) interfaceOf(ref VMRef) *cloud.Interface {
	n := s.Snap.Interface(ref.ID)
	if ref.Region != s.Snap.Region || n != nil && n.Service != "" {
		return nil
	}
	return n
}
