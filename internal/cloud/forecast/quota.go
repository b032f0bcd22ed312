package forecast

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
)

// Quota is one limit of the cloud and how much of it is used.
type Quota struct {
	Region string `json:"region"`
	// Name is what is counted, for people.
	Name string `json:"name"`
	// Before and After count what is used; where a limit holds for each of many objects, at the one
	// that uses most of it.
	Before int `json:"before"`
	After  int `json:"after"`
	Limit  int `json:"limit"`
	// Where is the object that uses most of the limit afterwards; empty for a limit of the whole
	// region.
	Where string `json:"where,omitempty"`
}

// The names of the limits.
const (
	nameGroups = "security groups"
	nameRules  = "rules of a group, per direction and family"
	nameHeld   = "groups of an interface"
)

// Standing returns the same limits as they are used where nothing is to be done. Limits that hold
// for each group or interface are told for the fullest of those that a plan could change: the
// groups of ours, and the interfaces that hold one.
func Standing(now *cloud.Snapshot, l cloud.Limits) []Quota {
	n := now.CountedGroups()
	out := []Quota{{Region: now.Region, Name: nameGroups, Before: n, After: n, Limit: l.GroupsPerRegion}}
	ours, view := map[string]bool{}, model.NewView(now)
	rules := Quota{Region: now.Region, Name: nameRules, Limit: l.RulesPerGroup}
	for i := range now.Groups {
		g := &now.Groups[i]
		if g.Tags[cloud.TagAccount] == "" {
			continue
		}
		ours[g.ID] = true
		if n, where := view.Fullest(g.Rules); n > rules.After {
			rules.Before, rules.After, rules.Where = n, n, g.Name+", "+where
		}
	}
	if rules.Where != "" {
		out = append(out, rules)
	}
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
// region. Limits that hold for each group or interface are told for those that differ between the
// two, and left out if none does.
func Quotas(before, after *cloud.Snapshot, l cloud.Limits) []Quota {
	out := []Quota{{Region: before.Region, Name: nameGroups, Before: before.CountedGroups(), After: after.CountedGroups(), Limit: l.GroupsPerRegion}}
	old := map[string]*cloud.Group{}
	for i := range before.Groups {
		old[before.Groups[i].ID] = &before.Groups[i]
	}
	rules := Quota{Region: before.Region, Name: nameRules, Limit: l.RulesPerGroup}
	was, is := model.NewView(before), model.NewView(after)
	for i := range after.Groups {
		g := &after.Groups[i]
		earlier := old[g.ID]
		if earlier != nil && slices.EqualFunc(earlier.Rules, g.Rules, cloud.Rule.Same) {
			continue
		}
		n, where := is.Fullest(g.Rules)
		if n > rules.After {
			rules.After, rules.Where, rules.Before = n, g.Name+", "+where, 0
			if earlier != nil {
				rules.Before, _ = was.Fullest(earlier.Rules)
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
