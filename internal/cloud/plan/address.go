package plan

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// peerAddrs returns the addresses of the rule's peer as they are seen from a network.
func (s *region) peerAddrs(r *rule, view *network) addrset.Set {
	if len(r.groups) == 0 {
		return r.blocks
	}
	key := peerKey{r, view}
	if set, ok := s.peerCache[key]; ok {
		return set
	}
	out := r.blocks
	for _, g := range r.groups {
		out = out.Union(s.groupAddrs(g, view))
	}
	s.peerCache[key] = out
	return out
}

// groupAddrs returns the addresses that the members of an address group have when seen from a network: the private addresses of
// interfaces in reach of group references, else all known addresses except those of a VM that denote another host there.
func (s *region) groupAddrs(name string, view *network) addrset.Set {
	key := nativeKey{name, view}
	if set, ok := s.groupCache[key]; ok {
		return set
	}
	var addrs []netip.Addr
	if g := s.addressGroups[name]; g != nil {
		for i := range g.GroupMembers {
			addrs = s.memberAddrs(addrs, &g.GroupMembers[i], view)
		}
	}
	set := addrset.Of(addrs...)
	s.groupCache[key] = set
	return set
}

func (s *region) memberAddrs(out []netip.Addr, m *v1beta2.GroupMember, view *network) []netip.Addr {
	var near addrset.Set // all addresses of interfaces in reach
	if m.ExternalEntity != nil {
		entity := EntityRef{m.ExternalEntity.Namespace, m.ExternalEntity.Name}
		if n := s.networks[s.in.Shared[entity]]; n != nil && view.reaches(n) {
			for _, raw := range m.IPs {
				if a, ok := netip.AddrFromSlice(raw); ok && n.contains(a.Unmap()) {
					out = append(out, a.Unmap())
				}
			}
			return out
		}
		ref, ok := s.in.Entities[entity]
		if ok && s.observed[ref.Region] {
			vm := s.vms[ref.ID]
			if ref.Region == s.snap.Region {
				if vm == nil {
					return out // gone in the cloud; its addresses may already denote somebody else
				}
				far := false
				for _, n := range vm.nics {
					if view.reaches(n.network) {
						out = append(out, n.PrivateIPs...)
						near = near.Union(n.all)
					} else {
						far = true
					}
				}
				if !far {
					return out
				}
			}
		}
	}
	for _, raw := range m.IPs {
		a, ok := netip.AddrFromSlice(raw)
		// A Pod whose address lies in the network is a host there (the cloud's own CNI); a VM that is known to be elsewhere is not.
		if a = a.Unmap(); ok && (m.Pod != nil || !view.local.Contains(a)) && !near.Contains(a) {
			out = append(out, a)
		}
	}
	return out
}

// nativePeer returns the addresses that the peer of a native rule means, and whether it names them itself. known is false if the
// peer's members cannot be seen from this account.
func (s *region) nativePeer(p cloud.Peer, view *network) (addrs addrset.Set, byAddr, known bool) {
	switch {
	case p.CIDR.IsValid():
		return addrset.OfPrefixes(p.CIDR), true, true
	case p.PrefixListID != "":
		entries, known := s.entries(p)
		return entries, true, known
	default:
		g := s.groups[p.GroupID]
		if g == nil {
			// A group of this account that is not there is a stale reference and means nobody.
			return addrset.Set{}, false, p.GroupOwner == "" || p.GroupOwner == s.snap.OwnerID
		}
		return s.membersOf(g, s.byFormer[g.ID], view), false, true
	}
}

func (s *region) membersOf(g *cloud.Group, holders []*iface, view *network) addrset.Set {
	owner := s.networks[g.NetworkID]
	if owner == nil || !view.reaches(owner) {
		return addrset.Set{}
	}
	key := nativeKey{g.ID, owner}
	if set, ok := s.nativeCache[key]; ok {
		return set
	}
	var addrs []netip.Addr
	for _, n := range holders {
		addrs = append(addrs, n.PrivateIPs...)
	}
	set := addrset.Of(addrs...)
	s.nativeCache[key] = set
	return set
}

// opaqueDropped notes that an opaque native peer lost its access because rules restrict the same traffic.
func (s *region) opaqueDropped(view *network, p cloud.Peer) {
	s.note(view.ID, "the native rules that refer to "+p.String()+" are left out where policies drop part of the same traffic, because its members are not known here")
}

func (s *region) note(object, message string) {
	s.noted[Note{s.snap.Region, object, message}] = true
}

// actual is what the interfaces with exactly these groups allow now, in both directions: ingress, egress.
func (s *region) actual(groups []string, view *network) [2]flow.Permit {
	key := view.ID + " " + strings.Join(groups, " ")
	if h, ok := s.actualCache[key]; ok {
		return h
	}
	var out [2]flow.Permit
	for i, d := range directions {
		rules := s.groupRules(groups, d)
		for _, id := range groups {
			for _, r := range s.twinsNow[id] {
				if r.Direction == d {
					rules = append(rules, r)
				}
			}
		}
		out[i] = s.evaluate(rules, view, func(p cloud.Peer) addrset.Set { return s.heldAddrs(p.GroupID, view) })
	}
	s.actualCache[key] = out
	return out
}

// groupRules returns the rules that existing groups have in a direction.
func (s *region) groupRules(groups []string, d cloud.Direction) []cloud.Rule {
	var out []cloud.Rule
	for _, id := range groups {
		if g := s.groups[id]; g != nil {
			for _, r := range g.Rules {
				if r.Direction == d {
					out = append(out, r)
				}
			}
		}
	}
	return out
}

var directions = [2]cloud.Direction{cloud.Ingress, cloud.Egress}

func indexOf(d cloud.Direction) int {
	if d == cloud.Ingress {
		return 0
	}
	return 1
}

// addrsOf returns the private addresses of those interfaces that can be referenced from the network.
func addrsOf(nics []*iface, view *network) addrset.Set {
	var addrs []netip.Addr
	for _, n := range nics {
		if view.reaches(n.network) {
			addrs = append(addrs, n.PrivateIPs...)
		}
	}
	return addrset.Of(addrs...)
}

// addresses returns what a rule's peer means now, and what it will mean; known is false for peers whose members cannot be seen.
func (s *regionState) addresses(p cloud.Peer, view *network) (now, then addrset.Set, known bool) {
	key := groupKey(p)
	if key == "" {
		addrs, _, known := s.nativePeer(p, view)
		return addrs, addrs, known
	}
	if p.GroupID != "" && s.groups[p.GroupID] == nil {
		return addrset.Set{}, addrset.Set{}, false
	}
	if p.GroupID != "" {
		now = s.heldAddrs(p.GroupID, view)
	}
	return now, s.thenAddrs(key, view), true
}

// evaluateThen returns what rules of one direction will allow when all interfaces hold the groups that they shall.
func (s *regionState) evaluateThen(rules []cloud.Rule, view *network) flow.Permit {
	return s.evaluate(rules, view, func(p cloud.Peer) addrset.Set {
		_, then, _ := s.addresses(p, view)
		return then
	})
}

// evaluate returns what rules of one direction allow, given the members of groups.
func (s *region) evaluate(rules []cloud.Rule, view *network, members func(p cloud.Peer) addrset.Set) flow.Permit {
	type peers struct {
		service               flow.Service
		all, anonymous, plain []addrset.Set
		opaque                []cloud.Peer
	}
	var matched []*peers
	var services []flow.Service
	at := map[cloud.Match]*peers{}
	for _, r := range rules {
		m := at[r.Match]
		if m == nil {
			m = &peers{service: flow.ServiceOf(r.Match)}
			at[r.Match], matched, services = m, append(matched, m), append(services, m.service)
		}
		addrs, byAddr, known := s.nativePeer(r.Peer, view)
		switch {
		case r.Peer.GroupName != "":
			m.all = append(m.all, members(r.Peer))
		case !known:
			m.opaque = append(m.opaque, r.Peer)
		case r.Peer.PrefixListID != "":
			m.opaque, m.anonymous = append(m.opaque, r.Peer), append(m.anonymous, addrs)
		case byAddr:
			m.anonymous, m.plain = append(m.anonymous, addrs), append(m.plain, addrs)
		default:
			m.all = append(m.all, members(r.Peer))
		}
	}
	for _, m := range matched {
		m.anonymous, m.plain = []addrset.Set{addrset.Union(m.anonymous...)}, []addrset.Set{addrset.Union(m.plain...)}
		m.all = []addrset.Set{addrset.Union(append(m.all, m.anonymous[0])...)}
	}
	var out flow.Permit
	for _, sv := range flow.Partition(services) {
		cell := flow.Grant{Service: sv}
		var all, anonymous, plain []addrset.Set
		for _, m := range matched {
			if m.service.Covers(sv) {
				all, anonymous, plain = append(all, m.all[0]), append(anonymous, m.anonymous[0]), append(plain, m.plain[0])
				cell.Opaque = append(cell.Opaque, m.opaque...)
			}
		}
		family := flow.Family(sv.Protocol)
		cell.All, cell.Anonymous, cell.Plain = addrset.Union(all...).Intersect(family), addrset.Union(anonymous...).Intersect(family), addrset.Union(plain...).Intersect(family)
		slices.SortFunc(cell.Opaque, cloud.Peer.Compare)
		cell.Opaque = slices.Compact(cell.Opaque)
		out.Grants = append(out.Grants, cell)
	}
	return out
}
