package forecast

import (
	"cmp"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
)

// last is the greatest value of the 16-bit axis of a flow.Service.
const last = 0xffff

// icmpAddrs are the addresses that packets of the protocol can have.
func icmpAddrs(protocol int) addrset.Set {
	switch protocol {
	case cloud.ICMP:
		return v4
	case cloud.ICMPv6:
		return v6
	}
	return everything
}

// partition cuts all packets into services that every rule takes wholly or not at all, sorted. The last one, of cloud.AnyProtocol,
// stands for the protocols that no rule names.
func partition(rules ...[]cloud.Rule) []flow.Service {
	cuts := map[int][]int{}
	for _, r := range slices.Concat(rules...) {
		if r.Match.Protocol != cloud.AnyProtocol {
			s := flow.ServiceOf(r.Match)
			cuts[s.Protocol] = append(cuts[s.Protocol], int(s.From), int(s.To)+1)
		}
	}
	return cut(cuts)
}

// cut returns the intervals between the cuts of every protocol, and the service of all other protocols at the end.
func cut(cuts map[int][]int) []flow.Service {
	var out []flow.Service
	for protocol, at := range cuts {
		at = append(at, 0, last+1)
		slices.Sort(at)
		at = slices.Compact(at)
		for i := 1; i < len(at); i++ {
			out = append(out, flow.Service{Protocol: protocol, From: uint16(at[i-1]), To: uint16(at[i] - 1)})
		}
	}
	slices.SortFunc(out, compareServices)
	return append(out, flow.Service{Protocol: cloud.AnyProtocol, To: last})
}

func compareServices(a, b flow.Service) int {
	return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
}

// takes reports whether the rule matches every packet of a cell of a partition that the rule was part of.
func takes(m cloud.Match, s flow.Service) bool {
	if m.Protocol == cloud.AnyProtocol {
		return true
	}
	o := flow.ServiceOf(m)
	return o.Protocol == s.Protocol && o.From <= s.From && s.To <= o.To
}

// view is one snapshot, indexed for the question which addresses a rule names.
type view struct {
	snap     *cloud.Snapshot
	groups   map[string]*cloud.Group
	lists    map[string]*cloud.PrefixList
	holders  map[string][]*cloud.Interface // by group ID
	peered   map[[2]string]bool
	peerSets map[[2]string]addrset.Set // group ID, network
}

func newView(s *cloud.Snapshot) *view {
	v := &view{
		snap: s, groups: map[string]*cloud.Group{}, lists: map[string]*cloud.PrefixList{}, holders: map[string][]*cloud.Interface{},
		peered: map[[2]string]bool{}, peerSets: map[[2]string]addrset.Set{},
	}
	for i := range s.Groups {
		v.groups[s.Groups[i].ID] = &s.Groups[i]
	}
	for i := range s.PrefixLists {
		v.lists[s.PrefixLists[i].ID] = &s.PrefixLists[i]
	}
	for i := range s.Interfaces {
		for _, g := range s.Interfaces[i].GroupIDs {
			v.holders[g] = append(v.holders[g], &s.Interfaces[i])
		}
	}
	for _, p := range s.Peerings {
		if p.A.Region == p.B.Region {
			v.peered[[2]string{p.A.NetworkID, p.B.NetworkID}] = true
			v.peered[[2]string{p.B.NetworkID, p.A.NetworkID}] = true
		}
	}
	return v
}

// reaches reports whether group references of one network match interfaces of the other.
func (v *view) reaches(from, to string) bool { return from == to || v.peered[[2]string{from, to}] }

// rules are the rules of the groups, in one direction.
func (v *view) rules(groups []string, d cloud.Direction) []cloud.Rule {
	var out []cloud.Rule
	for _, id := range groups {
		if g := v.groups[id]; g != nil {
			for _, r := range g.Rules {
				if r.Direction == d {
					out = append(out, r)
				}
			}
		}
	}
	return out
}

// addrs are the addresses that a peer means in a network; known is false if they cannot be seen in the snapshot.
func (v *view) addrs(p cloud.Peer, network string) (set addrset.Set, known bool) {
	switch {
	case p.CIDR.IsValid():
		return addrset.OfPrefixes(p.CIDR), true
	case p.PrefixListID != "":
		l := v.lists[p.PrefixListID]
		if l == nil || !l.Known() {
			return addrset.Set{}, false
		}
		return addrset.OfPrefixes(l.Entries...), true
	}
	if v.groups[p.GroupID] == nil && p.GroupOwner != "" && p.GroupOwner != v.snap.OwnerID {
		return addrset.Set{}, false
	}
	key := [2]string{p.GroupID, network}
	set, ok := v.peerSets[key]
	if !ok {
		for _, n := range v.holders[p.GroupID] {
			if v.reaches(network, n.NetworkID) {
				set = set.Union(addrset.Of(n.PrivateIPs...))
			}
		}
		v.peerSets[key] = set
	}
	return set, true
}

// allowed is what rules of one direction allow in one cell: addresses, and peers whose addresses are not known here.
func (v *view) allowed(rules []cloud.Rule, network string, s flow.Service) (addrset.Set, []string) {
	var out addrset.Set
	var opaque []string
	for _, r := range rules {
		if !takes(r.Match, s) {
			continue
		}
		set, known := v.addrs(r.Peer, network)
		if !known {
			opaque = append(opaque, r.Peer.String())
			continue
		}
		out = out.Union(set)
	}
	slices.Sort(opaque)
	return out.Intersect(icmpAddrs(s.Protocol)), slices.Compact(opaque)
}
