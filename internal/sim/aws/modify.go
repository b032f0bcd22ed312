package aws

import (
	"slices"
	"time"
)

// ModifySecurityGroupRules rewrites rules of a group in place: they keep their ids, tags and
// direction, and the kind of their peer. All or nothing.
func (r Groups) ModifySecurityGroupRules(groupID string, updates []RuleUpdate) error {
	return r.mutate("ModifySecurityGroupRules", func(now time.Time) ([]string, error) {
		g, err := r.group(groupID, "", now)
		if err != nil {
			return nil, err
		}
		if len(updates) == 0 {
			return nil, refuse("MissingParameter", "The request must contain the parameter SecurityGroupRule")
		}
		after := slices.Clone(g.Rules)
		touched := []string{g.ID}
		for i := range updates {
			u := &updates[i]
			if err := CheckID("sgr", u.RuleID); err != nil {
				return nil, err
			}
			at := slices.IndexFunc(after, func(x SecurityGroupRule) bool { return x.ID == u.RuleID })
			if at < 0 {
				return nil, NotFound(u.RuleID)
			}
			if slices.Contains(touched, u.RuleID) {
				return nil, invalidValue("The same permission must not appear multiple times")
			}
			if after[at], err = r.updated(g, after[at], u, now); err != nil {
				return nil, err
			}
			touched = append(touched, u.RuleID)
		}
		have := map[ruleKey]bool{}
		for i := range after {
			if have[after[i].key()] {
				return nil, refuse("InvalidPermission.Duplicate", "%s", after[i].duplicateMessage())
			}
			have[after[i].key()] = true
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
func (r Groups) updated(g *SecurityGroup, old SecurityGroupRule, u *RuleUpdate, now time.Time) (SecurityGroupRule, error) {
	p := Permission{FromPort: u.FromPort, ToPort: u.ToPort}
	if u.Protocol != nil {
		p.Protocol = *u.Protocol
	}
	var description string
	if u.Description != nil {
		description = *u.Description
	}
	peers := 0
	if u.CIDRIPv4 != "" {
		p.CIDRs = append(p.CIDRs, CIDRPeer{u.CIDRIPv4, false, description})
		peers++
	}
	if u.CIDRIPv6 != "" {
		p.CIDRs = append(p.CIDRs, CIDRPeer{u.CIDRIPv6, true, description})
		peers++
	}
	if u.PrefixListID != "" {
		p.PrefixLists = []PrefixListPeer{{u.PrefixListID, description}}
		peers++
	}
	if u.ReferencedGroupID != "" {
		ref := GroupRef{GroupID: u.ReferencedGroupID, Description: description}
		if owner := r.w.ownerOfGroup(r.at.region, u.ReferencedGroupID); owner != "" {
			ref.UserID = owner
		}
		p.Groups = []GroupRef{ref}
		peers++
	}
	if p.Protocol == "" {
		return old, invalidValue("Invalid value 'null' for protocol. VPC security group rules must specify protocols explicitly.")
	}
	if peers == 0 {
		return old, refuse("MissingParameter", "The request must contain exactly one of: cidrIp, cidrIpv6, prefixListId, or referencedGroupId")
	}
	if peers > 1 {
		return old, refuse("InvalidParameterCombination", "Only one of cidrIp, cidrIpv6, prefixListId, or referencedGroupId can be specified")
	}
	rules, err := r.expand(g, old.Egress, []Permission{p}, now)
	if err != nil {
		return old, err
	}
	rule := rules[0]
	if err := r.checkPeer(g, &rule, now); err != nil {
		return old, err
	}
	if old.peerKind() != rule.peerKind() {
		return old, invalidValue("The source or destination type of the security group rule '%s' cannot be changed", old.ID)
	}
	rule.ID, rule.Tags = old.ID, old.Tags
	return rule, nil
}

// peerKind tells apart what ModifySecurityGroupRules cannot turn into one another.
func (r *SecurityGroupRule) peerKind() string {
	switch {
	case r.Group != nil:
		return "group"
	case r.PrefixListID != "":
		return "prefix list"
	case r.CIDR.Addr().Is4():
		return "IPv4"
	}
	return "IPv6"
}

// ownerOfGroup finds the account of a group in a region. ModifySecurityGroupRules is the one call
// that names a foreign group by its id alone.
func (w *World) ownerOfGroup(region, id string) string {
	for at, d := range w.regions {
		if at.region == region && d.groups[id] != nil {
			return at.account
		}
	}
	return ""
}

// UpdateSecurityGroupRuleDescriptions sets or removes descriptions of rules. All or nothing.
func (r Groups) UpdateSecurityGroupRuleDescriptions(in UpdateDescriptionsInput) error {
	return r.mutate(directed("UpdateSecurityGroupRuleDescriptions", in.Egress), func(now time.Time) ([]string, error) {
		g, err := r.group(in.GroupID, in.GroupName, now)
		if err != nil {
			return nil, err
		}
		after := slices.Clone(g.Rules)
		touched := []string{g.ID}
		for _, d := range in.Rules {
			at := slices.IndexFunc(after, func(x SecurityGroupRule) bool { return x.ID == d.RuleID && x.Egress == in.Egress })
			if err := CheckID("sgr", d.RuleID); err != nil {
				return nil, err
			}
			if at < 0 {
				return nil, NotFound(d.RuleID)
			}
			after[at].Description = ""
			if d.Description != nil {
				if err := checkRuleDescription(*d.Description); err != nil {
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
				at := slices.IndexFunc(after, func(x SecurityGroupRule) bool { return x.key() == named[i].key() })
				if at < 0 {
					return nil, refuse("InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
				}
				after[at].Description = named[i].Description
				touched = append(touched, after[at].ID)
			}
		}
		g.Rules = after
		return touched, nil
	})
}
