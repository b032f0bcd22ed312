// Package modeltest says what clouds refuse, for tests that play plans on a model.
package modeltest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/model"
)

// maxTagValue is how long a tag's value may be in AWS, the shortest among the clouds, less the one
// that it may not begin with.
const maxTagValue = 255

// Refuses says why the cloud would refuse an operation, in the way of EC2, which is the strictest:
// what exists already may not be created, what does not exist may not be removed, quotas hold for
// the state after each single operation, and a group that somebody holds or refers to is not
// deleted. It is nil if the operation would be taken.
func Refuses(m *model.Model, network string, op cloud.Op, limits cloud.Limits) error {
	op = m.Resolve(network, op)
	switch op.Kind {
	case cloud.OpCreateGroup:
		for _, g := range m.Snapshot().Groups {
			if g.NetworkID == op.Group.NetworkID && strings.EqualFold(g.Name, op.Group.Name) {
				return fmt.Errorf("InvalidGroup.Duplicate %s", op.Group.Name)
			}
		}
		if n := m.Snapshot().CountedGroups(); n >= limits.GroupsPerRegion {
			return fmt.Errorf("SecurityGroupLimitExceeded: there are %d of %d", n, limits.GroupsPerRegion)
		}
	case cloud.OpSetRules:
		if !limits.WholeGroups {
			return fmt.Errorf("InvalidAction: %s: rules are changed one by one here", op.Kind)
		}
		return refusesRules(m, op, limits)
	case cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpReplaceRules:
		return refusesRules(m, op, limits)
	case cloud.OpSetInterfaceGroups:
		return refusesGroups(m, op, limits)
	case cloud.OpTag:
		return refusesTags(m, op, limits)
	case cloud.OpDeleteGroup:
		return refusesDelete(m, op.Target)
	}
	return nil
}

func refusesTags(m *model.Model, op cloud.Op, limits cloud.Limits) error {
	for _, v := range op.Tags {
		if len(v) > maxTagValue {
			return fmt.Errorf("InvalidParameterValue: a tag of %d characters", len(v))
		}
	}
	for _, id := range op.Subjects() {
		n := m.Interface(id)
		if n == nil {
			continue
		}
		count := len(n.Tags)
		for k := range op.Tags {
			if _, there := n.Tags[k]; !there {
				count++
			}
		}
		if limits.TagsPerResource > 0 && count > limits.TagsPerResource {
			return fmt.Errorf("TagLimitExceeded: %s would have %d of %d", id, count, limits.TagsPerResource)
		}
	}
	return nil
}

func refusesRules(m *model.Model, op cloud.Op, limits cloud.Limits) error {
	view := model.NewView(m.Snapshot())
	g := view.Group(op.Target)
	if g == nil {
		return fmt.Errorf("InvalidGroup.NotFound %q", op.Target)
	}
	rules := slices.Clone(g.Rules)
	if op.Kind == cloud.OpSetRules {
		rules = nil
	}
	for i, r := range op.Rules {
		at := slices.IndexFunc(rules, r.Same)
		switch op.Kind {
		case cloud.OpRemoveRules:
			if at < 0 {
				return fmt.Errorf("InvalidPermission.NotFound %s in %s", r, g.ID)
			}
			rules = slices.Delete(rules, at, at+1)
			continue
		case cloud.OpReplaceRules:
			old := op.Replaced[i]
			was := slices.IndexFunc(rules, old.Same)
			if was < 0 {
				return fmt.Errorf("InvalidSecurityGroupRuleId.NotFound %s in %s", old, g.ID)
			}
			if !old.CanBecome(r) {
				return fmt.Errorf("InvalidParameterCombination: %s cannot become %s", old, r)
			}
			rules = slices.Delete(rules, was, was+1)
			at = slices.IndexFunc(rules, r.Same)
		}
		if at >= 0 {
			return fmt.Errorf("InvalidPermission.Duplicate %s in %s", r, g.ID)
		}
		if err := refusesPeer(g, r.Peer, view, limits); err != nil {
			return err
		}
		rules = append(rules, r)
	}
	if op.Kind == cloud.OpRemoveRules {
		return nil
	}
	if n, where := Fullest(view, rules); n > limits.RulesPerGroup {
		return fmt.Errorf("RulesPerSecurityGroupLimitExceeded: %s would have %d %s rules of %d", g.ID, n, where, limits.RulesPerGroup)
	}
	return nil
}

func refusesPeer(g *cloud.Group, p cloud.Peer, view *model.View, limits cloud.Limits) error {
	switch {
	case p.Except != "" && (p.PrefixListID == "" || !limits.Excepts):
		return fmt.Errorf("InvalidParameterValue: addresses are left out of %s", p)
	case p.GroupName != "":
		return fmt.Errorf("InvalidGroup.NotFound %s", p.GroupName)
	case p.GroupID != "" && p.GroupOwner == "":
		if o := view.Group(p.GroupID); o == nil || !view.Reaches(g.NetworkID, o.NetworkID) {
			return fmt.Errorf("InvalidGroup.NotFound %s", p.GroupID)
		}
	case p.CIDR.IsValid() && p.CIDR.Masked() != p.CIDR:
		return fmt.Errorf("InvalidParameterValue: %s has host bits", p.CIDR)
	}
	return nil
}

func refusesGroups(m *model.Model, op cloud.Op, limits cloud.Limits) error {
	n := m.Interface(op.Target)
	switch {
	case n == nil:
		return fmt.Errorf("InvalidNetworkInterfaceID.NotFound %s", op.Target)
	case n.Managed:
		return fmt.Errorf("OperationNotPermitted %s", op.Target)
	case len(op.GroupNames) > 0:
		return fmt.Errorf("InvalidGroup.NotFound %v", op.GroupNames)
	case len(op.GroupIDs) == 0 || len(cloud.Deciding(op.GroupIDs, m.Group)) > limits.GroupsPerInterface:
		return fmt.Errorf("SecurityGroupsPerInterfaceLimitExceeded: %d for %s", len(op.GroupIDs), n.ID)
	}
	for _, id := range op.GroupIDs {
		if g := m.Group(id); g == nil || g.NetworkID != n.NetworkID {
			return fmt.Errorf("InvalidGroup.NotFound %s", id)
		}
	}
	return nil
}

func refusesDelete(m *model.Model, id string) error {
	for _, n := range m.Snapshot().Interfaces {
		if slices.Contains(n.GroupIDs, id) {
			return fmt.Errorf("DependencyViolation: %s is held by %s", id, n.ID)
		}
	}
	for _, g := range m.Snapshot().Groups {
		if g.ID != id && slices.ContainsFunc(g.Rules, func(r cloud.Rule) bool { return r.Peer.GroupID == id }) {
			return fmt.Errorf("DependencyViolation: %s is referred to by %s", id, g.ID)
		}
	}
	return nil
}

// Fullest counts rules in the direction and address family that has most, as clouds count them: a
// reference counts in both families, a prefix list as many as it can hold in its own.
func Fullest(v *model.View, rules []cloud.Rule) (n int, where string) {
	counts := map[string]int{}
	for _, r := range rules {
		weight, block := 1, r.Peer.CIDR
		if l := v.List(r.Peer.PrefixListID); l != nil {
			weight = l.Weight()
			if len(l.Entries) > 0 {
				block = l.Entries[0]
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
		if c > n || c == n && k > where {
			n, where = c, k
		}
	}
	return n, where
}
