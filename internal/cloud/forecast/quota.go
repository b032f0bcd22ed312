package forecast

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Quota is one limit of the cloud and how much of it is used.
type Quota struct {
	Region string `json:"region"`
	// Name is what is counted, for people.
	Name string `json:"name"`
	// Before and After count what is used; where a limit holds for each of many objects, at the one that uses most of it.
	Before int `json:"before"`
	After  int `json:"after"`
	Limit  int `json:"limit"`
	// Where is the object that uses most of the limit afterwards; empty for a limit of the whole region.
	Where string `json:"where,omitempty"`
}

// Quotas returns the limits that plans have to do with, as they are used in two snapshots of a region. Limits that hold for each group or
// interface are told for those that differ between the two, and left out if none does.
func Quotas(before, after *cloud.Snapshot, l cloud.Limits) []Quota {
	out := []Quota{{Region: before.Region, Name: "security groups", Before: len(before.Groups), After: len(after.Groups), Limit: l.GroupsPerRegion}}
	old := map[string]*cloud.Group{}
	for i := range before.Groups {
		old[before.Groups[i].ID] = &before.Groups[i]
	}
	rules := Quota{Region: before.Region, Name: "rules of a group, per direction and family", Limit: l.RulesPerGroup}
	for i := range after.Groups {
		g := &after.Groups[i]
		was := old[g.ID]
		if was != nil && slices.EqualFunc(was.Rules, g.Rules, cloud.Rule.Same) {
			continue
		}
		n, where := fullest(after, g)
		if n > rules.After {
			rules.After, rules.Where, rules.Before = n, g.Name+", "+where, 0
			if was != nil {
				rules.Before, _ = fullest(before, was)
			}
		}
	}
	if rules.Where != "" {
		out = append(out, rules)
	}
	held := map[string][]string{}
	for i := range before.Interfaces {
		held[before.Interfaces[i].ID] = before.Interfaces[i].GroupIDs
	}
	nics := Quota{Region: before.Region, Name: "groups of an interface", Limit: l.GroupsPerInterface}
	for i := range after.Interfaces {
		n := &after.Interfaces[i]
		if !slices.Equal(held[n.ID], n.GroupIDs) && len(n.GroupIDs) > nics.After {
			nics.Before, nics.After, nics.Where = len(held[n.ID]), len(n.GroupIDs), n.ID
		}
	}
	if nics.Where != "" {
		out = append(out, nics)
	}
	return out
}

// fullest counts the rules of a group in the direction and address family that has most, as the cloud counts them: a reference counts in
// both families, a prefix list as many as it can hold in its own.
func fullest(s *cloud.Snapshot, g *cloud.Group) (n int, where string) {
	counts := map[string]int{}
	for _, r := range g.Rules {
		weight, block := 1, r.Peer.CIDR
		if i := slices.IndexFunc(s.PrefixLists, func(l cloud.PrefixList) bool { return l.ID == r.Peer.PrefixListID }); r.Peer.PrefixListID != "" && i >= 0 {
			weight = s.PrefixLists[i].Weight()
			if entries := s.PrefixLists[i].Entries; len(entries) > 0 {
				block = entries[0]
			}
		}
		if !block.IsValid() || block.Addr().Is4() {
			counts[fmt.Sprintf("%s IPv4", r.Direction)] += weight
		}
		if !block.IsValid() || block.Addr().Is6() {
			counts[fmt.Sprintf("%s IPv6", r.Direction)] += weight
		}
	}
	for k, c := range counts {
		if cmp.Or(cmp.Compare(c, n), cmp.Compare(where, k)) > 0 {
			n, where = c, k
		}
	}
	return n, where
}
