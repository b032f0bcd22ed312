package ec2_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
)

// TestTerraform makes, reads, changes and destroys a small network as the AWS provider of Terraform
// does: the same calls in the same order, with its waiters, and reading again after every change
// what was written.
func TestTerraform(t *testing.T) {
	f := start(t, sim.Options{State: emptyState()})
	(&plan{story: story{fixture: f, T: t, c: f.client()}}).apply()
	for _, call := range f.Journal().Calls(0) {
		if len(call.Ignored) > 0 && call.Action != "RunInstances" {
			t.Errorf("%s ignores %q", call.Action, call.Ignored)
		}
	}
	// Nothing is left.
	s := f.World().State()
	for _, r := range s.Regions {
		if n := len(
			r.VPCs,
		) + len(
			r.Subnets,
		) + len(
			r.SecurityGroups,
		) + len(
			r.NetworkInterfaces,
		) + len(
			r.RouteTables,
		) + len(
			r.NetworkACLs,
		) + len(
			r.InternetGateways,
		) + len(
			r.LaunchTemplates,
		); n > 0 {
			t.Errorf("%d things are left in %s: %+v", n, r.Name, r)
		}
	}
}

// emptyState has an account with nothing in it.
func emptyState() simaws.State {
	s := startState()
	s.Regions, s.Peerings = nil, nil
	return s
}

// terraform is a part of the story of every action.
func (s *story) terraform() { (&plan{story: *s}).apply() }

// plan is what Terraform knows of what it has made.
type plan struct {
	story
	network, far              string
	front, back, farSubnet    string
	igw, table, acl, peering  string
	group, farGroup, template string
	web, db, nic              string
}

func (p *plan) apply() {
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"aws_vpc", p.vpcs}, {"aws_subnet", p.subnets}, {"aws_internet_gateway", p.gateway}, {"aws_route_table", p.routes},
		{"aws_security_group", p.securityGroups}, {"aws_vpc_security_group_ingress_rule", p.groupRules},
		{"aws_launch_template", p.launchTemplate}, {"aws_instance", p.instancesUp}, {"aws_network_interface", p.interfaceUp},
		{"aws_vpc_peering_connection", p.peer}, {"aws_network_acl", p.acls}, {"changes", p.change}, {"destroy", p.destroy},
	} {
		step.do()
		if p.Failed() {
			p.Fatalf("terraform ends at %s", step.name)
		}
	}
}

// ok fails on an error; the answer is not needed.
func ok[T any](p *plan) func(T, error) {
	return func(_ T, err error) {
		p.Helper()
		if err != nil {
			p.Fatal(err)
		}
	}
}

// refused expects an error code.
func (p *plan) refused(err error, want string) {
	p.Helper()
	if got := code(p.T, err); got != want {
		p.Errorf("%v, want %s", err, want)
	}
}

func spec(kind types.ResourceType, name string) []types.TagSpecification {
	return []types.TagSpecification{{ResourceType: kind, Tags: []types.Tag{{Key: aws.String("Name"), Value: &name}}}}
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

func (p *plan) vpc(cidr, name string) string {
	made, err := p.c.CreateVpc(p.ctx, &awsec2.CreateVpcInput{CidrBlock: &cidr, TagSpecifications: spec("vpc", name)})
	id := aws.ToString(must(p.T, made, err).Vpc.VpcId)
	wait := awsec2.NewVpcAvailableWaiter(p.c, func(o *awsec2.VpcAvailableWaiterOptions) { o.MinDelay, o.MaxDelay = time.Millisecond, time.Millisecond })
	if err := wait.Wait(p.ctx, &awsec2.DescribeVpcsInput{VpcIds: []string{id}}, 5*time.Second); err != nil {
		p.Fatal(err)
	}
	return id
}

func (p *plan) vpcs() {
	p.network, p.far = p.vpc("10.20.0.0/16", "network"), p.vpc("10.30.0.0/16", "far")
	ok[*awsec2.ModifyVpcAttributeOutput](p)(p.c.ModifyVpcAttribute(p.ctx, &awsec2.ModifyVpcAttributeInput{
		VpcId: &p.network, EnableDnsHostnames: &types.AttributeBooleanValue{Value: aws.Bool(true)},
	}))
	want := map[types.VpcAttributeName]bool{"enableDnsHostnames": true, "enableDnsSupport": true, "enableNetworkAddressUsageMetrics": false}
	for name, on := range want {
		a, err := p.c.DescribeVpcAttribute(p.ctx, &awsec2.DescribeVpcAttributeInput{VpcId: &p.network, Attribute: name})
		must(p.T, a, err)
		for _, v := range []*types.AttributeBooleanValue{a.EnableDnsHostnames, a.EnableDnsSupport, a.EnableNetworkAddressUsageMetrics} {
			if v != nil && aws.ToBool(v.Value) != on {
				p.Errorf("%s is %t", name, aws.ToBool(v.Value))
			}
		}
	}
	acls, err := p.c.DescribeNetworkAcls(p.ctx, &awsec2.DescribeNetworkAclsInput{Filters: []types.Filter{filter("default", "true"), filter("vpc-id", p.network)}})
	if a := must(p.T, acls, err).NetworkAcls; len(a) != 1 || len(a[0].Entries) != 4 || !aws.ToBool(a[0].IsDefault) {
		p.Fatalf("default ACL: %+v", a)
	}
	tables, err := p.c.DescribeRouteTables(p.ctx, &awsec2.DescribeRouteTablesInput{Filters: []types.Filter{filter("association.main", "true"), filter("vpc-id", p.network)}})
	if r := must(p.T, tables, err).RouteTables; len(r) != 1 || len(r[0].Routes) != 1 || aws.ToString(r[0].Routes[0].GatewayId) != "local" {
		p.Fatalf("main table: %+v", r)
	}
	groups, err := p.c.DescribeSecurityGroups(p.ctx, &awsec2.DescribeSecurityGroupsInput{Filters: []types.Filter{filter("group-name", "default"), filter("vpc-id", p.network)}})
	g := must(p.T, groups, err).SecurityGroups
	if len(g) != 1 || !strings.HasSuffix(aws.ToString(g[0].SecurityGroupArn), ":security-group/"+aws.ToString(g[0].GroupId)) || g[0].Tags != nil {
		p.Fatalf("default group: %+v", g)
	}
	more, err := p.c.AssociateVpcCidrBlock(p.ctx, &awsec2.AssociateVpcCidrBlockInput{VpcId: &p.network, CidrBlock: aws.String("10.21.0.0/16")})
	association := aws.ToString(must(p.T, more, err).CidrBlockAssociation.AssociationId)
	ok[*awsec2.DisassociateVpcCidrBlockOutput](p)(p.c.DisassociateVpcCidrBlock(p.ctx, &awsec2.DisassociateVpcCidrBlockInput{AssociationId: &association}))
	_, err = p.c.DisassociateVpcCidrBlock(p.ctx, &awsec2.DisassociateVpcCidrBlockInput{AssociationId: &association})
	p.refused(err, "InvalidVpcCidrBlockAssociationID.NotFound")
}

func (p *plan) subnet(vpc, cidr, zone string) string {
	made, err := p.c.CreateSubnet(p.ctx, &awsec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: &cidr, AvailabilityZone: &zone, TagSpecifications: spec("subnet", cidr)})
	return aws.ToString(must(p.T, made, err).Subnet.SubnetId)
}

func (p *plan) subnets() {
	p.front, p.back = p.subnet(p.network, "10.20.1.0/24", region+"a"), p.subnet(p.network, "10.20.2.0/24", region+"b")
	p.farSubnet = p.subnet(p.far, "10.30.1.0/24", region+"a")
	ok[*awsec2.ModifySubnetAttributeOutput](p)(p.c.ModifySubnetAttribute(p.ctx, &awsec2.ModifySubnetAttributeInput{
		SubnetId: &p.front, MapPublicIpOnLaunch: &types.AttributeBooleanValue{Value: aws.Bool(true)},
	}))
	read, err := p.c.DescribeSubnets(p.ctx, &awsec2.DescribeSubnetsInput{SubnetIds: []string{p.front}})
	if s := must(p.T, read, err).Subnets[0]; !aws.ToBool(s.MapPublicIpOnLaunch) {
		p.Errorf("subnet: %+v", s)
	}
}

func (p *plan) gateway() {
	made, err := p.c.CreateInternetGateway(p.ctx, &awsec2.CreateInternetGatewayInput{TagSpecifications: spec("internet-gateway", "igw")})
	p.igw = aws.ToString(must(p.T, made, err).InternetGateway.InternetGatewayId)
	ok[*awsec2.AttachInternetGatewayOutput](p)(p.c.AttachInternetGateway(p.ctx, &awsec2.AttachInternetGatewayInput{InternetGatewayId: &p.igw, VpcId: &p.network}))
	read, err := p.c.DescribeInternetGateways(
		p.ctx,
		&awsec2.DescribeInternetGatewaysInput{InternetGatewayIds: []string{p.igw}, Filters: []types.Filter{filter("attachment.vpc-id", p.network)}},
	)
	if g := must(p.T, read, err).InternetGateways; len(g) != 1 || g[0].Attachments[0].State != "available" {
		p.Errorf("gateway: %+v", g)
	}
}

func (p *plan) routes() {
	made, err := p.c.CreateRouteTable(p.ctx, &awsec2.CreateRouteTableInput{VpcId: &p.network, TagSpecifications: spec("route-table", "front")})
	p.table = aws.ToString(must(p.T, made, err).RouteTable.RouteTableId)
	everywhere := aws.String("0.0.0.0/0")
	ok[*awsec2.CreateRouteOutput](p)(p.c.CreateRoute(p.ctx, &awsec2.CreateRouteInput{RouteTableId: &p.table, DestinationCidrBlock: everywhere, GatewayId: &p.igw}))
	_, err = p.c.CreateRoute(p.ctx, &awsec2.CreateRouteInput{RouteTableId: &p.table, DestinationCidrBlock: everywhere, NatGatewayId: aws.String("nat-00000000000000001")})
	p.refused(err, "RouteAlreadyExists")
	_, err = p.c.DeleteRoute(p.ctx, &awsec2.DeleteRouteInput{RouteTableId: &p.table, DestinationCidrBlock: aws.String("192.168.0.0/16")})
	p.refused(err, "InvalidRoute.NotFound")
	used, err := p.c.AssociateRouteTable(p.ctx, &awsec2.AssociateRouteTableInput{RouteTableId: &p.table, SubnetId: &p.front})
	association := aws.ToString(must(p.T, used, err).AssociationId)
	again, err := p.c.ReplaceRouteTableAssociation(p.ctx, &awsec2.ReplaceRouteTableAssociationInput{AssociationId: &association, RouteTableId: &p.table})
	association = aws.ToString(must(p.T, again, err).NewAssociationId)
	read, err := p.c.DescribeRouteTables(p.ctx, &awsec2.DescribeRouteTablesInput{Filters: []types.Filter{
		filter("association.route-table-association-id", association), filter("route.gateway-id", p.igw),
	}})
	r := must(p.T, read, err).RouteTables
	if len(r) != 1 || len(r[0].Routes) != 2 || r[0].Routes[1].State != "active" || aws.ToString(r[0].Associations[0].SubnetId) != p.front {
		p.Errorf("route table: %+v", r)
	}
}

// newGroup makes a group as the provider does: it takes the default egress rules away, and it does
// not mind that there is none of IPv6.
func (p *plan) newGroup(vpc, name string) string {
	made, err := p.c.CreateSecurityGroup(p.ctx, &awsec2.CreateSecurityGroupInput{
		GroupName: &name, Description: aws.String("Managed by Terraform"), VpcId: &vpc, TagSpecifications: spec("security-group", name),
	})
	id := aws.ToString(must(p.T, made, err).GroupId)
	wait := awsec2.NewSecurityGroupExistsWaiter(p.c)
	if err := wait.Wait(p.ctx, &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{id}}, 5*time.Second); err != nil {
		p.Fatal(err)
	}
	all := types.IpPermission{IpProtocol: aws.String("-1"), IpRanges: []types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}
	ok[*awsec2.RevokeSecurityGroupEgressOutput](
		p,
	)(
		p.c.RevokeSecurityGroupEgress(p.ctx, &awsec2.RevokeSecurityGroupEgressInput{GroupId: &id, IpPermissions: []types.IpPermission{all}}),
	)
	v6 := types.IpPermission{IpProtocol: aws.String("-1"), Ipv6Ranges: []types.Ipv6Range{{CidrIpv6: aws.String("::/0")}}}
	_, err = p.c.RevokeSecurityGroupEgress(p.ctx, &awsec2.RevokeSecurityGroupEgressInput{GroupId: &id, IpPermissions: []types.IpPermission{v6}})
	p.refused(err, "InvalidPermission.NotFound")
	ok[*awsec2.AuthorizeSecurityGroupEgressOutput](
		p,
	)(
		p.c.AuthorizeSecurityGroupEgress(p.ctx, &awsec2.AuthorizeSecurityGroupEgressInput{GroupId: &id, IpPermissions: []types.IpPermission{all}}),
	)
	ok[*awsec2.AuthorizeSecurityGroupIngressOutput](p)(p.c.AuthorizeSecurityGroupIngress(p.ctx, &awsec2.AuthorizeSecurityGroupIngressInput{
		GroupId: &id, IpPermissions: []types.IpPermission{tcp(443, 443, "0.0.0.0/0"), tcp(22, 22, "10.0.0.0/8")},
	}))
	return id
}

func (p *plan) securityGroups() {
	p.group, p.farGroup = p.newGroup(p.network, "tf-web"), p.newGroup(p.far, "tf-far")
	// A change of the rules is the old ones revoked and the new ones added.
	old, renewed := tcp(22, 22, "10.0.0.0/8"), tcp(22, 22, "10.20.0.0/16", "10.30.0.0/16")
	ok[*awsec2.RevokeSecurityGroupIngressOutput](
		p,
	)(
		p.c.RevokeSecurityGroupIngress(p.ctx, &awsec2.RevokeSecurityGroupIngressInput{GroupId: &p.group, IpPermissions: []types.IpPermission{old}}),
	)
	ok[*awsec2.AuthorizeSecurityGroupIngressOutput](
		p,
	)(
		p.c.AuthorizeSecurityGroupIngress(p.ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: &p.group, IpPermissions: []types.IpPermission{renewed}}),
	)
	ok[*awsec2.CreateTagsOutput](
		p,
	)(
		p.c.CreateTags(p.ctx, &awsec2.CreateTagsInput{Resources: []string{p.group}, Tags: []types.Tag{{Key: aws.String("env"), Value: aws.String("test")}}}),
	)
	ok[*awsec2.DeleteTagsOutput](p)(p.c.DeleteTags(p.ctx, &awsec2.DeleteTagsInput{Resources: []string{p.group}, Tags: []types.Tag{{Key: aws.String("env")}}}))
	read, err := p.c.DescribeSecurityGroups(p.ctx, &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{p.group}})
	if g := must(p.T, read, err).SecurityGroups[0]; len(g.IpPermissions) != 2 || len(g.IpPermissionsEgress) != 1 || len(g.Tags) != 1 {
		p.Errorf("group: %+v", g)
	}
}

func (p *plan) groupRules() {
	added, err := p.c.AuthorizeSecurityGroupIngress(p.ctx, &awsec2.AuthorizeSecurityGroupIngressInput{
		GroupId: &p.group,
		IpPermissions: []types.IpPermission{
			{IpProtocol: aws.String("icmp"), FromPort: aws.Int32(8), ToPort: aws.Int32(-1), IpRanges: []types.IpRange{{CidrIp: aws.String("10.0.0.0/8")}}},
		},
		TagSpecifications: spec("security-group-rule", "ping"),
	})
	id := aws.ToString(must(p.T, added, err).SecurityGroupRules[0].SecurityGroupRuleId)
	ok[*awsec2.ModifySecurityGroupRulesOutput](p)(p.c.ModifySecurityGroupRules(p.ctx, &awsec2.ModifySecurityGroupRulesInput{
		GroupId: &p.group, SecurityGroupRules: []types.SecurityGroupRuleUpdate{{SecurityGroupRuleId: &id, SecurityGroupRule: &types.SecurityGroupRuleRequest{
			IpProtocol: aws.String("icmp"), FromPort: aws.Int32(-1), ToPort: aws.Int32(-1), CidrIpv4: aws.String("10.0.0.0/8"),
		}}},
	}))
	read, err := p.c.DescribeSecurityGroupRules(p.ctx, &awsec2.DescribeSecurityGroupRulesInput{SecurityGroupRuleIds: []string{id}})
	if r := must(p.T, read, err).SecurityGroupRules[0]; aws.ToInt32(r.FromPort) != -1 || len(r.Tags) != 1 {
		p.Errorf("rule: %+v", r)
	}
}

func (p *plan) launchTemplate() {
	data := &types.RequestLaunchTemplateData{
		ImageId: aws.String("ami-0123456789abcdef0"), InstanceType: "t3.micro", SecurityGroupIds: []string{p.group}, UserData: aws.String("IyEvYmluL3No"),
		TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{{ResourceType: "instance", Tags: []types.Tag{{Key: aws.String("role"), Value: aws.String("web")}}}},
	}
	in := &awsec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("web"),
		LaunchTemplateData: data,
		ClientToken:        aws.String("once"),
		TagSpecifications:  spec("launch-template", "web"),
	}
	made, err := p.c.CreateLaunchTemplate(p.ctx, in)
	p.template = aws.ToString(must(p.T, made, err).LaunchTemplate.LaunchTemplateId)
	again, err := p.c.CreateLaunchTemplate(p.ctx, in)
	if got := aws.ToString(must(p.T, again, err).LaunchTemplate.LaunchTemplateId); got != p.template {
		p.Errorf("a repeated call made %s", got)
	}
	in.ClientToken = aws.String("twice")
	_, err = p.c.CreateLaunchTemplate(p.ctx, in)
	p.refused(err, "InvalidLaunchTemplateName.AlreadyExistsException")
	ok[*awsec2.CreateLaunchTemplateVersionOutput](p)(p.c.CreateLaunchTemplateVersion(p.ctx, &awsec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: &p.template, SourceVersion: aws.String("1"), LaunchTemplateData: &types.RequestLaunchTemplateData{InstanceType: "t3.small"},
	}))
	ok[*awsec2.ModifyLaunchTemplateOutput](p)(p.c.ModifyLaunchTemplate(p.ctx, &awsec2.ModifyLaunchTemplateInput{LaunchTemplateId: &p.template, DefaultVersion: aws.String("2")}))
	read, err := p.c.DescribeLaunchTemplates(p.ctx, &awsec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"web"}})
	if x := must(p.T, read, err).LaunchTemplates[0]; aws.ToInt64(x.DefaultVersionNumber) != 2 || aws.ToInt64(x.LatestVersionNumber) != 2 {
		p.Errorf("template: %+v", x)
	}
	versions, err := p.c.DescribeLaunchTemplateVersions(p.ctx, &awsec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &p.template, Versions: []string{"$Default"}})
	v := must(p.T, versions, err).LaunchTemplateVersions
	if len(v) != 1 || v[0].LaunchTemplateData.InstanceType != "t3.small" || !slices.Equal(v[0].LaunchTemplateData.SecurityGroupIds, []string{p.group}) ||
		len(v[0].LaunchTemplateData.TagSpecifications) != 1 {
		p.Errorf("versions: %+v", v[0].LaunchTemplateData)
	}
	_, err = p.c.DescribeLaunchTemplateVersions(p.ctx, &awsec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &p.template, Versions: []string{"7"}})
	p.refused(err, "InvalidLaunchTemplateId.VersionNotFound")
}

func (p *plan) launch(in *awsec2.RunInstancesInput) string {
	in.MinCount, in.MaxCount = aws.Int32(1), aws.Int32(1)
	made, err := p.c.RunInstances(p.ctx, in)
	id := aws.ToString(must(p.T, made, err).Instances[0].InstanceId)
	p.running(id)
	return id
}

func (p *plan) running(id string) {
	wait := awsec2.NewInstanceRunningWaiter(p.c, func(o *awsec2.InstanceRunningWaiterOptions) {
		o.MinDelay, o.MaxDelay = time.Millisecond, time.Millisecond
	})
	if err := wait.Wait(p.ctx, &awsec2.DescribeInstancesInput{InstanceIds: []string{id}}, 5*time.Second); err != nil {
		p.Fatal(err)
	}
	healthy := awsec2.NewInstanceStatusOkWaiter(p.c, func(o *awsec2.InstanceStatusOkWaiterOptions) {
		o.MinDelay, o.MaxDelay = time.Millisecond, time.Millisecond
	})
	if err := healthy.Wait(p.ctx, &awsec2.DescribeInstanceStatusInput{InstanceIds: []string{id}}, 5*time.Second); err != nil {
		p.Fatal(err)
	}
}

func (p *plan) instancesUp() {
	p.web = p.launch(&awsec2.RunInstancesInput{
		SubnetId: &p.front, DisableApiTermination: aws.Bool(true), LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateId: &p.template},
	})
	p.db = p.launch(&awsec2.RunInstancesInput{
		ImageId: aws.String("ami-0123456789abcdef0"), InstanceType: "t3.micro", SubnetId: &p.farSubnet, SecurityGroupIds: []string{p.farGroup},
	})
	i := p.instance(p.web)
	if i.InstanceType != "t3.small" || aws.ToString(i.SecurityGroups[0].GroupId) != p.group || aws.ToString(i.Tags[0].Value) != "web" || i.PublicIpAddress == nil {
		p.Errorf("instance of a template: %+v", i)
	}
	for name, want := range map[types.InstanceAttributeName]string{
		"disableApiTermination": "true", "disableApiStop": "false", "instanceInitiatedShutdownBehavior": "stop", "userData": "IyEvYmluL3No", "instanceType": "t3.small",
	} {
		if got := p.attribute(p.web, name); got != want {
			p.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func (p *plan) instance(id string) types.Instance {
	read, err := p.c.DescribeInstances(p.ctx, &awsec2.DescribeInstancesInput{InstanceIds: []string{id}})
	return must(p.T, read, err).Reservations[0].Instances[0]
}

func (p *plan) attribute(id string, name types.InstanceAttributeName) string {
	a, err := p.c.DescribeInstanceAttribute(p.ctx, &awsec2.DescribeInstanceAttributeInput{InstanceId: &id, Attribute: name})
	must(p.T, a, err)
	for _, v := range []*types.AttributeBooleanValue{a.DisableApiTermination, a.DisableApiStop} {
		if v != nil && aws.ToBool(v.Value) {
			return "true"
		} else if v != nil {
			return "false"
		}
	}
	for _, v := range []*types.AttributeValue{a.UserData, a.InstanceInitiatedShutdownBehavior, a.InstanceType} {
		if v != nil {
			return aws.ToString(v.Value)
		}
	}
	return ""
}

func (p *plan) interfaceUp() {
	in := &awsec2.CreateNetworkInterfaceInput{
		SubnetId: &p.front, Groups: []string{p.group}, PrivateIpAddress: aws.String("10.20.1.50"), Description: aws.String("second"),
		TagSpecifications: spec("network-interface", "second"),
	}
	made, err := p.c.CreateNetworkInterface(p.ctx, in)
	p.nic = aws.ToString(must(p.T, made, err).NetworkInterface.NetworkInterfaceId)
	in.ClientToken = nil // the SDK has put one in
	_, err = p.c.CreateNetworkInterface(p.ctx, in)
	p.refused(err, "InvalidIPAddress.InUse")
	attached, err := p.c.AttachNetworkInterface(p.ctx, &awsec2.AttachNetworkInterfaceInput{NetworkInterfaceId: &p.nic, InstanceId: &p.web, DeviceIndex: aws.Int32(1)})
	attachment := must(p.T, attached, err).AttachmentId
	_, err = p.c.AttachNetworkInterface(p.ctx, &awsec2.AttachNetworkInterfaceInput{NetworkInterfaceId: &p.nic, InstanceId: &p.web, DeviceIndex: aws.Int32(2)})
	p.refused(err, "InvalidNetworkInterface.InUse")
	ok[*awsec2.ModifyNetworkInterfaceAttributeOutput](p)(p.c.ModifyNetworkInterfaceAttribute(p.ctx, &awsec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceId: &p.nic, SourceDestCheck: &types.AttributeBooleanValue{Value: aws.Bool(false)},
	}))
	ok[*awsec2.ModifyNetworkInterfaceAttributeOutput](p)(p.c.ModifyNetworkInterfaceAttribute(p.ctx, &awsec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceId: &p.nic, Attachment: &types.NetworkInterfaceAttachmentChanges{AttachmentId: attachment, DeleteOnTermination: aws.Bool(false)},
	}))
	ok[*awsec2.ModifyNetworkInterfaceAttributeOutput](p)(p.c.ModifyNetworkInterfaceAttribute(p.ctx, &awsec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceId: &p.nic, Description: &types.AttributeValue{Value: aws.String("router")},
	}))
	a, err := p.c.DescribeNetworkInterfaceAttribute(p.ctx, &awsec2.DescribeNetworkInterfaceAttributeInput{NetworkInterfaceId: &p.nic, Attribute: "sourceDestCheck"})
	if must(p.T, a, err).SourceDestCheck == nil || aws.ToBool(a.SourceDestCheck.Value) {
		p.Errorf("attribute: %+v", a)
	}
	more, err := p.c.AssignPrivateIpAddresses(p.ctx, &awsec2.AssignPrivateIpAddressesInput{NetworkInterfaceId: &p.nic, SecondaryPrivateIpAddressCount: aws.Int32(1)})
	extra := aws.ToString(must(p.T, more, err).AssignedPrivateIpAddresses[0].PrivateIpAddress)
	ok[*awsec2.UnassignPrivateIpAddressesOutput](
		p,
	)(
		p.c.UnassignPrivateIpAddresses(p.ctx, &awsec2.UnassignPrivateIpAddressesInput{NetworkInterfaceId: &p.nic, PrivateIpAddresses: []string{extra}}),
	)
	read, err := p.c.DescribeNetworkInterfaces(p.ctx, &awsec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{p.nic}})
	n := must(p.T, read, err).NetworkInterfaces[0]
	if n.Status != "in-use" || aws.ToString(n.Description) != "router" || aws.ToInt32(n.Attachment.DeviceIndex) != 1 || len(n.PrivateIpAddresses) != 1 {
		p.Errorf("interface: %+v", n)
	}
	_, err = p.c.DeleteNetworkInterface(p.ctx, &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &p.nic})
	p.refused(err, "InvalidParameterValue")
}

// reach asks the simulator's verdict.
func (p *plan) reach(from, to string, port int) packet.Verdict {
	p.Helper()
	v, err := p.World().Allowed(packet.Flow{Src: packet.End{Addr: netip.MustParseAddr(from)}, Dst: packet.End{Addr: netip.MustParseAddr(to)}, Protocol: 6, Port: port})
	if err != nil {
		p.Fatal(err)
	}
	return v
}

func (p *plan) peer() {
	made, err := p.c.CreateVpcPeeringConnection(
		p.ctx,
		&awsec2.CreateVpcPeeringConnectionInput{VpcId: &p.network, PeerVpcId: &p.far, TagSpecifications: spec("vpc-peering-connection", "far")},
	)
	p.peering = aws.ToString(must(p.T, made, err).VpcPeeringConnection.VpcPeeringConnectionId)
	ok[*awsec2.AcceptVpcPeeringConnectionOutput](p)(p.c.AcceptVpcPeeringConnection(p.ctx, &awsec2.AcceptVpcPeeringConnectionInput{VpcPeeringConnectionId: &p.peering}))
	_, err = p.c.RejectVpcPeeringConnection(p.ctx, &awsec2.RejectVpcPeeringConnectionInput{VpcPeeringConnectionId: &p.peering})
	p.refused(err, "InvalidStateTransition")
	read, err := p.c.DescribeVpcPeeringConnections(p.ctx, &awsec2.DescribeVpcPeeringConnectionsInput{VpcPeeringConnectionIds: []string{p.peering}})
	if x := must(p.T, read, err).VpcPeeringConnections[0]; x.Status.Code != "active" || len(x.AccepterVpcInfo.CidrBlockSet) != 1 {
		p.Errorf("peering: %+v", x)
	}
	// The front has routes of its own, and no packet finds the other VPC before there is one to it.
	web, db := aws.ToString(p.instance(p.web).PrivateIpAddress), aws.ToString(p.instance(p.db).PrivateIpAddress)
	from := packet.Flow{Src: p.end(p.web), Dst: packet.End{Addr: netip.MustParseAddr(db), VPC: p.far}, Protocol: 6, Port: 443}
	v, err := p.World().Allowed(from)
	if must(p.T, v, err).Allowed || !strings.Contains(v.Obstacle, "sends "+db+" through "+p.igw) {
		p.Errorf("%s to %s without a route: %+v", web, db, v)
	}
	ok[*awsec2.CreateRouteOutput](
		p,
	)(
		p.c.CreateRoute(p.ctx, &awsec2.CreateRouteInput{RouteTableId: &p.table, DestinationCidrBlock: aws.String("10.30.0.0/16"), VpcPeeringConnectionId: &p.peering}),
	)
	if v, err := p.World().Allowed(from); err != nil || !v.Allowed {
		p.Errorf("with a route: %+v, %v", v, err)
	}
}

// end is the first interface of an instance.
func (p *plan) end(instance string) packet.End {
	for _, n := range p.instance(instance).NetworkInterfaces {
		if aws.ToInt32(n.Attachment.DeviceIndex) == 0 {
			return packet.End{NIC: aws.ToString(n.NetworkInterfaceId)}
		}
	}
	p.Fatalf("%s has no interface", instance)
	return packet.End{}
}

func (p *plan) entry(number int32, egress bool, action types.RuleAction, from, to int32) {
	p.Helper()
	ok[*awsec2.CreateNetworkAclEntryOutput](p)(p.c.CreateNetworkAclEntry(p.ctx, &awsec2.CreateNetworkAclEntryInput{
		NetworkAclId: &p.acl, RuleNumber: &number, Egress: &egress, RuleAction: action, Protocol: aws.String("6"), CidrBlock: aws.String("0.0.0.0/0"),
		PortRange: &types.PortRange{From: &from, To: &to},
	}))
}

func (p *plan) acls() {
	made, err := p.c.CreateNetworkAcl(p.ctx, &awsec2.CreateNetworkAclInput{VpcId: &p.network, TagSpecifications: spec("network-acl", "front")})
	p.acl = aws.ToString(must(p.T, made, err).NetworkAcl.NetworkAclId)
	p.entry(100, false, "allow", 443, 443)
	_, err = p.c.CreateNetworkAclEntry(p.ctx, &awsec2.CreateNetworkAclEntryInput{
		NetworkAclId: &p.acl, RuleNumber: aws.Int32(100), Egress: aws.Bool(false), RuleAction: "deny", Protocol: aws.String("-1"), CidrBlock: aws.String("10.0.0.0/8"),
	})
	p.refused(err, "NetworkAclEntryAlreadyExists")
	all, err := p.c.DescribeNetworkAcls(p.ctx, &awsec2.DescribeNetworkAclsInput{Filters: []types.Filter{filter("association.subnet-id", p.front)}})
	var association string
	for _, a := range must(p.T, all, err).NetworkAcls[0].Associations {
		if aws.ToString(a.SubnetId) == p.front {
			association = aws.ToString(a.NetworkAclAssociationId)
		}
	}
	before := aws.ToString(all.NetworkAcls[0].NetworkAclId)
	outside, web := "203.0.113.7", aws.ToString(p.instance(p.web).PublicIpAddress)
	if v := p.reach(outside, web, 443); !v.Allowed {
		p.Errorf("before the ACL: %s", v.Reason)
	}
	used, err := p.c.ReplaceNetworkAclAssociation(p.ctx, &awsec2.ReplaceNetworkAclAssociationInput{AssociationId: &association, NetworkAclId: &p.acl})
	association = aws.ToString(must(p.T, used, err).NewAssociationId)
	// It knows of no connections: the answer must be let out too.
	if v := p.reach(outside, web, 443); v.Allowed || !strings.Contains(v.Obstacle, "the answer to "+outside) {
		p.Errorf("without a way back: %+v", v)
	}
	p.entry(100, true, "allow", 1024, 65535)
	if v := p.reach(outside, web, 443); !v.Allowed {
		p.Errorf("with a way back: %s", v.Reason)
	}
	if v := p.reach("10.9.0.1", web, 80); v.Allowed || !strings.Contains(v.Reason, "entry * of network ACL "+p.acl) {
		p.Errorf("another port: %+v", v)
	}
	ok[*awsec2.ReplaceNetworkAclEntryOutput](p)(p.c.ReplaceNetworkAclEntry(p.ctx, &awsec2.ReplaceNetworkAclEntryInput{
		NetworkAclId: &p.acl, RuleNumber: aws.Int32(100), Egress: aws.Bool(false), RuleAction: "deny", Protocol: aws.String("-1"), CidrBlock: aws.String("0.0.0.0/0"),
	}))
	if v := p.reach(outside, web, 443); v.Allowed || !strings.Contains(v.Obstacle, "entry 100 of network ACL") {
		p.Errorf("denied: %+v", v)
	}
	ok[*awsec2.DeleteNetworkAclEntryOutput](
		p,
	)(
		p.c.DeleteNetworkAclEntry(p.ctx, &awsec2.DeleteNetworkAclEntryInput{NetworkAclId: &p.acl, RuleNumber: aws.Int32(100), Egress: aws.Bool(true)}),
	)
	_, err = p.c.DeleteNetworkAclEntry(p.ctx, &awsec2.DeleteNetworkAclEntryInput{NetworkAclId: &p.acl, RuleNumber: aws.Int32(100), Egress: aws.Bool(true)})
	p.refused(err, "InvalidNetworkAclEntry.NotFound")
	_, err = p.c.DeleteNetworkAcl(p.ctx, &awsec2.DeleteNetworkAclInput{NetworkAclId: &p.acl})
	p.refused(err, "DependencyViolation")
	ok[*awsec2.ReplaceNetworkAclAssociationOutput](
		p,
	)(
		p.c.ReplaceNetworkAclAssociation(p.ctx, &awsec2.ReplaceNetworkAclAssociationInput{AssociationId: &association, NetworkAclId: &before}),
	)
	_, err = p.c.DeleteNetworkAcl(p.ctx, &awsec2.DeleteNetworkAclInput{NetworkAclId: &before})
	p.refused(err, "InvalidParameterValue")
}

func (p *plan) change() {
	_, err := p.c.TerminateInstances(p.ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{p.web}})
	p.refused(err, "OperationNotPermitted")
	_, err = p.c.ModifyInstanceAttribute(p.ctx, &awsec2.ModifyInstanceAttributeInput{InstanceId: &p.db, InstanceType: &types.AttributeValue{Value: aws.String("t3.large")}})
	p.refused(err, "IncorrectInstanceState")
	ok[*awsec2.StopInstancesOutput](p)(p.c.StopInstances(p.ctx, &awsec2.StopInstancesInput{InstanceIds: []string{p.db}}))
	wait := awsec2.NewInstanceStoppedWaiter(p.c, func(o *awsec2.InstanceStoppedWaiterOptions) {
		o.MinDelay, o.MaxDelay = time.Millisecond, time.Millisecond
	})
	if err := wait.Wait(p.ctx, &awsec2.DescribeInstancesInput{InstanceIds: []string{p.db}}, 5*time.Second); err != nil {
		p.Fatal(err)
	}
	ok[*awsec2.ModifyInstanceAttributeOutput](
		p,
	)(
		p.c.ModifyInstanceAttribute(p.ctx, &awsec2.ModifyInstanceAttributeInput{InstanceId: &p.db, InstanceType: &types.AttributeValue{Value: aws.String("t3.large")}}),
	)
	ok[*awsec2.StartInstancesOutput](p)(p.c.StartInstances(p.ctx, &awsec2.StartInstancesInput{InstanceIds: []string{p.db}}))
	p.running(p.db)
	if i := p.instance(p.db); i.InstanceType != "t3.large" {
		p.Errorf("instance type %s", i.InstanceType)
	}
	ok[*awsec2.ModifyInstanceAttributeOutput](
		p,
	)(
		p.c.ModifyInstanceAttribute(p.ctx, &awsec2.ModifyInstanceAttributeInput{InstanceId: &p.web, DisableApiTermination: &types.AttributeBooleanValue{Value: aws.Bool(false)}}),
	)
	_, err = p.c.ModifyInstanceAttribute(p.ctx, &awsec2.ModifyInstanceAttributeInput{InstanceId: &p.web, Kernel: &types.AttributeValue{Value: aws.String("aki-1")}})
	p.refused(err, "UnsupportedOperation")
	ok[*awsec2.ReplaceRouteOutput](
		p,
	)(
		p.c.ReplaceRoute(p.ctx, &awsec2.ReplaceRouteInput{RouteTableId: &p.table, DestinationCidrBlock: aws.String("10.30.0.0/16"), NetworkInterfaceId: &p.nic}),
	)
	ok[*awsec2.DeleteRouteOutput](p)(p.c.DeleteRoute(p.ctx, &awsec2.DeleteRouteInput{RouteTableId: &p.table, DestinationCidrBlock: aws.String("10.30.0.0/16")}))
	asked, err := p.c.CreateVpcPeeringConnection(p.ctx, &awsec2.CreateVpcPeeringConnectionInput{VpcId: &p.far, PeerVpcId: &p.network})
	if asked != nil {
		p.Errorf("a second peering: %+v", asked.VpcPeeringConnection)
	}
	p.refused(err, "VpcPeeringConnectionAlreadyExists")
}

func (p *plan) destroy() {
	_, err := p.c.DeleteVpc(p.ctx, &awsec2.DeleteVpcInput{VpcId: &p.network})
	p.refused(err, "DependencyViolation")
	_, err = p.c.DeleteSubnet(p.ctx, &awsec2.DeleteSubnetInput{SubnetId: &p.front})
	p.refused(err, "DependencyViolation")
	read, err := p.c.DescribeNetworkInterfaces(p.ctx, &awsec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{p.nic}})
	attachment := must(p.T, read, err).NetworkInterfaces[0].Attachment.AttachmentId
	ok[*awsec2.DetachNetworkInterfaceOutput](p)(p.c.DetachNetworkInterface(p.ctx, &awsec2.DetachNetworkInterfaceInput{AttachmentId: attachment}))
	_, err = p.c.DetachNetworkInterface(p.ctx, &awsec2.DetachNetworkInterfaceInput{AttachmentId: attachment})
	p.refused(err, "InvalidAttachmentID.NotFound")
	ok[*awsec2.DeleteNetworkInterfaceOutput](p)(p.c.DeleteNetworkInterface(p.ctx, &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &p.nic}))
	_, err = p.c.DeleteNetworkInterface(p.ctx, &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &p.nic})
	p.refused(err, "InvalidNetworkInterfaceID.NotFound")
	both := []string{p.web, p.db}
	ok[*awsec2.TerminateInstancesOutput](p)(p.c.TerminateInstances(p.ctx, &awsec2.TerminateInstancesInput{InstanceIds: both}))
	wait := awsec2.NewInstanceTerminatedWaiter(p.c, func(o *awsec2.InstanceTerminatedWaiterOptions) {
		o.MinDelay, o.MaxDelay = time.Millisecond, time.Millisecond
	})
	if err := wait.Wait(p.ctx, &awsec2.DescribeInstancesInput{InstanceIds: both}, 5*time.Second); err != nil {
		p.Fatal(err)
	}
	ok[*awsec2.DeleteLaunchTemplateOutput](p)(p.c.DeleteLaunchTemplate(p.ctx, &awsec2.DeleteLaunchTemplateInput{LaunchTemplateId: &p.template}))
	ok[*awsec2.DeleteVpcPeeringConnectionOutput](p)(p.c.DeleteVpcPeeringConnection(p.ctx, &awsec2.DeleteVpcPeeringConnectionInput{VpcPeeringConnectionId: &p.peering}))
	again, err := p.c.CreateVpcPeeringConnection(p.ctx, &awsec2.CreateVpcPeeringConnectionInput{VpcId: &p.far, PeerVpcId: &p.network})
	declined := must(p.T, again, err).VpcPeeringConnection.VpcPeeringConnectionId
	ok[*awsec2.RejectVpcPeeringConnectionOutput](p)(p.c.RejectVpcPeeringConnection(p.ctx, &awsec2.RejectVpcPeeringConnectionInput{VpcPeeringConnectionId: declined}))
	for _, g := range []string{p.group, p.farGroup} {
		ok[*awsec2.DeleteSecurityGroupOutput](p)(p.c.DeleteSecurityGroup(p.ctx, &awsec2.DeleteSecurityGroupInput{GroupId: &g}))
	}
	ok[*awsec2.DeleteNetworkAclOutput](p)(p.c.DeleteNetworkAcl(p.ctx, &awsec2.DeleteNetworkAclInput{NetworkAclId: &p.acl}))
	_, err = p.c.DeleteRouteTable(p.ctx, &awsec2.DeleteRouteTableInput{RouteTableId: &p.table})
	p.refused(err, "DependencyViolation")
	tables, err := p.c.DescribeRouteTables(p.ctx, &awsec2.DescribeRouteTablesInput{RouteTableIds: []string{p.table}})
	association := must(p.T, tables, err).RouteTables[0].Associations[0].RouteTableAssociationId
	ok[*awsec2.DisassociateRouteTableOutput](p)(p.c.DisassociateRouteTable(p.ctx, &awsec2.DisassociateRouteTableInput{AssociationId: association}))
	ok[*awsec2.DeleteRouteTableOutput](p)(p.c.DeleteRouteTable(p.ctx, &awsec2.DeleteRouteTableInput{RouteTableId: &p.table}))
	_, err = p.c.DeleteInternetGateway(p.ctx, &awsec2.DeleteInternetGatewayInput{InternetGatewayId: &p.igw})
	p.refused(err, "DependencyViolation")
	ok[*awsec2.DetachInternetGatewayOutput](p)(p.c.DetachInternetGateway(p.ctx, &awsec2.DetachInternetGatewayInput{InternetGatewayId: &p.igw, VpcId: &p.network}))
	ok[*awsec2.DeleteInternetGatewayOutput](p)(p.c.DeleteInternetGateway(p.ctx, &awsec2.DeleteInternetGatewayInput{InternetGatewayId: &p.igw}))
	for _, s := range []string{p.front, p.back, p.farSubnet} {
		ok[*awsec2.DeleteSubnetOutput](p)(p.c.DeleteSubnet(p.ctx, &awsec2.DeleteSubnetInput{SubnetId: &s}))
	}
	for _, v := range []string{p.network, p.far} {
		ok[*awsec2.DeleteVpcOutput](p)(p.c.DeleteVpc(p.ctx, &awsec2.DeleteVpcInput{VpcId: &v}))
	}
	_, err = p.c.DescribeVpcs(p.ctx, &awsec2.DescribeVpcsInput{VpcIds: []string{p.network}})
	p.refused(err, "InvalidVpcID.NotFound")
}
