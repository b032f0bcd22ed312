package aws

import (
	"context"
	"errors"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/failure"
)

var _ cloud.Prober = (*Provider)(nil)

// The names and numbers that trials use. Nothing is made by them.
const (
	trialName = "nephele-check"
	trialTag  = "nephele.io/check"
	trialPort = 9
	trialCIDR = "127.0.0.1/32"
)

// Probe implements cloud.Prober: every call has the parameter DryRun, so that EC2 answers whether
// it would be permitted and does nothing.
func (p *Provider) Probe(ctx context.Context, s cloud.Scope, on *cloud.Snapshot) (cloud.Probed, error) {
	t := &trials{ctx: ctx, api: p.region(s.Region), cluster: p.cfg.Cluster}
	who, err := p.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return cloud.Probed{}, failure.Classify("GetCallerIdentity", err, p.cfg.Now())
	}
	local := p.cfg.Now()
	if server, ok := awsmiddleware.GetServerTime(who.ResultMetadata); ok {
		t.out.CloudTime, t.out.LocalTime = server, local
	}
	t.reads()
	t.writes(on)
	return t.out, nil
}

// trials are made one after the other.
type trials struct {
	ctx     context.Context
	api     *operations
	cluster string
	out     cloud.Probed
}

// add notes what came of a call with DryRun.
func (t *trials) add(action, on string, err error) {
	trial := cloud.Trial{Action: "ec2:" + action, On: on}
	var said smithy.APIError
	switch {
	case err == nil:
	case !errors.As(err, &said):
		trial.Untried = "no answer: " + err.Error()
	case said.ErrorCode() == "DryRunOperation":
	case said.ErrorCode() == "UnauthorizedOperation" || said.ErrorCode() == "AccessDenied":
		trial.Denied = true
	default:
		trial.Untried = said.ErrorCode() + ": " + said.ErrorMessage()
	}
	t.out.Trials = append(t.out.Trials, trial)
}

func (t *trials) reads() {
	dry := awssdk.Bool(true)
	_, err := t.api.DescribeRegions(t.ctx, &ec2.DescribeRegionsInput{DryRun: dry})
	t.add("DescribeRegions", "", err)
	_, err = t.api.DescribeInstances(t.ctx, &ec2.DescribeInstancesInput{DryRun: dry})
	t.add("DescribeInstances", "", err)
	_, err = t.api.DescribeNetworkInterfaces(t.ctx, &ec2.DescribeNetworkInterfacesInput{DryRun: dry})
	t.add("DescribeNetworkInterfaces", "", err)
	_, err = t.api.DescribeVpcs(t.ctx, &ec2.DescribeVpcsInput{DryRun: dry})
	t.add("DescribeVpcs", "", err)
	_, err = t.api.DescribeVpcPeeringConnections(t.ctx, &ec2.DescribeVpcPeeringConnectionsInput{DryRun: dry})
	t.add("DescribeVpcPeeringConnections", "", err)
	_, err = t.api.DescribeSecurityGroups(t.ctx, &ec2.DescribeSecurityGroupsInput{DryRun: dry})
	t.add("DescribeSecurityGroups", "", err)
	_, err = t.api.DescribeSecurityGroupRules(t.ctx, &ec2.DescribeSecurityGroupRulesInput{DryRun: dry})
	t.add("DescribeSecurityGroupRules", "", err)
	_, err = t.api.DescribeManagedPrefixLists(t.ctx, &ec2.DescribeManagedPrefixListsInput{DryRun: dry})
	t.add("DescribeManagedPrefixLists", "", err)
}

// writes tries what changes something, on objects that exist: permissions hang on their tags.
func (t *trials) writes(on *cloud.Snapshot) {
	if on == nil || len(on.Networks) == 0 {
		t.out.Trials = append(t.out.Trials, cloud.Trial{Action: "changes", Untried: "the region was not read, or has no VPC to try them on"})
		return
	}
	dry, network := awssdk.Bool(true), on.Networks[0].ID
	tags := []types.Tag{{Key: awssdk.String(trialTag), Value: awssdk.String("")}}
	_, err := t.api.CreateSecurityGroup(
		t.ctx,
		&ec2.CreateSecurityGroupInput{
			DryRun:      dry,
			GroupName:   awssdk.String(trialName),
			Description: awssdk.String(trialName),
			VpcId:       &network,
			TagSpecifications: []types.TagSpecification{
				{ResourceType: types.ResourceTypeSecurityGroup, Tags: []types.Tag{{Key: awssdk.String(cloud.TagCluster), Value: &t.cluster}}},
			},
		},
	)
	t.add("CreateSecurityGroup", "VPC "+network, err)
	t.tags("VPC "+network, network, tags)
	for _, n := range on.Interfaces {
		if n.VMID == "" {
			continue
		}
		t.tags("interface "+n.ID, n.ID, tags)
		_, err := t.api.ModifyNetworkInterfaceAttribute(t.ctx, &ec2.ModifyNetworkInterfaceAttributeInput{DryRun: dry, NetworkInterfaceId: &n.ID, Groups: n.GroupIDs})
		t.add("ModifyNetworkInterfaceAttribute", "interface "+n.ID, err)
		break
	}
	for _, g := range on.Groups {
		if t.cluster != "" && g.Tags[cloud.TagCluster] == t.cluster {
			t.groups(g)
			return
		}
	}
	t.out.Trials = append(t.out.Trials, cloud.Trial{Action: "changes of security groups", Untried: "there is no security group of this cluster yet to try them on"})
}

func (t *trials) tags(on, id string, tags []types.Tag) {
	dry := awssdk.Bool(true)
	_, err := t.api.CreateTags(t.ctx, &ec2.CreateTagsInput{DryRun: dry, Resources: []string{id}, Tags: tags})
	t.add("CreateTags", on, err)
	_, err = t.api.DeleteTags(t.ctx, &ec2.DeleteTagsInput{DryRun: dry, Resources: []string{id}, Tags: tags})
	t.add("DeleteTags", on, err)
}

func (t *trials) groups(g cloud.Group) {
	dry, on := awssdk.Bool(true), "security group "+g.ID
	some := []types.IpPermission{{IpProtocol: awssdk.String("tcp"), FromPort: awssdk.Int32(trialPort), ToPort: awssdk.Int32(trialPort),
		IpRanges: []types.IpRange{{CidrIp: awssdk.String(trialCIDR)}}}}
	_, err := t.api.AuthorizeSecurityGroupIngress(t.ctx, &ec2.AuthorizeSecurityGroupIngressInput{DryRun: dry, GroupId: &g.ID, IpPermissions: some})
	t.add("AuthorizeSecurityGroupIngress", on, err)
	_, err = t.api.AuthorizeSecurityGroupEgress(t.ctx, &ec2.AuthorizeSecurityGroupEgressInput{DryRun: dry, GroupId: &g.ID, IpPermissions: some})
	t.add("AuthorizeSecurityGroupEgress", on, err)
	_, err = t.api.RevokeSecurityGroupIngress(t.ctx, &ec2.RevokeSecurityGroupIngressInput{DryRun: dry, GroupId: &g.ID, IpPermissions: some})
	t.add("RevokeSecurityGroupIngress", on, err)
	_, err = t.api.RevokeSecurityGroupEgress(t.ctx, &ec2.RevokeSecurityGroupEgressInput{DryRun: dry, GroupId: &g.ID, IpPermissions: some})
	t.add("RevokeSecurityGroupEgress", on, err)
	_, err = t.api.DeleteSecurityGroup(t.ctx, &ec2.DeleteSecurityGroupInput{DryRun: dry, GroupId: &g.ID})
	t.add("DeleteSecurityGroup", on, err)
}
