package ec2_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/nephele-io/nephele/internal/sim"
)

// TestErrors checks codes, texts and statuses through the official client.
func TestErrors(t *testing.T) {
	f := start(t, sim.Options{})
	c := f.client()
	ctx := f.ctx
	group := f.group(t, c, "g")
	const gone = "0000000000000ffff"
	authorize := func(id string, permissions ...types.IpPermission) error {
		_, err := c.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: &id, IpPermissions: permissions})
		return err
	}
	if err := authorize(group, tcp(22, 22, "0.0.0.0/0")); err != nil {
		t.Fatal(err)
	}
	nics, err := c.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{})
	must(t, nics, err)
	instance := f.run(t, c, 1)[0]
	nics, err = c.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{})
	must(t, nics, err)
	nic := aws.ToString(nics.NetworkInterfaces[0].NetworkInterfaceId)

	for _, e := range []struct {
		name string
		call func() error
		code string
		text string // part of the message
	}{
		{"same rule twice", func() error { return authorize(group, tcp(22, 22, "0.0.0.0/0")) },
			"InvalidPermission.Duplicate", `the specified rule "peer: 0.0.0.0/0, TCP, from port: 22, to port: 22, ALLOW" already exists`},
		{"same rule twice in one call", func() error { return authorize(group, tcp(1, 2, "10.0.0.0/8"), tcp(1, 2, "10.9.9.9/8")) },
			"InvalidParameterValue", "The same permission must not appear multiple times"},
		{"no permission", func() error { return authorize(group) }, "MissingParameter", "ipPermissions"},
		{"unknown group", func() error { return authorize("sg-"+gone, tcp(1, 2, "10.0.0.0/8")) },
			"InvalidGroup.NotFound", "The security group 'sg-" + gone + "' does not exist"},
		{"no group", func() error { return authorize("", tcp(1, 2, "10.0.0.0/8")) }, "MissingParameter", "groupName or groupId"},
		{"malformed group", func() error {
			_, err := c.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{"foobar"}})
			return err
		}, "InvalidGroupId.Malformed", "'foobar' is malformed"},
		{"malformed group in the filter", func() error {
			_, err := c.DescribeSecurityGroupRules(ctx, &awsec2.DescribeSecurityGroupRulesInput{
				Filters: []types.Filter{{Name: aws.String("group-id"), Values: []string{"foobar"}}},
			})
			return err
		}, "InvalidGroupId.Malformed", "foobar"},
		{"unknown name", func() error {
			_, err := c.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{GroupNames: []string{"nobody"}})
			return err
		}, "InvalidGroup.NotFound", "'nobody'"},
		{"duplicate group", func() error { _, err := c.CreateSecurityGroup(ctx, newGroup("g")); return err },
			"InvalidGroup.Duplicate", "The security group 'g' already exists for VPC '" + defaultID + "'"},
		{"reserved group", func() error { _, err := c.CreateSecurityGroup(ctx, newGroup("default")); return err },
			"InvalidGroup.Reserved", "default"},
		{"default group", func() error {
			_, err := c.DeleteSecurityGroup(ctx, &awsec2.DeleteSecurityGroupInput{GroupId: aws.String(groupID)})
			return err
		}, "CannotDelete", "cannot be deleted by a user"},
		{"unknown interface", func() error {
			_, err := c.ModifyNetworkInterfaceAttribute(ctx, &awsec2.ModifyNetworkInterfaceAttributeInput{
				NetworkInterfaceId: aws.String("eni-" + gone), Groups: []string{group},
			})
			return err
		}, "InvalidNetworkInterfaceID.NotFound", "The networkInterface ID 'eni-" + gone + "' does not exist"},
		{"no groups", func() error {
			_, err := c.ModifyNetworkInterfaceAttribute(ctx, &awsec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: &nic, Groups: []string{}})
			return err
		}, "InvalidParameterValue", "at least one security group"},
		{"two attributes", func() error {
			_, err := c.ModifyNetworkInterfaceAttribute(ctx, &awsec2.ModifyNetworkInterfaceAttributeInput{
				NetworkInterfaceId: &nic, Groups: []string{group}, Description: &types.AttributeValue{Value: aws.String("x")},
			})
			return err
		}, "InvalidParameterCombination", "multiple attribute types"},
		{"attribute that the simulator does not change", func() error {
			_, err := c.ModifyInstanceAttribute(ctx, &awsec2.ModifyInstanceAttributeInput{
				InstanceId: &instance, Kernel: &types.AttributeValue{Value: aws.String("x")},
			})
			return err
		}, "UnsupportedOperation", "InstanceType"},
		{"too many groups on an interface", func() error {
			var ids []string
			for n := range 6 {
				ids = append(ids, f.group(t, c, fmt.Sprint("many", n)))
			}
			_, err := c.ModifyNetworkInterfaceAttribute(ctx, &awsec2.ModifyNetworkInterfaceAttributeInput{NetworkInterfaceId: &nic, Groups: ids})
			return err
		}, "SecurityGroupsPerInterfaceLimitExceeded", "maximum number"},
		{"too many rules", func() error {
			p := tcp(7, 7)
			for n := range 60 {
				p.IpRanges = append(p.IpRanges, types.IpRange{CidrIp: aws.String(fmt.Sprintf("10.3.%d.0/24", n))})
			}
			return authorize(group, p)
		}, "RulesPerSecurityGroupLimitExceeded", "The maximum number of rules per security group has been reached."},
		{"subnet that is not there", func() error {
			_, err := c.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{SubnetIds: []string{"subnet-" + gone}})
			return err
		}, "InvalidSubnetID.NotFound", "The subnet ID 'subnet-" + gone + "' does not exist"},
		{"instance that is not there", func() error {
			_, err := c.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{"i-" + gone}})
			return err
		}, "InvalidInstanceID.NotFound", "i-" + gone},
		{"unknown rule", func() error {
			_, err := c.DescribeSecurityGroupRules(ctx, &awsec2.DescribeSecurityGroupRulesInput{SecurityGroupRuleIds: []string{"sgr-" + gone}})
			return err
		}, "InvalidSecurityGroupRuleId.NotFound", "The security group rule ID 'sgr-" + gone + "' does not exist"},
		{"rule and permission together", func() error {
			_, err := c.RevokeSecurityGroupIngress(ctx, &awsec2.RevokeSecurityGroupIngressInput{
				GroupId: &group, SecurityGroupRuleIds: []string{"sgr-" + gone}, IpPermissions: []types.IpPermission{tcp(1, 1, "10.0.0.0/8")},
			})
			return err
		}, "InvalidParameterCombination", "securityGroupRuleIds"},
		{"tags of the wrong kind", func() error {
			in := newGroup("tagged")
			in.TagSpecifications = []types.TagSpecification{{ResourceType: "instance", Tags: []types.Tag{{Key: aws.String("k")}}}}
			_, err := c.CreateSecurityGroup(ctx, in)
			return err
		}, "InvalidParameterValue", "taggable resource type"},
		{"dry run", func() error {
			in := newGroup("dry")
			in.DryRun = aws.Bool(true)
			_, err := c.CreateSecurityGroup(ctx, in)
			return err
		}, "DryRunOperation", "Request would have succeeded, but DryRun flag is set."},
	} {
		err := e.call()
		var api smithy.APIError
		if !errors.As(err, &api) || api.ErrorCode() != e.code || !strings.Contains(api.ErrorMessage(), e.text) {
			t.Errorf("%s: %v; want %s: ...%s...", e.name, err, e.code, e.text)
		}
		if want := map[string]int{"DryRunOperation": 412}[e.code]; status(err) != max(want, 400) {
			t.Errorf("%s: status %d", e.name, status(err))
		}
	}
	if _, err := c.CreateSecurityGroup(ctx, newGroup("dry")); err != nil {
		t.Errorf("the dry run has done it: %v", err)
	}
}

// TestModifyRuleErrors repeats what has been observed on the real service.
func TestModifyRuleErrors(t *testing.T) {
	f := start(t, sim.Options{})
	c := f.client()
	group := f.group(t, c, "g")
	added, err := c.AuthorizeSecurityGroupIngress(f.ctx, &awsec2.AuthorizeSecurityGroupIngressInput{
		GroupId: &group, IpPermissions: []types.IpPermission{tcp(22, 22, "10.0.0.0/8")},
	})
	must(t, added, err)
	rule := aws.ToString(added.SecurityGroupRules[0].SecurityGroupRuleId)
	good := types.SecurityGroupRuleRequest{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(1), ToPort: aws.Int32(2), CidrIpv4: aws.String("10.0.0.0/8")}
	for _, e := range []struct {
		name        string
		group, rule string
		change      func(*types.SecurityGroupRuleRequest)
		code, text  string
	}{
		{"unknown group", "sg-00000000", rule, func(*types.SecurityGroupRuleRequest) {}, "InvalidGroup.NotFound", "does not exist"},
		{"unknown rule", group, "sgr-00000000", func(*types.SecurityGroupRuleRequest) {}, "InvalidSecurityGroupRuleId.NotFound", "does not exist"},
		{"no protocol", group, rule, func(r *types.SecurityGroupRuleRequest) { r.IpProtocol = nil }, "InvalidParameterValue",
			"Invalid value 'null' for protocol. VPC security group rules must specify protocols explicitly."},
		{"one port", group, rule, func(r *types.SecurityGroupRuleRequest) { r.ToPort = nil }, "InvalidParameterValue",
			"Invalid value for portRange. Must specify both from and to ports with TCP/UDP."},
		{"no peer", group, rule, func(r *types.SecurityGroupRuleRequest) { r.CidrIpv4 = nil }, "MissingParameter",
			"The request must contain exactly one of: cidrIp, cidrIpv6, prefixListId, or referencedGroupId"},
		{"two peers", group, rule, func(r *types.SecurityGroupRuleRequest) { r.ReferencedGroupId = &group }, "InvalidParameterCombination",
			"Only one of cidrIp, cidrIpv6, prefixListId, or referencedGroupId can be specified"},
	} {
		request := good
		e.change(&request)
		_, err := c.ModifySecurityGroupRules(f.ctx, &awsec2.ModifySecurityGroupRulesInput{
			GroupId: &e.group, SecurityGroupRules: []types.SecurityGroupRuleUpdate{{SecurityGroupRuleId: &e.rule, SecurityGroupRule: &request}},
		})
		var api smithy.APIError
		if !errors.As(err, &api) || api.ErrorCode() != e.code || !strings.Contains(api.ErrorMessage(), e.text) {
			t.Errorf("%s: %v; want %s: %s", e.name, err, e.code, e.text)
		}
	}
}
