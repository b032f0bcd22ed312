package reach

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/addrset"
	"github.com/nephele-io/nephele/internal/cloud/plan/flow"
	"github.com/nephele-io/nephele/internal/policy"
)

// clouds are snapshots, indexed. Groups, lists and interfaces are found whatever account shows
// them.
type clouds struct {
	groups     map[string]*cloud.Group
	lists      map[string]*cloud.PrefixList
	interfaces map[string]*cloud.Interface
	// neighbours are pairs of networks between which group references hold, peered those with any
	// peering.
	neighbours, peered map[[2]string]bool
}

func newClouds(snapshots []*cloud.Snapshot) *clouds {
	c := &clouds{
		groups: map[string]*cloud.Group{}, lists: map[string]*cloud.PrefixList{}, interfaces: map[string]*cloud.Interface{},
		neighbours: map[[2]string]bool{}, peered: map[[2]string]bool{},
	}
	for _, s := range snapshots {
		for i := range s.Groups {
			c.groups[s.Groups[i].ID] = &s.Groups[i]
		}
		for i := range s.PrefixLists {
			if l := &s.PrefixLists[i]; c.lists[l.ID] == nil || l.Known() {
				c.lists[l.ID] = l
			}
		}
		for i := range s.Interfaces {
			c.interfaces[s.Interfaces[i].ID] = &s.Interfaces[i]
		}
		for _, p := range s.Peerings {
			for _, pair := range [][2]string{{p.A.NetworkID, p.B.NetworkID}, {p.B.NetworkID, p.A.NetworkID}} {
				c.peered[pair] = true
				c.neighbours[pair] = c.neighbours[pair] || p.CarriesGroups()
			}
		}
	}
	return c
}

// holding is a network and the groups that interfaces there hold.
type holding struct {
	*clouds
	network string
	groups  []string
	// ours tells that a group of ours is among them: what the machine had before is not seen.
	ours bool
}

// holding returns that of an interface; nil if the interface is not known.
func (c *clouds) holding(networkInterface string) *holding {
	n := c.interfaces[networkInterface]
	if n == nil {
		return nil
	}
	h := &holding{clouds: c, network: n.NetworkID, groups: n.GroupIDs}
	h.ours = slices.ContainsFunc(h.groups, func(id string) bool { return c.groups[id] != nil && c.groups[id].Tags[cloud.TagKind] != "" })
	return h
}

func (h *holding) key() string {
	if h == nil {
		return ""
	}
	return fmt.Sprint(h.network, " ", strings.Join(h.groups, " "))
}

// near reports whether references to groups of the one hold for interfaces of the other.
func (h *holding) near(other *holding) bool {
	return other != nil && (other.network == h.network || h.neighbours[[2]string{h.network, other.network}])
}

// rules calls f for every rule of the groups in a direction.
func (h *holding) rules(d policy.Direction, f func(*cloud.Rule)) {
	if h == nil {
		return
	}
	want := cloud.Ingress
	if d == policy.Egress {
		want = cloud.Egress
	}
	for _, id := range h.groups {
		g := h.clouds.groups[id]
		for i := 0; g != nil && i < len(g.Rules); i++ {
			if g.Rules[i].Direction == want {
				f(&g.Rules[i])
			}
		}
	}
}

// services are what the groups tell apart.
func (h *holding) services(d policy.Direction) []flow.Service {
	var out []flow.Service
	h.rules(d, func(r *cloud.Rule) { out = append(out, flow.ServiceOf(r.Match)) })
	return out
}

// allowed returns the addresses at the other end that the groups allow, and whether they may allow
// all others as well: groups of other accounts and prefix lists whose members are not known. The
// other end is an interface, or nil. Groups are not known through the internet.
func (h *holding) allowed(d policy.Direction, s flow.Service, other *holding, internet bool) (yes addrset.Set, maybe bool) {
	h.rules(d, func(r *cloud.Rule) {
		if !flow.ServiceOf(r.Match).Covers(s) {
			return
		}
		switch p := r.Peer; {
		case p.CIDR.IsValid():
			yes = yes.Union(addrset.OfPrefixes(p.CIDR))
		case p.PrefixListID != "":
			if l := h.lists[p.PrefixListID]; l != nil && l.Known() {
				yes = yes.Union(addrset.OfPrefixes(l.Entries...))
			} else {
				maybe = true
			}
		case internet:
		case other != nil && slices.Contains(other.groups, p.GroupID):
			if h.near(other) {
				yes = addrset.All()
			}
		case other == nil && h.clouds.groups[p.GroupID] == nil && p.GroupOwner != "":
			maybe = true
		}
	})
	return yes, maybe
}
