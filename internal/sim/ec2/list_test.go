package ec2_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/nephele-io/nephele/internal/sim"
)

// filters reads "name=value,value name=value".
func filters(text string) []types.Filter {
	var out []types.Filter
	for part := range strings.FieldsSeq(text) {
		name, values, _ := strings.Cut(part, "=")
		out = append(out, types.Filter{Name: &name, Values: strings.Split(values, ",")})
	}
	return out
}

func TestInstanceFilters(t *testing.T) {
	f := start(t, sim.Options{})
	c := f.client()
	web, db := f.group(t, c, "web"), f.group(t, c, "db")
	launch := func(name, group, ip string) string {
		out, err := c.RunInstances(f.ctx, &awsec2.RunInstancesInput{
			ImageId: aws.String("ami-12345678"), InstanceType: "t3.micro", MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: aws.String(subnetID),
			SecurityGroupIds: []string{group}, PrivateIpAddress: &ip,
			TagSpecifications: []types.TagSpecification{{ResourceType: "instance", Tags: []types.Tag{{Key: aws.String("Name"), Value: &name}}}},
		})
		must(t, out, err)
		return aws.ToString(out.Instances[0].InstanceId)
	}
	names := map[string]string{launch("a", web, "10.0.0.10"): "a", launch("b", db, "10.0.0.11"): "b", launch("a*", web, "10.0.0.12"): "a*"}
	if _, err := c.StopInstances(f.ctx, &awsec2.StopInstancesInput{InstanceIds: []string{idOf(names, "b")}}); err != nil {
		t.Fatal(err)
	}
	nics, err := c.DescribeNetworkInterfaces(f.ctx, &awsec2.DescribeNetworkInterfacesInput{Filters: filters("addresses.private-ip-address=10.0.0.11")})
	must(t, nics, err)
	nicOfB := aws.ToString(nics.NetworkInterfaces[0].NetworkInterfaceId)
	for _, q := range []struct{ filter, want string }{
		{"vpc-id=" + defaultID, "a a* b"}, {"vpc-id=vpc-1,vpc-2", ""}, {"subnet-id=" + subnetID, "a a* b"},
		{"tag:Name=a", "a"}, {"tag:Name=a*", "a a*"}, {`tag:Name=a\*`, "a*"}, {"tag:Name=?", "a b"}, {"tag:Name=A", ""}, {"tag:name=a", ""},
		{"tag-key=Name", "a a* b"}, {"tag-key=x", ""},
		{"instance-state-name=running", "a a*"}, {"instance-state-code=80", "b"}, {"instance-state-name=running,stopped", "a a* b"},
		{"instance.group-id=" + web, "a a*"}, {"network-interface.group-id=" + db, "b"}, {"instance.group-name=web tag:Name=a", "a"},
		{"private-ip-address=10.0.0.11", "b"}, {"network-interface.addresses.private-ip-address=10.0.0.1?", "a a* b"},
		{"network-interface.network-interface-id=" + nicOfB, "b"}, {"instance-id=" + idOf(names, "a"), "a"},
		{"tag:Name=a,b instance-state-name=stopped", "b"},
	} {
		out, err := c.DescribeInstances(f.ctx, &awsec2.DescribeInstancesInput{Filters: filters(q.filter)})
		must(t, out, err)
		var got []string
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				got = append(got, names[aws.ToString(i.InstanceId)])
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != q.want {
			t.Errorf("%s: %q, want %q", q.filter, got, q.want)
		}
	}
	for _, q := range []struct {
		filter string
		want   int
	}{
		{"attachment.instance-id=" + idOf(names, "a"), 1}, {"group-id=" + web, 2}, {"status=in-use", 3}, {"status=available", 0},
		{"requester-managed=false", 3}, {"interface-type=interface", 3}, {"private-ip-address=10.0.0.10", 1}, {"tag:x=y", 0}, {"vpc-id=" + defaultID, 3},
	} {
		out, err := c.DescribeNetworkInterfaces(f.ctx, &awsec2.DescribeNetworkInterfacesInput{Filters: filters(q.filter)})
		must(t, out, err)
		if len(out.NetworkInterfaces) != q.want {
			t.Errorf("%s: %d interfaces, want %d", q.filter, len(out.NetworkInterfaces), q.want)
		}
	}
}

func idOf(names map[string]string, name string) string {
	for id, n := range names {
		if n == name {
			return id
		}
	}
	return ""
}

func TestGroupFilters(t *testing.T) {
	f := start(t, sim.Options{})
	c := f.client()
	a, b := f.group(t, c, "aa"), f.group(t, c, "bb")
	permission := tcp(80, 90, "10.2.0.0/16")
	permission.UserIdGroupPairs = []types.UserIdGroupPair{{GroupId: &b}}
	for _, p := range []types.IpPermission{permission, tcp(443, 443, "2001:db8::/32")} {
		if _, err := c.AuthorizeSecurityGroupIngress(f.ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: &a, IpPermissions: []types.IpPermission{p}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []struct{ filter, want string }{
		{"group-name=aa,default", "aa default"}, {"vpc-id=" + defaultID, "aa bb default"}, {"group-id=" + b, "bb"}, {"owner-id=" + other, ""},
		{"description=made*", "aa bb"}, {"ip-permission.cidr=10.2.0.0/16", "aa"}, {"ip-permission.group-id=" + b, "aa"},
		// The two conditions are met by two different rules.
		{"ip-permission.from-port=443 ip-permission.cidr=10.2.0.0/16", "aa"},
		{"ip-permission.ipv6-cidr=2001:db8::/32 ip-permission.protocol=tcp ip-permission.to-port=90", "aa"},
		{"egress.ip-permission.cidr=0.0.0.0/0", "aa bb default"}, {"egress.ip-permission.cidr=10.2.0.0/16", ""}, {"egress.ip-permission.protocol=-1 group-name=bb", "bb"},
	} {
		out, err := c.DescribeSecurityGroups(f.ctx, &awsec2.DescribeSecurityGroupsInput{Filters: filters(q.filter)})
		must(t, out, err)
		var got []string
		for _, g := range out.SecurityGroups {
			got = append(got, aws.ToString(g.GroupName))
		}
		slices.Sort(got)
		if strings.Join(got, " ") != q.want {
			t.Errorf("%s: %q, want %q", q.filter, got, q.want)
		}
	}
	named, err := c.DescribeSecurityGroups(f.ctx, &awsec2.DescribeSecurityGroupsInput{GroupNames: []string{"bb"}, GroupIds: []string{a}})
	must(t, named, err)
	if len(named.SecurityGroups) != 2 {
		t.Errorf("by name and by id: %d groups", len(named.SecurityGroups))
	}
}

// TestUnknownFilters asks every describe action for something it cannot filter by.
func TestUnknownFilters(t *testing.T) {
	f := start(t, sim.Options{})
	c := f.client()
	unknown := filters("colour=red")
	for name, call := range map[string]func() error{
		"regions": func() error {
			_, err := c.DescribeRegions(f.ctx, &awsec2.DescribeRegionsInput{Filters: unknown})
			return err
		},
		"zones": func() error {
			_, err := c.DescribeAvailabilityZones(f.ctx, &awsec2.DescribeAvailabilityZonesInput{Filters: unknown})
			return err
		},
		"vpcs": func() error { _, err := c.DescribeVpcs(f.ctx, &awsec2.DescribeVpcsInput{Filters: unknown}); return err },
		"subnets": func() error {
			_, err := c.DescribeSubnets(f.ctx, &awsec2.DescribeSubnetsInput{Filters: unknown})
			return err
		},
		"instances": func() error {
			_, err := c.DescribeInstances(f.ctx, &awsec2.DescribeInstancesInput{Filters: unknown})
			return err
		},
		"interfaces": func() error {
			_, err := c.DescribeNetworkInterfaces(f.ctx, &awsec2.DescribeNetworkInterfacesInput{Filters: unknown})
			return err
		},
		"groups": func() error {
			_, err := c.DescribeSecurityGroups(f.ctx, &awsec2.DescribeSecurityGroupsInput{Filters: unknown})
			return err
		},
		"rules": func() error {
			_, err := c.DescribeSecurityGroupRules(f.ctx, &awsec2.DescribeSecurityGroupRulesInput{Filters: unknown})
			return err
		},
		"peerings": func() error {
			_, err := c.DescribeVpcPeeringConnections(f.ctx, &awsec2.DescribeVpcPeeringConnectionsInput{Filters: unknown})
			return err
		},
		"tags": func() error { _, err := c.DescribeTags(f.ctx, &awsec2.DescribeTagsInput{Filters: unknown}); return err },
		"prefix lists": func() error {
			_, err := c.DescribeManagedPrefixLists(f.ctx, &awsec2.DescribeManagedPrefixListsInput{Filters: unknown})
			return err
		},
	} {
		if err := call(); code(t, err) != "InvalidParameterValue" || !strings.Contains(err.Error(), "The filter 'colour' is invalid") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var many []string
	for n := range 201 {
		many = append(many, fmt.Sprint(n))
	}
	if _, err := c.DescribeVpcs(f.ctx, &awsec2.DescribeVpcsInput{Filters: []types.Filter{{Name: aws.String("vpc-id"), Values: many}}}); code(t, err) != "FilterLimitExceeded" {
		t.Errorf("201 values: %v", err)
	}
}

func TestPaging(t *testing.T) {
	f := start(t, sim.Options{})
	c := f.client()
	var want []string
	for n := range 23 {
		want = append(want, f.group(t, c, fmt.Sprintf("p%02d", n)))
	}
	pages := awsec2.NewDescribeSecurityGroupsPaginator(c, &awsec2.DescribeSecurityGroupsInput{
		MaxResults: aws.Int32(5), Filters: filters("group-name=p*"),
	})
	var got []string
	n := 0
	for ; pages.HasMorePages(); n++ {
		page, err := pages.NextPage(f.ctx)
		must(t, page, err)
		for _, g := range page.SecurityGroups {
			got = append(got, aws.ToString(g.GroupId))
		}
	}
	slices.Sort(want)
	if !slices.Equal(got, want) || n != 5 {
		t.Errorf("%d pages hold %d groups, want %d", n, len(got), len(want))
	}
	whole, err := c.DescribeSecurityGroups(f.ctx, &awsec2.DescribeSecurityGroupsInput{})
	must(t, whole, err)
	if len(whole.SecurityGroups) != 24 || whole.NextToken != nil {
		t.Errorf("without MaxResults: %d groups, token %v", len(whole.SecurityGroups), whole.NextToken)
	}
	ids := f.run(t, c, 12)
	machines := awsec2.NewDescribeInstancesPaginator(c, &awsec2.DescribeInstancesInput{MaxResults: aws.Int32(5)})
	var seen []string
	for n = 0; machines.HasMorePages(); n++ {
		page, err := machines.NextPage(f.ctx)
		must(t, page, err)
		for _, r := range page.Reservations {
			for _, i := range r.Instances {
				seen = append(seen, aws.ToString(i.InstanceId))
			}
		}
	}
	slices.Sort(ids)
	if !slices.Equal(seen, ids) || n != 3 {
		t.Errorf("%d pages hold %d of %d instances", n, len(seen), len(ids))
	}
	nics := awsec2.NewDescribeNetworkInterfacesPaginator(c, &awsec2.DescribeNetworkInterfacesInput{MaxResults: aws.Int32(7)})
	for n = 0; nics.HasMorePages(); n++ {
		must(t, 0, func() error { _, err := nics.NextPage(f.ctx); return err }())
	}
	if n != 2 {
		t.Errorf("12 interfaces by 7 are %d pages", n)
	}
	tags := awsec2.NewDescribeTagsPaginator(c, &awsec2.DescribeTagsInput{MaxResults: aws.Int32(5)})
	for n = 0; tags.HasMorePages(); n++ {
		must(t, 0, func() error { _, err := tags.NextPage(f.ctx); return err }())
	}
	if n != 1 {
		t.Errorf("the few tags are %d pages", n)
	}
}

func TestPageSizes(t *testing.T) {
	f := start(t, sim.Options{})
	c := f.client()
	for range 6 {
		f.run(t, c, 1)
	}
	groups := func(in awsec2.DescribeSecurityGroupsInput) (*awsec2.DescribeSecurityGroupsOutput, error) {
		return c.DescribeSecurityGroups(f.ctx, &in)
	}
	for size, want := range map[int32]string{4: "InvalidParameterValue", 5: "", 1000: "", 1001: "InvalidParameterValue", 0: "InvalidParameterValue", -1: "InvalidParameterValue"} {
		if _, err := groups(awsec2.DescribeSecurityGroupsInput{MaxResults: &size}); code(t, err) != want {
			t.Errorf("MaxResults %d: %v", size, err)
		}
	}
	if _, err := c.DescribeManagedPrefixLists(f.ctx, &awsec2.DescribeManagedPrefixListsInput{MaxResults: aws.Int32(101)}); code(t, err) != "InvalidParameterValue" {
		t.Errorf("101 prefix lists: %v", err)
	}
	instances, err := c.DescribeInstances(f.ctx, &awsec2.DescribeInstancesInput{MaxResults: aws.Int32(5)})
	must(t, instances, err)
	id := aws.ToString(instances.Reservations[0].Instances[0].InstanceId)
	_, err = c.DescribeInstances(f.ctx, &awsec2.DescribeInstancesInput{MaxResults: aws.Int32(5), InstanceIds: []string{id}})
	if code(t, err) != "InvalidParameterCombination" || !strings.Contains(err.Error(), "The parameter instancesSet cannot be used with the parameter maxResults") {
		t.Errorf("ids and pages of instances: %v", err)
	}
	_, err = c.DescribeNetworkInterfaces(f.ctx, &awsec2.DescribeNetworkInterfacesInput{MaxResults: aws.Int32(5), NetworkInterfaceIds: []string{"eni-00000000"}})
	if code(t, err) != "InvalidParameterCombination" {
		t.Errorf("ids and pages of interfaces: %v", err)
	}
	for name, in := range map[string]*awsec2.DescribeInstancesInput{
		"another request": {NextToken: instances.NextToken, Filters: filters("vpc-id=x")},
		"no token":        {NextToken: aws.String("nonsense")},
	} {
		if _, err := c.DescribeInstances(f.ctx, in); code(t, err) != "InvalidNextToken" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEveryFilter asks for each thing by each of its own attributes, and by another value of the
// same attribute.
func TestEveryFilter(t *testing.T) {
	f := start(t, sim.Options{})
	c := f.client()
	for what, ask := range map[string]struct {
		filters []string
		count   func([]types.Filter) (int, error)
	}{
		"vpcs": {[]string{
			"vpc-id=" + defaultID, "owner-id=" + home, "state=available", "is-default=true", "cidr=10.0.0.0/16", "dhcp-options-id=dopt-00000001",
			"cidr-block-association.cidr-block=10.0.0.0/16", "cidr-block-association.association-id=vpc-cidr-assoc-1",
			"ipv6-cidr-block-association.ipv6-cidr-block=2001:db8:1::/64", "ipv6-cidr-block-association.association-id=vpc-cidr-assoc-2",
			"tag:Name=first", "tag-key=empty", "tag-value=first",
		}, func(fs []types.Filter) (int, error) {
			out, err := c.DescribeVpcs(f.ctx, &awsec2.DescribeVpcsInput{Filters: fs})
			if err != nil {
				return 0, err
			}
			return len(out.Vpcs), nil
		}},
		"subnets": {[]string{
			"subnet-id=" + subnetID, "subnet-arn=arn:aws:ec2:" + region + ":" + home + ":subnet/" + subnetID, "vpc-id=" + defaultID, "owner-id=" + home,
			"state=available", "availability-zone=eu-west-1a", "availability-zone-id=euw1-az1", "cidr-block=10.0.0.0/16", "default-for-az=true",
			"available-ip-address-count=65531", "map-public-ip-on-launch=true", "ipv6-cidr-block-association.ipv6-cidr-block=2001:db8:1::/64",
		}, func(fs []types.Filter) (int, error) {
			out, err := c.DescribeSubnets(f.ctx, &awsec2.DescribeSubnetsInput{Filters: fs})
			if err != nil {
				return 0, err
			}
			return len(out.Subnets), nil
		}},
		"peerings": {[]string{
			"vpc-peering-connection-id=" + peeringID, "status-code=active", "status-message=Active", "requester-vpc-info.vpc-id=" + defaultID,
			"requester-vpc-info.owner-id=" + home, "requester-vpc-info.cidr-block=10.0.0.0/16", "accepter-vpc-info.vpc-id=" + otherVPC,
			"accepter-vpc-info.owner-id=" + other, "accepter-vpc-info.cidr-block=10.1.0.0/16", "tag:Name=bridge",
		}, func(fs []types.Filter) (int, error) {
			out, err := c.DescribeVpcPeeringConnections(f.ctx, &awsec2.DescribeVpcPeeringConnectionsInput{Filters: fs})
			if err != nil {
				return 0, err
			}
			return len(out.VpcPeeringConnections), nil
		}},
		"zones": {[]string{"zone-name=eu-west-1b", "zone-id=euw1-az2"}, func(fs []types.Filter) (int, error) {
			out, err := c.DescribeAvailabilityZones(f.ctx, &awsec2.DescribeAvailabilityZonesInput{Filters: fs})
			if err != nil {
				return 0, err
			}
			return len(out.AvailabilityZones), nil
		}},
		"regions": {[]string{"region-name=us-east-1", "endpoint=ec2.us-east-1.amazonaws.com"}, func(fs []types.Filter) (int, error) {
			out, err := c.DescribeRegions(f.ctx, &awsec2.DescribeRegionsInput{Filters: fs})
			if err != nil {
				return 0, err
			}
			return len(out.Regions), nil
		}},
		"tags": {[]string{"key=Name", "value=first", "tag:Name=first"}, func(fs []types.Filter) (int, error) {
			out, err := c.DescribeTags(f.ctx, &awsec2.DescribeTagsInput{Filters: append(fs, filters("resource-id="+defaultID)...)})
			if err != nil {
				return 0, err
			}
			return len(out.Tags), nil
		}},
	} {
		for _, filter := range ask.filters {
			if n, err := ask.count(filters(filter)); n != 1 || err != nil {
				t.Errorf("%s by %s: %d, %v", what, filter, n, err)
			}
			name, _, _ := strings.Cut(filter, "=")
			if n, err := ask.count(filters(name + "=no-such-value")); n != 0 || err != nil {
				t.Errorf("%s by another %s: %d, %v", what, name, n, err)
			}
		}
	}
}
