package group

import (
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/store"
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
func (r Groups) AuthorizeSecurityGroup(in aws.AuthorizeInput) ([]aws.SecurityGroupRule, error) {
	var out []aws.SecurityGroupRule
	err := r.s.Mutate(directed("AuthorizeSecurityGroup", in.Egress), func(now time.Time) ([]string, error) {
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
		have := map[aws.RuleKey]bool{}
		for i := range g.Rules {
			have[g.Rules[i].Key()] = true
		}
		for i := range added {
			if have[added[i].Key()] {
				return nil, aws.Refuse("InvalidPermission.Duplicate", "%s", added[i].DuplicateMessage())
			}
		}
		after := append(slices.Clone(g.Rules), added...)
		if err := r.checkRuleQuota(g.Rules, after, in.Egress); err != nil {
			return nil, err
		}
		if err := r.s.CheckNewTags(in.RuleTags); err != nil {
			return nil, err
		}
		touched := []string{g.ID}
		for i := len(g.Rules); i < len(after); i++ {
			after[i].ID = r.s.NewID("sgr")
			after[i].Tags = in.RuleTags.Clone()
			touched = append(touched, after[i].ID)
			c := after[i].Clone()
			r.s.FillPeering(&c)
			out = append(out, c)
		}
		g.Rules = after
		return touched, nil
	})
	return out, err
}

// RevokeSecurityGroup removes rules by id or by permission. A permission that matches no rule
// refuses the whole call in a non-default VPC, and is answered as unknown in a default VPC.
func (r Groups) RevokeSecurityGroup(in aws.RevokeInput) (aws.RevokeResult, error) {
	var out aws.RevokeResult
	err := r.s.Mutate(directed("RevokeSecurityGroup", in.Egress), func(now time.Time) ([]string, error) {
		g, err := r.group(in.GroupID, in.GroupName, now)
		if err != nil {
			return nil, err
		}
		var gone map[string]bool
		var unknown []aws.SecurityGroupRule
		if len(in.RuleIDs) > 0 {
			if len(in.Permissions) > 0 {
				return nil, aws.Refuse("InvalidParameterCombination", "Only one of ipPermissions or securityGroupRuleIds can be specified")
			}
			gone, err = rulesByID(g, in.Egress, in.RuleIDs)
		} else {
			gone, unknown, err = r.rulesByPermission(g, in, now)
		}
		if err != nil {
			return nil, err
		}
		for i := range unknown {
			out.Unknown = append(out.Unknown, unknown[i].Permission())
		}
		touched := []string{g.ID}
		kept := make([]aws.SecurityGroupRule, 0, len(g.Rules))
		for i := range g.Rules {
			if gone[g.Rules[i].ID] {
				out.Revoked = append(out.Revoked, g.Rules[i].Clone())
				touched = append(touched, g.Rules[i].ID)
			} else {
				kept = append(kept, g.Rules[i])
			}
		}
		if len(gone) == 0 {
			return nil, store.ErrNothingChanged
		}
		g.Rules = kept
		return touched, nil
	})
	return out, err
}

// rulesByID checks that all ids are rules of g in the direction.
func rulesByID(g *aws.SecurityGroup, egress bool, ids []string) (map[string]bool, error) {
	set := map[string]bool{}
	for _, id := range ids {
		if err := aws.CheckID("sgr", id); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(g.Rules, func(x aws.SecurityGroupRule) bool { return x.ID == id && x.Egress == egress }) {
			return nil, aws.NotFound(id)
		}
		set[id] = true
	}
	return set, nil
}

func (r Groups) rulesByPermission(g *aws.SecurityGroup, in aws.RevokeInput, now time.Time) (map[string]bool, []aws.SecurityGroupRule, error) {
	named, err := r.expand(g, in.Egress, in.Permissions, now)
	if err != nil {
		return nil, nil, err
	}
	ids := map[aws.RuleKey]string{}
	for i := range g.Rules {
		ids[g.Rules[i].Key()] = g.Rules[i].ID
	}
	set := map[string]bool{}
	var unknown []aws.SecurityGroupRule
	for i := range named {
		if id, ok := ids[named[i].Key()]; ok {
			set[id] = true
		} else {
			unknown = append(unknown, named[i])
		}
	}
	vpc := r.s.Data.VPCs[g.VPCID]
	if len(unknown) > 0 && (vpc == nil || !vpc.IsDefault) {
		return nil, nil, aws.Refuse("InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
	}
	return set, unknown, nil
}
