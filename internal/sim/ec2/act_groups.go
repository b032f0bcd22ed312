package ec2

import (
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

func describeSecurityGroups(r *request) ([]wire.Element, error) {
	names := r.params.Strings("GroupName")
	ids := r.params.Strings("GroupId")
	var groups []aws.SecurityGroup
	var err error
	if len(ids) > 0 || len(names) == 0 {
		if groups, err = r.region.SecurityGroups(ids...); err != nil {
			return nil, err
		}
	}
	named, err := groupsByName(r, names)
	if err != nil {
		return nil, err
	}
	for _, g := range named {
		if !slices.Contains(ids, g.ID) {
			groups = append(groups, g)
		}
	}
	region := r.region.Name()
	page, err := list(r, listing[aws.SecurityGroup]{
		items: groups,
		key:   func(g aws.SecurityGroup) string { return g.ID },
		known: codec.GroupAttributes(),
		tags:  func(g aws.SecurityGroup) map[string]string { return g.Tags },
		page:  pageRule{min: 5, max: 1000},
	})
	if err != nil {
		return nil, err
	}
	return pageOf("securityGroupInfo", page, func(g aws.SecurityGroup) []wire.Element { return codec.GroupBody(region, g) }), nil
}

// describeSecurityGroupReferences takes no filters and knows no pages.
func describeSecurityGroupReferences(r *request) ([]wire.Element, error) {
	ids, err := needList(r, "GroupId")
	if err != nil {
		return nil, err
	}
	refs, err := r.region.Groups().SecurityGroupReferences(ids...)
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.List("securityGroupReferenceSet", refs, func(x aws.GroupReference) []wire.Element {
		return []wire.Element{
			wire.Text("groupId", x.GroupID), wire.Text("referencingVpcId", x.VPCID), wire.Text("vpcPeeringConnectionId", x.PeeringID),
		}
	})}, nil
}

// groupsByName looks groups up by name, which works in the default VPC only.
func groupsByName(r *request, names []string) ([]aws.SecurityGroup, error) {
	if len(names) == 0 {
		return nil, nil
	}
	vpcs, err := r.region.VPCs()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(vpcs, func(v aws.VPC) bool { return v.IsDefault })
	if i < 0 {
		return nil, codec.Fail("VPCIdNotSpecified", "No default VPC for this user")
	}
	all, err := r.region.SecurityGroups()
	if err != nil {
		return nil, err
	}
	var out []aws.SecurityGroup
	for _, name := range names {
		n := slices.IndexFunc(all, func(g aws.SecurityGroup) bool { return g.VPCID == vpcs[i].ID && g.Name == name })
		if n < 0 {
			return nil, codec.Fail("InvalidGroup.NotFound", "The security group '%s' does not exist in default VPC '%s'", name, vpcs[i].ID)
		}
		out = append(out, all[n])
	}
	return out, nil
}

func describeSecurityGroupRules(r *request) ([]wire.Element, error) {
	rules, err := r.region.SecurityGroupRules(r.params.Strings("SecurityGroupRuleId")...)
	if err != nil {
		return nil, err
	}
	if err := checkGroupFilter(r); err != nil {
		return nil, err
	}
	region := r.region.Name()
	page, err := list(r, listing[aws.SecurityGroupRule]{
		items: rules,
		key:   func(g aws.SecurityGroupRule) string { return g.ID },
		known: wire.Attributes[aws.SecurityGroupRule]{
			"group-id":               func(g aws.SecurityGroupRule) []string { return []string{g.GroupID} },
			"security-group-rule-id": func(g aws.SecurityGroupRule) []string { return []string{g.ID} },
		},
		tags: func(g aws.SecurityGroupRule) map[string]string { return g.Tags },
		page: pageRule{min: 5, max: 1000},
	})
	if err != nil {
		return nil, err
	}
	return pageOf("securityGroupRuleSet", page, func(g aws.SecurityGroupRule) []wire.Element {
		return codec.RuleBody(region, g)
	}), nil
}

// checkGroupFilter refuses a group-id filter whose value is no group id, as this one action does.
func checkGroupFilter(r *request) error {
	filters, err := r.params.Filters()
	if err != nil {
		return err
	}
	for _, f := range filters {
		for _, v := range f.Values {
			if f.Name != "group-id" || strings.ContainsAny(v, `*?\`) {
				continue
			}
			if err := aws.CheckID("sg", v); err != nil {
				return err
			}
		}
	}
	return nil
}

func createSecurityGroup(r *request) ([]wire.Element, error) {
	tags, err := codec.TagSpec(r.params, "security-group")
	if err != nil {
		return nil, err
	}
	name, err := need(r, "GroupName")
	if err != nil {
		return nil, err
	}
	description, err := need(r, "GroupDescription")
	if err != nil {
		return nil, err
	}
	group, err := r.region.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{
		Name: name, Description: description, VPCID: r.params.String("VpcId"), Tags: tags,
	})
	if err != nil {
		return nil, err
	}
	return []wire.Element{
		wire.Bool("return", true),
		wire.Text("groupId", group.ID),
		wire.Text("securityGroupArn", aws.ARN(r.region.Name(), group.Account, group.ID)),
		codec.SomeTags(group.Tags),
	}, nil
}

func deleteSecurityGroup(r *request) ([]wire.Element, error) {
	id, name := r.params.String("GroupId"), r.params.String("GroupName")
	if id == "" && name == "" {
		return nil, needGroup()
	}
	deleted, err := r.region.Groups().DeleteSecurityGroup(id, name)
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Bool("return", true), wire.Text("groupId", deleted)}, nil
}

func needGroup() error {
	return codec.Fail("MissingParameter", "The request must contain the parameter groupName or groupId")
}

func authorize(egress bool) action {
	return func(r *request) ([]wire.Element, error) {
		tags, err := codec.TagSpec(r.params, "security-group-rule")
		if err != nil {
			return nil, err
		}
		in := aws.AuthorizeInput{Egress: egress, RuleTags: tags}
		if in.GroupID, in.GroupName, err = targetGroup(r); err != nil {
			return nil, err
		}
		if in.Permissions, err = codec.RuleRequest(r.params); err != nil {
			return nil, err
		}
		if len(in.Permissions) == 0 {
			return nil, codec.Missing("ipPermissions")
		}
		rules, err := r.region.Groups().AuthorizeSecurityGroup(in)
		if err != nil {
			return nil, err
		}
		region := r.region.Name()
		return []wire.Element{
			wire.Bool("return", true),
			wire.List("securityGroupRuleSet", rules, func(g aws.SecurityGroupRule) []wire.Element { return codec.RuleBody(region, g) }),
		}, nil
	}
}

func targetGroup(r *request) (id, name string, err error) {
	id, name = r.params.String("GroupId"), r.params.String("GroupName")
	if id == "" && name == "" {
		return "", "", needGroup()
	}
	return id, name, nil
}

func revoke(egress bool) action {
	return func(r *request) ([]wire.Element, error) {
		in := aws.RevokeInput{Egress: egress, RuleIDs: r.params.Strings("SecurityGroupRuleId")}
		var err error
		if in.GroupID, in.GroupName, err = targetGroup(r); err != nil {
			return nil, err
		}
		if in.Permissions, err = codec.RuleRequest(r.params); err != nil {
			return nil, err
		}
		switch {
		case len(in.Permissions) == 0 && len(in.RuleIDs) == 0:
			return nil, codec.Missing("ipPermissions or securityGroupRuleIds")
		case len(in.Permissions) > 0 && len(in.RuleIDs) > 0:
			return nil, codec.Fail("InvalidParameterCombination",
				"The parameter securityGroupRuleIds cannot be used with the parameter ipPermissions")
		}
		result, err := r.region.Groups().RevokeSecurityGroup(in)
		if err != nil {
			return nil, err
		}
		return []wire.Element{
			wire.Bool("return", true),
			wire.List("revokedSecurityGroupRuleSet", result.Revoked, codec.RevokedBody),
			wire.List("unknownIpPermissionSet", result.Unknown, codec.PermissionBody),
		}, nil
	}
}

func modifySecurityGroupRules(r *request) ([]wire.Element, error) {
	group, err := need(r, "GroupId")
	if err != nil {
		return nil, err
	}
	var updates []aws.RuleUpdate
	for _, e := range r.params.Elements("SecurityGroupRule") {
		update, err := codec.RuleUpdate(e)
		if err != nil {
			return nil, err
		}
		updates = append(updates, update)
	}
	if len(updates) == 0 {
		return nil, codec.Missing("SecurityGroupRule")
	}
	return done(r.region.Groups().ModifySecurityGroupRules(group, updates))
}

func updateRuleDescriptions(egress bool) action {
	return func(r *request) ([]wire.Element, error) {
		in := aws.UpdateDescriptionsInput{Egress: egress}
		var err error
		if in.GroupID, in.GroupName, err = targetGroup(r); err != nil {
			return nil, err
		}
		if in.Permissions, err = codec.Permissions(r.params); err != nil {
			return nil, err
		}
		for _, e := range r.params.Elements("SecurityGroupRuleDescription") {
			in.Rules = append(in.Rules, aws.RuleDescription{
				RuleID: e.String("SecurityGroupRuleId"), Description: codec.StringPtr(e, "Description"),
			})
		}
		if len(in.Permissions) == 0 && len(in.Rules) == 0 {
			return nil, codec.Missing("ipPermissions or securityGroupRuleDescriptions")
		}
		return done(r.region.Groups().UpdateSecurityGroupRuleDescriptions(in))
	}
}
