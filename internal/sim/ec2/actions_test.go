package ec2_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/document"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

// story drives the official client through a whole life of a small network; its parts share the
// state.
type story struct {
	*fixture
	*testing.T
	c *awsec2.Client

	vpc, subnet, web, db string
	instances            []string
	list                 string
}

// must fails the story on an error and returns the answer otherwise.
func must[T any](t *testing.T, out T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// same compares what a client decoded with what was expected.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreTypes(document.NoSerde{})); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// TestEveryAction calls every action at least once with success and checks what the client decodes.
func TestEveryAction(t *testing.T) {
	f := start(t, sim.Options{})
	s := &story{fixture: f, T: t, c: f.client()}
	for _, part := range []struct {
		name string
		tell func()
	}{
		{"places", s.places}, {"network", s.network}, {"groups", s.groups}, {"rules", s.rules}, {"modify", s.modify},
		{"instances", s.machines}, {"interfaces", s.interfaces}, {"tags", s.tags}, {"prefix lists", s.prefixLists},
		{"revoke", s.revoke}, {"power", s.power}, {"delete", s.delete}, {"identity", s.identity}, {"terraform", s.terraform},
		{"native services", s.natives},
	} {
		part.tell()
		if t.Failed() {
			t.Fatalf("the story ends in the part %q", part.name)
		}
	}
	succeeded := map[string]bool{}
	for _, call := range f.Journal().Calls(0) {
		if call.Code == "" {
			succeeded[call.Service+" "+call.Action] = true
		}
		if len(call.Ignored) > 0 && call.Action != "RunInstances" {
			t.Errorf("%s ignores %q", call.Action, call.Ignored)
		}
	}
	for service, names := range ec2.NewHandler(ec2.Config{World: f.World()}).Actions() {
		for _, name := range names {
			if !succeeded[service+" "+name] {
				t.Errorf("%s %s was never called with success", service, name)
			}
		}
	}
}

func (s *story) places() {
	regions, err := s.c.DescribeRegions(s.ctx, &awsec2.DescribeRegionsInput{AllRegions: aws.Bool(true)})
	must(s.T, regions, err)
	var names []string
	for _, r := range regions.Regions {
		names = append(names, aws.ToString(r.RegionName)+" "+aws.ToString(r.OptInStatus))
	}
	same(s.T, "regions", names, []string{
		"ap-east-1 not-opted-in", "eu-west-1 opt-in-not-required", "us-east-1 opt-in-not-required",
	})
	zones, err := s.c.DescribeAvailabilityZones(s.ctx, &awsec2.DescribeAvailabilityZonesInput{ZoneNames: []string{region + "a"}})
	must(s.T, zones, err)
	same(s.T, "zones", zones.AvailabilityZones, []types.AvailabilityZone{{
		ZoneName: aws.String(region + "a"), ZoneId: aws.String("euw1-az1"), RegionName: aws.String(region),
		GroupName: aws.String(region), State: "available", OptInStatus: "opt-in-not-required",
		ZoneType: aws.String("availability-zone"),
	}})
}

func (s *story) network() {
	created, err := s.c.CreateVpc(s.ctx, &awsec2.CreateVpcInput{
		CidrBlock: aws.String("10.9.0.0/16"), AmazonProvidedIpv6CidrBlock: aws.Bool(true),
		TagSpecifications: []types.TagSpecification{{ResourceType: "vpc", Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("a & b <é>")}}}},
	})
	must(s.T, created, err)
	same(s.T, "state of a new VPC", created.Vpc.State, types.VpcStatePending)
	s.vpc = aws.ToString(created.Vpc.VpcId)
	if err := awsec2.NewVpcAvailableWaiter(s.c).Wait(s.ctx, &awsec2.DescribeVpcsInput{VpcIds: []string{s.vpc}}, time.Minute); err != nil {
		s.Fatal(err)
	}
	vpcs, err := s.c.DescribeVpcs(s.ctx, &awsec2.DescribeVpcsInput{VpcIds: []string{defaultID}})
	must(s.T, vpcs, err)
	same(s.T, "the default VPC", vpcs.Vpcs, []types.Vpc{{
		VpcId: aws.String(defaultID), OwnerId: aws.String(home), State: "available", IsDefault: aws.Bool(true),
		CidrBlock: aws.String("10.0.0.0/16"), DhcpOptionsId: aws.String("dopt-00000001"), InstanceTenancy: "default",
		CidrBlockAssociationSet: []types.VpcCidrBlockAssociation{{
			AssociationId: aws.String("vpc-cidr-assoc-1"), CidrBlock: aws.String("10.0.0.0/16"),
			CidrBlockState: &types.VpcCidrBlockState{State: "associated"},
		}},
		Ipv6CidrBlockAssociationSet: []types.VpcIpv6CidrBlockAssociation{{
			AssociationId: aws.String("vpc-cidr-assoc-2"), Ipv6CidrBlock: aws.String("2001:db8:1::/64"),
			Ipv6CidrBlockState: &types.VpcCidrBlockState{State: "associated"},
		}},
		Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("first")}, {Key: aws.String("empty"), Value: aws.String("")}},
	}})
	subnet, err := s.c.CreateSubnet(s.ctx, &awsec2.CreateSubnetInput{
		VpcId: &s.vpc, CidrBlock: aws.String("10.9.1.0/24"), AvailabilityZone: aws.String(region + "b"),
		TagSpecifications: []types.TagSpecification{{ResourceType: "subnet", Tags: []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}},
	})
	must(s.T, subnet, err)
	s.subnet = aws.ToString(subnet.Subnet.SubnetId)
	subnets, err := s.c.DescribeSubnets(s.ctx, &awsec2.DescribeSubnetsInput{SubnetIds: []string{s.subnet}})
	must(s.T, subnets, err)
	same(s.T, "subnet", subnets.Subnets, []types.Subnet{{
		SubnetId: &s.subnet, VpcId: &s.vpc, OwnerId: aws.String(home), State: "available", CidrBlock: aws.String("10.9.1.0/24"),
		SubnetArn:        aws.String("arn:aws:ec2:" + region + ":" + home + ":subnet/" + s.subnet),
		AvailabilityZone: aws.String(region + "b"), AvailabilityZoneId: aws.String("euw1-az2"),
		AvailableIpAddressCount: aws.Int32(251), DefaultForAz: aws.Bool(false), MapPublicIpOnLaunch: aws.Bool(false), Ipv6Native: aws.Bool(false),
		Tags: []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}},
	}})
	peerings, err := s.c.DescribeVpcPeeringConnections(s.ctx, &awsec2.DescribeVpcPeeringConnectionsInput{})
	must(s.T, peerings, err)
	side := func(account, vpc, cidr string) *types.VpcPeeringConnectionVpcInfo {
		return &types.VpcPeeringConnectionVpcInfo{
			VpcId: &vpc, OwnerId: &account, Region: aws.String(region), CidrBlock: &cidr,
			CidrBlockSet: []types.CidrBlock{{CidrBlock: &cidr}},
		}
	}
	same(s.T, "peerings", peerings.VpcPeeringConnections, []types.VpcPeeringConnection{{
		VpcPeeringConnectionId: aws.String(peeringID),
		Status:                 &types.VpcPeeringConnectionStateReason{Code: "active", Message: aws.String("Active")},
		RequesterVpcInfo:       side(home, defaultID, "10.0.0.0/16"), AccepterVpcInfo: side(other, otherVPC, "10.1.0.0/16"),
		Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("bridge")}},
	}})
}

func (s *story) groups() {
	created, err := s.c.CreateSecurityGroup(s.ctx, &awsec2.CreateSecurityGroupInput{
		GroupName: aws.String("web"), Description: aws.String("web servers"), VpcId: &s.vpc,
		TagSpecifications: []types.TagSpecification{{
			ResourceType: "security-group", Tags: []types.Tag{{Key: aws.String("tier"), Value: aws.String("web")}},
		}},
	})
	must(s.T, created, err)
	s.web = aws.ToString(created.GroupId)
	same(s.T, "ARN", aws.ToString(created.SecurityGroupArn), "arn:aws:ec2:"+region+":"+home+":security-group/"+s.web)
	waited := awsec2.NewSecurityGroupExistsWaiter(s.c)
	if err := waited.Wait(s.ctx, &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{s.web}}, time.Minute); err != nil {
		s.Fatal(err)
	}
	referred, err := s.c.DescribeSecurityGroupReferences(s.ctx, &awsec2.DescribeSecurityGroupReferencesInput{GroupId: []string{s.web}})
	must(s.T, referred, err)
	if len(referred.SecurityGroupReferenceSet) != 0 {
		s.Errorf("references to a new group: %+v", referred.SecurityGroupReferenceSet)
	}
	groups, err := s.c.DescribeSecurityGroups(s.ctx, &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{s.web}})
	must(s.T, groups, err)
	same(s.T, "a new group: the VPC has IPv6, so all of both families may leave", groups.SecurityGroups, []types.SecurityGroup{{
		GroupId: &s.web, GroupName: aws.String("web"), Description: aws.String("web servers"), VpcId: &s.vpc,
		OwnerId: aws.String(home), SecurityGroupArn: created.SecurityGroupArn,
		IpPermissionsEgress: []types.IpPermission{{
			IpProtocol: aws.String("-1"), IpRanges: []types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}},
			Ipv6Ranges: []types.Ipv6Range{{CidrIpv6: aws.String("::/0")}},
		}},
		Tags: []types.Tag{{Key: aws.String("tier"), Value: aws.String("web")}},
	}})
	created, err = s.c.CreateSecurityGroup(s.ctx, &awsec2.CreateSecurityGroupInput{
		GroupName: aws.String("db"), Description: aws.String("databases"), VpcId: &s.vpc,
	})
	must(s.T, created, err)
	s.db = aws.ToString(created.GroupId)
}

func (s *story) rules() {
	permission := tcp(80, 90, "10.0.0.0/8", "192.168.3.77/24", "2001:db8::/32")
	permission.IpRanges[0].Description = aws.String("inside")
	permission.UserIdGroupPairs = []types.UserIdGroupPair{{GroupId: &s.db, Description: aws.String("peer")}}
	ping := types.IpPermission{
		IpProtocol: aws.String("icmp"), FromPort: aws.Int32(8), ToPort: aws.Int32(-1),
		IpRanges: []types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}},
	}
	out, err := s.c.AuthorizeSecurityGroupIngress(s.ctx, &awsec2.AuthorizeSecurityGroupIngressInput{
		GroupId: &s.web, IpPermissions: []types.IpPermission{permission, ping},
		TagSpecifications: []types.TagSpecification{{
			ResourceType: "security-group-rule", Tags: []types.Tag{{Key: aws.String("r"), Value: aws.String("1")}},
		}},
	})
	must(s.T, out, err)
	var printed []string
	for _, r := range out.SecurityGroupRules {
		peer := aws.ToString(r.CidrIpv4) + aws.ToString(r.CidrIpv6)
		if r.ReferencedGroupInfo != nil {
			peer = aws.ToString(r.ReferencedGroupInfo.GroupId) + " of " + aws.ToString(r.ReferencedGroupInfo.UserId)
		}
		printed = append(printed, strings.Join([]string{aws.ToString(r.IpProtocol), peer, aws.ToString(r.Description)}, " "))
		if !strings.HasPrefix(aws.ToString(r.SecurityGroupRuleId), "sgr-") || aws.ToString(r.GroupId) != s.web ||
			aws.ToBool(r.IsEgress) || aws.ToString(r.GroupOwnerId) != home || len(r.Tags) != 1 ||
			!strings.HasSuffix(aws.ToString(r.SecurityGroupRuleArn), "security-group-rule/"+aws.ToString(r.SecurityGroupRuleId)) {
			s.Errorf("rule %+v", r)
		}
	}
	slices.Sort(printed)
	same(s.T, "one rule per peer", printed, []string{
		"icmp 0.0.0.0/0 ", "tcp 10.0.0.0/8 inside", "tcp 192.168.3.0/24 ", "tcp 2001:db8::/32 ", "tcp " + s.db + " of " + home + " peer",
	})
	egress, err := s.c.AuthorizeSecurityGroupEgress(s.ctx, &awsec2.AuthorizeSecurityGroupEgressInput{
		GroupId: &s.db, IpPermissions: []types.IpPermission{tcp(443, 443, "10.0.0.0/8")},
	})
	must(s.T, egress, err)
	same(s.T, "egress", aws.ToBool(egress.SecurityGroupRules[0].IsEgress), true)
	flat, err := s.c.AuthorizeSecurityGroupIngress(s.ctx, &awsec2.AuthorizeSecurityGroupIngressInput{
		GroupId: &s.db, IpProtocol: aws.String("udp"), FromPort: aws.Int32(53), ToPort: aws.Int32(53), CidrIp: aws.String("10.0.0.0/8"),
	})
	must(s.T, flat, err)
	same(s.T, "older form of a rule", aws.ToString(flat.SecurityGroupRules[0].CidrIpv4), "10.0.0.0/8")
	whole, err := s.c.DescribeSecurityGroups(s.ctx, &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{s.web}})
	must(s.T, whole, err)
	permission.IpRanges[1].CidrIp = aws.String("192.168.3.0/24")
	permission.UserIdGroupPairs[0].UserId = aws.String(home)
	same(s.T, "rules of a group by ports", whole.SecurityGroups[0].IpPermissions, []types.IpPermission{permission, ping})
}

func (s *story) rule(group, filter string) []types.SecurityGroupRule {
	out, err := s.c.DescribeSecurityGroupRules(s.ctx, &awsec2.DescribeSecurityGroupRulesInput{
		Filters: []types.Filter{{Name: aws.String("group-id"), Values: []string{group}}},
	})
	must(s.T, out, err)
	return slices.DeleteFunc(out.SecurityGroupRules, func(r types.SecurityGroupRule) bool {
		return !strings.Contains(aws.ToString(r.CidrIpv4)+" "+aws.ToString(r.IpProtocol)+" "+aws.ToString(r.Description), filter)
	})
}

func (s *story) modify() {
	open := s.rule(s.db, "0.0.0.0/0")
	if len(open) != 1 || aws.ToInt32(open[0].FromPort) != -1 || aws.ToInt32(open[0].ToPort) != -1 || !aws.ToBool(open[0].IsEgress) {
		s.Fatalf("the default egress rule: %+v", open)
	}
	inside := s.rule(s.web, "inside")[0]
	changed, err := s.c.ModifySecurityGroupRules(s.ctx, &awsec2.ModifySecurityGroupRulesInput{
		GroupId: &s.web, SecurityGroupRules: []types.SecurityGroupRuleUpdate{{
			SecurityGroupRuleId: inside.SecurityGroupRuleId, SecurityGroupRule: &types.SecurityGroupRuleRequest{
				IpProtocol: aws.String("tcp"), FromPort: aws.Int32(8080), ToPort: aws.Int32(8081), CidrIpv4: aws.String("10.0.0.0/9"),
				Description: aws.String("changed"),
			},
		}},
	})
	must(s.T, changed, err)
	after := s.rule(s.web, "changed")[0]
	same(s.T, "same rule, other ports", []any{*after.SecurityGroupRuleId, *after.FromPort, *after.CidrIpv4},
		[]any{*inside.SecurityGroupRuleId, int32(8080), "10.0.0.0/9"})
	described, err := s.c.UpdateSecurityGroupRuleDescriptionsIngress(s.ctx, &awsec2.UpdateSecurityGroupRuleDescriptionsIngressInput{
		GroupId: &s.web, SecurityGroupRuleDescriptions: []types.SecurityGroupRuleDescription{{
			SecurityGroupRuleId: inside.SecurityGroupRuleId, Description: aws.String("described"),
		}},
	})
	must(s.T, described, err)
	if len(s.rule(s.web, "described")) != 1 {
		s.Error("the description has not changed")
	}
	permission := tcp(443, 443, "10.0.0.0/8")
	permission.IpRanges[0].Description = aws.String("out")
	egress, err := s.c.UpdateSecurityGroupRuleDescriptionsEgress(s.ctx, &awsec2.UpdateSecurityGroupRuleDescriptionsEgressInput{
		GroupId: &s.db, IpPermissions: []types.IpPermission{permission},
	})
	must(s.T, egress, err)
	if len(s.rule(s.db, "out")) != 1 {
		s.Error("the description of the egress rule has not changed")
	}
}

func (s *story) tags() {
	created, err := s.c.CreateTags(s.ctx, &awsec2.CreateTagsInput{
		Resources: []string{s.web, s.instances[0]}, Tags: []types.Tag{{Key: aws.String("x"), Value: aws.String("")}, {Key: aws.String("y"), Value: aws.String("1")}},
	})
	must(s.T, created, err)
	deleted, err := s.c.DeleteTags(s.ctx, &awsec2.DeleteTagsInput{
		Resources: []string{s.web}, Tags: []types.Tag{{Key: aws.String("y"), Value: aws.String("other value")}, {Key: aws.String("tier")}},
	})
	must(s.T, deleted, err)
	described, err := s.c.DescribeTags(s.ctx, &awsec2.DescribeTagsInput{
		Filters: []types.Filter{{Name: aws.String("resource-id"), Values: []string{s.web}}},
	})
	must(s.T, described, err)
	tag := func(key, value string) types.TagDescription {
		return types.TagDescription{ResourceId: &s.web, ResourceType: "security-group", Key: &key, Value: &value}
	}
	same(s.T, "a tag is deleted by its key, and by its value only if that is given", described.Tags,
		[]types.TagDescription{tag("x", ""), tag("y", "1")})
}

func (s *story) prefixLists() {
	created, err := s.c.CreateManagedPrefixList(s.ctx, &awsec2.CreateManagedPrefixListInput{
		PrefixListName: aws.String("offices"), AddressFamily: aws.String("IPv4"), MaxEntries: aws.Int32(5),
		Entries: []types.AddPrefixListEntry{{Cidr: aws.String("203.0.113.0/24"), Description: aws.String("one")}},
		TagSpecifications: []types.TagSpecification{{
			ResourceType: "prefix-list", Tags: []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}},
		}},
	})
	must(s.T, created, err)
	same(s.T, "state of a new list", created.PrefixList.State, types.PrefixListStateCreateInProgress)
	s.list = aws.ToString(created.PrefixList.PrefixListId)
	changed, err := s.c.ModifyManagedPrefixList(s.ctx, &awsec2.ModifyManagedPrefixListInput{
		PrefixListId: &s.list, CurrentVersion: aws.Int64(1), AddEntries: []types.AddPrefixListEntry{{Cidr: aws.String("198.51.100.0/24")}},
		RemoveEntries: []types.RemovePrefixListEntry{{Cidr: aws.String("203.0.113.0/24")}},
	})
	must(s.T, changed, err)
	lists, err := s.c.DescribeManagedPrefixLists(s.ctx, &awsec2.DescribeManagedPrefixListsInput{
		Filters: []types.Filter{{Name: aws.String("prefix-list-name"), Values: []string{"off*"}}},
	})
	must(s.T, lists, err)
	same(s.T, "list", lists.PrefixLists, []types.ManagedPrefixList{{
		PrefixListId: &s.list, PrefixListName: aws.String("offices"), AddressFamily: aws.String("IPv4"), MaxEntries: aws.Int32(5),
		OwnerId: aws.String(home), State: "modify-complete", Version: aws.Int64(2),
		PrefixListArn: aws.String("arn:aws:ec2:" + region + ":" + home + ":prefix-list/" + s.list),
		Tags:          []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}},
	}})
	for version, want := range map[int64]string{0: "198.51.100.0/24", 1: "203.0.113.0/24"} {
		in := &awsec2.GetManagedPrefixListEntriesInput{PrefixListId: &s.list}
		if version > 0 {
			in.TargetVersion = &version
		}
		entries, err := s.c.GetManagedPrefixListEntries(s.ctx, in)
		must(s.T, entries, err)
		if len(entries.Entries) != 1 || aws.ToString(entries.Entries[0].Cidr) != want {
			s.Errorf("version %d holds %+v", version, entries.Entries)
		}
	}
	deleted, err := s.c.DeleteManagedPrefixList(s.ctx, &awsec2.DeleteManagedPrefixListInput{PrefixListId: &s.list})
	must(s.T, deleted, err)
}

func (s *story) revoke() {
	ping := s.rule(s.web, "icmp")[0]
	revoked, err := s.c.RevokeSecurityGroupIngress(s.ctx, &awsec2.RevokeSecurityGroupIngressInput{
		GroupId: &s.web, SecurityGroupRuleIds: []string{*ping.SecurityGroupRuleId},
	})
	must(s.T, revoked, err)
	same(s.T, "the revoked rule", revoked.RevokedSecurityGroupRules, []types.RevokedSecurityGroupRule{{
		SecurityGroupRuleId: ping.SecurityGroupRuleId, GroupId: &s.web, IsEgress: aws.Bool(false), IpProtocol: aws.String("icmp"),
		FromPort: aws.Int32(8), ToPort: aws.Int32(-1), CidrIpv4: aws.String("0.0.0.0/0"),
	}})
	egress, err := s.c.RevokeSecurityGroupEgress(s.ctx, &awsec2.RevokeSecurityGroupEgressInput{
		GroupId: &s.db, IpPermissions: []types.IpPermission{{IpProtocol: aws.String("-1"), IpRanges: []types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}},
	})
	must(s.T, egress, err)
	same(s.T, "revoked egress rules", len(egress.RevokedSecurityGroupRules), 1)
	// In a default VPC a permission that matches nothing is handed back instead of refused.
	unknown, err := s.c.RevokeSecurityGroupIngress(s.ctx, &awsec2.RevokeSecurityGroupIngressInput{
		GroupId: aws.String(groupID), IpPermissions: []types.IpPermission{tcp(1, 2, "10.0.0.0/8")},
	})
	must(s.T, unknown, err)
	same(s.T, "unknown permissions", unknown.UnknownIpPermissions, []types.IpPermission{tcp(1, 2, "10.0.0.0/8")})
}

func (s *story) delete() {
	_, err := s.c.DeleteSecurityGroup(s.ctx, &awsec2.DeleteSecurityGroupInput{GroupId: &s.db})
	same(s.T, "a group that another one names", code(s.T, err), "DependencyViolation")
	for _, id := range []string{s.web, s.db} {
		deleted, err := s.c.DeleteSecurityGroup(s.ctx, &awsec2.DeleteSecurityGroupInput{GroupId: &id})
		must(s.T, deleted, err)
		same(s.T, "deleted", []any{aws.ToString(deleted.GroupId), aws.ToBool(deleted.Return)}, []any{id, true})
	}
}

func (s *story) identity() {
	who, err := s.sts().GetCallerIdentity(s.ctx, &sts.GetCallerIdentityInput{})
	must(s.T, who, err)
	same(s.T, "caller", []string{aws.ToString(who.Account), aws.ToString(who.Arn)}, []string{home, "arn:aws:iam::" + home + ":user/tester"})
	role, err := s.sts().AssumeRole(s.ctx, &sts.AssumeRoleInput{
		RoleArn: aws.String("arn:aws:iam::" + other + ":role/guest"), RoleSessionName: aws.String("s1"), ExternalId: aws.String("shibboleth"),
		DurationSeconds: aws.Int32(900),
	})
	must(s.T, role, err)
	same(s.T, "session", aws.ToString(role.AssumedRoleUser.Arn), "arn:aws:sts::"+other+":assumed-role/guest/s1")
	if life := role.Credentials.Expiration.Sub(s.Now()); life > 15*time.Minute || life < 14*time.Minute {
		s.Errorf("the session lives %s", life)
	}
	config := s.config(*role.Credentials.AccessKeyId, *role.Credentials.SecretAccessKey, *role.Credentials.SessionToken)
	vpcs, err := awsec2.NewFromConfig(config).DescribeVpcs(s.ctx, &awsec2.DescribeVpcsInput{})
	must(s.T, vpcs, err)
	same(s.T, "the session sees the other account", aws.ToString(vpcs.Vpcs[0].VpcId), otherVPC)
}
