package group

import (
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
)

// ModifySecurityGroupRules rewrites rules of a group in place: they keep their ids, tags and
// direction, and the kind of their peer. All or nothing.
func (r Groups) ModifySecurityGroupRules(groupID string, updates []aws.RuleUpdate) error {
	return r.s.Mutate("ModifySecurityGroupRules", func(now time.Time) ([]string, error) {
		g, err := r.group(groupID, "", now)
		if err != nil {
			return nil, err
		}
		if len(updates) == 0 {
			return nil, aws.Refuse("MissingParameter", "The request must contain the parameter SecurityGroupRule")
		}
		after := slices.Clone(g.Rules)
		touched := []string{g.ID}
		for i := range updates {
			u := &updates[i]
			if err := aws.CheckID("sgr", u.RuleID); err != nil {
				return nil, err
			}
			at := slices.IndexFunc(after, func(x aws.SecurityGroupRule) bool { return x.ID == u.RuleID })
			if at < 0 {
				return nil, aws.NotFound(u.RuleID)
			}
			if slices.Contains(touched, u.RuleID) {
				return nil, aws.InvalidValue("The same permission must not appear multiple times")
			}
			if after[at], err = r.updated(g, after[at], u, now); err != nil {
				return nil, err
			}
			touched = append(touched, u.RuleID)
		}
		have := map[aws.RuleKey]bool{}
		for i := range after {
			if have[after[i].Key()] {
				return nil, aws.Refuse("InvalidPermission.Duplicate", "%s", after[i].DuplicateMessage())
			}
			have[after[i].Key()] = true
		}
		for _, egress := range []bool{false, true} {
			if err := r.checkRuleQuota(g.Rules, after, egress); err != nil {
				return nil, err
			}
		}
		g.Rules = after
		return touched, nil
	})
}

// updated returns old with the new values of u.
func (r Groups) updated(g *aws.SecurityGroup, old aws.SecurityGroupRule, u *aws.RuleUpdate, now time.Time) (aws.SecurityGroupRule, error) {
	p := aws.Permission{FromPort: u.FromPort, ToPort: u.ToPort}
	if u.Protocol != nil {
		p.Protocol = *u.Protocol
	}
	var description string
	if u.Description != nil {
		description = *u.Description
	}
	peers := 0
	if u.CIDRIPv4 != "" {
		p.CIDRs = append(p.CIDRs, aws.CIDRPeer{CIDR: u.CIDRIPv4, IPv6: false, Description: description})
		peers++
	}
	if u.CIDRIPv6 != "" {
		p.CIDRs = append(p.CIDRs, aws.CIDRPeer{CIDR: u.CIDRIPv6, IPv6: true, Description: description})
		peers++
	}
	if u.PrefixListID != "" {
		p.PrefixLists = []aws.PrefixListPeer{{PrefixListID: u.PrefixListID, Description: description}}
		peers++
	}
	if u.ReferencedGroupID != "" {
		ref := aws.GroupRef{GroupID: u.ReferencedGroupID, Description: description}
		if owner := r.s.OwnerOfGroup(u.ReferencedGroupID); owner != "" {
			ref.UserID = owner
		}
		p.Groups = []aws.GroupRef{ref}
		peers++
	}
	if p.Protocol == "" {
		return old, aws.InvalidValue("Invalid value 'null' for protocol. VPC security group rules must specify protocols explicitly.")
	}
	if peers == 0 {
		return old, aws.Refuse("MissingParameter", "The request must contain exactly one of: cidrIp, cidrIpv6, prefixListId, or referencedGroupId")
	}
	if peers > 1 {
		return old, aws.Refuse("InvalidParameterCombination", "Only one of cidrIp, cidrIpv6, prefixListId, or referencedGroupId can be specified")
	}
	rules, err := r.expand(g, old.Egress, []aws.Permission{p}, now)
	if err != nil {
		return old, err
	}
	rule := rules[0]
	if err := r.checkPeer(g, &rule, now); err != nil {
		return old, err
	}
	if old.PeerKind() != rule.PeerKind() {
		return old, aws.InvalidValue("The source or destination type of the security group rule '%s' cannot be changed", old.ID)
	}
	rule.ID, rule.Tags = old.ID, old.Tags
	return rule, nil
}

// UpdateSecurityGroupRuleDescriptions sets or removes descriptions of rules. All or nothing.
func (r Groups) UpdateSecurityGroupRuleDescriptions(in aws.UpdateDescriptionsInput) error {
	return r.s.Mutate(directed("UpdateSecurityGroupRuleDescriptions", in.Egress), func(now time.Time) ([]string, error) {
		g, err := r.group(in.GroupID, in.GroupName, now)
		if err != nil {
			return nil, err
		}
		after := slices.Clone(g.Rules)
		touched := []string{g.ID}
		for _, d := range in.Rules {
			at := slices.IndexFunc(after, func(x aws.SecurityGroupRule) bool { return x.ID == d.RuleID && x.Egress == in.Egress })
			if err := aws.CheckID("sgr", d.RuleID); err != nil {
				return nil, err
			}
			if at < 0 {
				return nil, aws.NotFound(d.RuleID)
			}
			after[at].Description = ""
			if d.Description != nil {
				if err := aws.CheckRuleDescription(*d.Description); err != nil {
					return nil, err
				}
				after[at].Description = *d.Description
			}
			touched = append(touched, d.RuleID)
		}
		if len(in.Rules) == 0 {
			named, err := r.expand(g, in.Egress, in.Permissions, now)
			if err != nil {
				return nil, err
			}
			for i := range named {
				at := slices.IndexFunc(after, func(x aws.SecurityGroupRule) bool { return x.Key() == named[i].Key() })
				if at < 0 {
					return nil, aws.Refuse("InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
				}
				after[at].Description = named[i].Description
				touched = append(touched, after[at].ID)
			}
		}
		g.Rules = after
		return touched, nil
	})
}
