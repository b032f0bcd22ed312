package forecast

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// Quota is one limit of the cloud and how much of it is used.
type Quota struct {
	Region string
	// Name is what is counted, for people.
	Name string
	// Before and After count what is used; where a limit holds for each of many objects, at the one
	// that uses most of it.
	Before int
	After  int
	Limit  int
	// Where is the object that uses most of the limit afterwards; empty for a limit of the whole
	// region.
	Where string
}

// The names of the limits that do not hold for the rules of one group.
const (
	nameGroups = "security groups"
	nameHeld   = "groups of an interface"
)

// Standing returns the same limits as they are used where nothing is to be done. Limits for each
// group or interface are shown for the fullest ones that a plan could change: the groups of ours,
// and the interfaces that hold one.
func Standing(now *cloud.Snapshot, l cloud.Limits, lower plan.Lowerer) []Quota {
	n := now.CountedGroups()
	out := []Quota{{Region: now.Region, Name: nameGroups, Before: n, After: n, Limit: l.GroupsPerRegion}}
	ours, rules := map[string]bool{}, usage{lower: lower, quota: quotaOf(now, l)}
	for i := range now.Groups {
		g := &now.Groups[i]
		if g.Tags[cloud.TagAccount] == "" {
			continue
		}
		ours[g.ID] = true
		rules.count(now.Region, g, g)
	}
	out = append(out, rules.rows...)
	held := Quota{Region: now.Region, Name: nameHeld, Limit: l.GroupsPerInterface}
	for i := range now.Interfaces {
		nic := &now.Interfaces[i]
		if n := len(nic.GroupIDs); n > held.After && slices.ContainsFunc(nic.GroupIDs, func(id string) bool { return ours[id] }) {
			held.Before, held.After, held.Where = n, n, nic.ID
		}
	}
	if held.Where != "" {
		out = append(out, held)
	}
	return out
}

// Quotas returns the limits that plans have to do with, as they are used in two snapshots of a
// region. Limits for each group or interface are shown for the ones that differ between the two,
// and left out if none does.
func Quotas(before, after *cloud.Snapshot, l cloud.Limits, lower plan.Lowerer) []Quota {
	out := []Quota{{Region: before.Region, Name: nameGroups, Before: before.CountedGroups(), After: after.CountedGroups(), Limit: l.GroupsPerRegion}}
	old := map[string]*cloud.Group{}
	for i := range before.Groups {
		old[before.Groups[i].ID] = &before.Groups[i]
	}
	rules := usage{lower: lower, quota: quotaOf(after, l)}
	for i := range after.Groups {
		g := &after.Groups[i]
		earlier := old[g.ID]
		if earlier == nil || !slices.EqualFunc(earlier.Rules, g.Rules, cloud.Rule.Same) {
			rules.count(before.Region, earlier, g)
		}
	}
	out = append(out, rules.rows...)
	held := map[string][]string{}
	for i := range before.Interfaces {
		held[before.Interfaces[i].ID] = before.Interfaces[i].GroupIDs
	}
	nics := Quota{Region: before.Region, Name: nameHeld, Limit: l.GroupsPerInterface}
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

// usage collects, for each limit that holds for one group, the group that uses most of it.
type usage struct {
	lower plan.Lowerer
	quota plan.Quota
	rows  []Quota
}

// count takes a group into account, as it is afterwards and, if it was there, before.
func (u *usage) count(region string, before, after *cloud.Group) {
	for _, use := range u.lower.Uses(after.Rules, u.quota) {
		i := slices.IndexFunc(u.rows, func(q Quota) bool { return q.Name == use.Name })
		if i < 0 {
			i, u.rows = len(u.rows), append(u.rows, Quota{Region: region, Name: use.Name, Limit: use.Limit})
		}
		row := &u.rows[i]
		if use.Used <= row.After {
			continue
		}
		row.After, row.Before, row.Where = use.Used, 0, after.Name
		if use.Where != "" {
			row.Where += ", " + use.Where
		}
		if before == nil {
			continue
		}
		for _, was := range u.lower.Uses(before.Rules, u.quota) {
			if was.Name == use.Name {
				row.Before = was.Used
			}
		}
	}
	u.rows = slices.DeleteFunc(u.rows, func(q Quota) bool { return q.Where == "" })
}

// quotaOf is what rules of a region are counted with.
func quotaOf(s *cloud.Snapshot, l cloud.Limits) plan.Quota {
	lists := map[string]*cloud.PrefixList{}
	for i := range s.PrefixLists {
		lists[s.PrefixLists[i].ID] = &s.PrefixLists[i]
	}
	return plan.Quota{Limits: l, Lists: lists}
}
