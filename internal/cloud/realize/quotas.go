package realize

import (
	"net/netip"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// The quotas whose fill is shown, by the names in metrics.
const (
	quotaGroups = "groups-per-region"
	quotaHeld   = "groups-per-interface"
	quotaRules  = "rules-per-group"
)

// quotaFill is how full the fullest object is for each quota of a region, as a share of 1.
func quotaFill(r plan.Region) map[string]float64 {
	out := map[string]float64{}
	fill := func(quota string, used, limit int) {
		if limit > 0 {
			out[quota] = max(out[quota], float64(used)/float64(limit))
		}
	}
	sizes := map[string]int{}
	for _, l := range r.Snapshot.PrefixLists {
		sizes[l.ID] = l.MaxEntries
	}
	for _, g := range r.Snapshot.Groups {
		if g.View {
			continue
		}
		used := map[cloud.Direction][2]int{} // by family
		for _, rule := range g.Rules {
			n := used[rule.Direction]
			for family := range n {
				if concerns(rule.Peer, family) {
					n[family] += max(1, sizes[rule.Peer.PrefixListID])
				}
			}
			used[rule.Direction] = n
		}
		for _, n := range used {
			fill(quotaRules, max(n[0], n[1]), r.Limits.RulesPerGroup)
		}
	}
	fill(quotaGroups, r.Snapshot.CountedGroups(), r.Limits.GroupsPerRegion)
	for _, i := range r.Snapshot.Interfaces {
		fill(quotaHeld, len(i.GroupIDs), r.Limits.GroupsPerInterface)
	}
	return out
}

// concerns reports whether a peer counts against the quota of a family: 0 is IPv4, 1 IPv6. What
// names no address counts against both.
func concerns(p cloud.Peer, family int) bool {
	if p.CIDR == (netip.Prefix{}) {
		return true
	}
	return p.CIDR.Addr().Is4() == (family == 0)
}
