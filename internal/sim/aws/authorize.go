package aws

import (
	"slices"
	"time"
)

func directed(action string, egress bool) string {
	if egress {
		return action + "Egress"
	}
	return action + "Ingress"
}

// AuthorizeSecurityGroup adds rules to a group and returns them, one per peer, in the order of the
// request. The whole call is refused if one rule is malformed, appears twice, exists already,
// references something unknown, or if a quota would be exceeded.
func (r Groups) AuthorizeSecurityGroup(in AuthorizeInput) ([]SecurityGroupRule, error) {
	var out []SecurityGroupRule
	err := r.mutate(directed("AuthorizeSecurityGroup", in.Egress), func(now time.Time) ([]string, error) {
		g, err := r.group(in.GroupID, in.GroupName, now)
		if err != nil {
			return nil, err
		}
		added, err := r.expand(g, in.Egress, in.Permissions, now)
		if err != nil {
			return nil, err
		}
		for i := range added {
			if err := r.checkPeer(g, &added[i], now); err != nil {
				return nil, err
			}
		}
		have := map[ruleKey]bool{}
		for i := range g.Rules {
			have[g.Rules[i].key()] = true
		}
		for i := range added {
			if have[added[i].key()] {
				return nil, refuse("InvalidPermission.Duplicate", "%s", added[i].duplicateMessage())
			}
		}
		after := append(slices.Clone(g.Rules), added...)
		if err := r.checkRuleQuota(g.Rules, after, in.Egress); err != nil {
			return nil, err
		}
		if err := r.checkNewTags(in.RuleTags); err != nil {
			return nil, err
		}
		touched := []string{g.ID}
		for i := len(g.Rules); i < len(after); i++ {
			after[i].ID = r.w.newID("sgr")
			after[i].Tags = cloneTags(in.RuleTags)
			touched = append(touched, after[i].ID)
			c := cloneRule(&after[i])
			r.w.fillPeering(&c)
			out = append(out, c)
		}
		g.Rules = after
		return touched, nil
	})
	return out, err
}

// RevokeSecurityGroup removes rules by id or by permission. A permission that matches no rule
// refuses the whole call in a non-default VPC, and is answered as unknown in a default VPC.
func (r Groups) RevokeSecurityGroup(in RevokeInput) (RevokeResult, error) {
	var out RevokeResult
	err := r.mutate(directed("RevokeSecurityGroup", in.Egress), func(now time.Time) ([]string, error) {
		g, err := r.group(in.GroupID, in.GroupName, now)
		if err != nil {
			return nil, err
		}
		var gone map[string]bool
		var unknown []SecurityGroupRule
		if len(in.RuleIDs) > 0 {
			if len(in.Permissions) > 0 {
				return nil, refuse("InvalidParameterCombination", "Only one of ipPermissions or securityGroupRuleIds can be specified")
			}
			gone, err = rulesByID(g, in.Egress, in.RuleIDs)
		} else {
			gone, unknown, err = r.rulesByPermission(g, in, now)
		}
		if err != nil {
			return nil, err
		}
		for i := range unknown {
			out.Unknown = append(out.Unknown, unknown[i].permission())
		}
		touched := []string{g.ID}
		kept := make([]SecurityGroupRule, 0, len(g.Rules))
		for i := range g.Rules {
			if gone[g.Rules[i].ID] {
				out.Revoked = append(out.Revoked, cloneRule(&g.Rules[i]))
				touched = append(touched, g.Rules[i].ID)
			} else {
				kept = append(kept, g.Rules[i])
			}
		}
		if len(gone) == 0 {
			return nil, errNothingChanged
		}
		g.Rules = kept
		return touched, nil
	})
	return out, err
}

// rulesByID checks that all ids are rules of g in the direction.
func rulesByID(g *SecurityGroup, egress bool, ids []string) (map[string]bool, error) {
	set := map[string]bool{}
	for _, id := range ids {
		if err := CheckID("sgr", id); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(g.Rules, func(x SecurityGroupRule) bool { return x.ID == id && x.Egress == egress }) {
			return nil, NotFound(id)
		}
		set[id] = true
	}
	return set, nil
}

func (r Groups) rulesByPermission(g *SecurityGroup, in RevokeInput, now time.Time) (map[string]bool, []SecurityGroupRule, error) {
	named, err := r.expand(g, in.Egress, in.Permissions, now)
	if err != nil {
		return nil, nil, err
	}
	ids := map[ruleKey]string{}
	for i := range g.Rules {
		ids[g.Rules[i].key()] = g.Rules[i].ID
	}
	set := map[string]bool{}
	var unknown []SecurityGroupRule
	for i := range named {
		if id, ok := ids[named[i].key()]; ok {
			set[id] = true
		} else {
			unknown = append(unknown, named[i])
		}
	}
	vpc := r.data.vpcs[g.VPCID]
	if len(unknown) > 0 && (vpc == nil || !vpc.IsDefault) {
		return nil, nil, refuse("InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
	}
	return set, unknown, nil
}

// permission is the rule as a Permission with one peer.
func (r *SecurityGroupRule) permission() Permission {
	p := Permission{Protocol: r.Protocol}
	if r.Protocol != AllProtocols {
		from, to := r.FromPort, r.ToPort
		p.FromPort, p.ToPort = &from, &to
	}
	switch {
	case r.Group != nil:
		p.Groups = []GroupRef{{GroupID: r.Group.GroupID, UserID: r.Group.UserID, Description: r.Description}}
	case r.PrefixListID != "":
		p.PrefixLists = []PrefixListPeer{{r.PrefixListID, r.Description}}
	default:
		p.CIDRs = []CIDRPeer{{r.CIDR.String(), r.CIDR.Addr().Is6(), r.Description}}
	}
	return p
}
