package ec2_test

import (
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func (s *story) machines() {
	out, err := s.c.RunInstances(s.ctx, &awsec2.RunInstancesInput{
		ImageId: aws.String("ami-12345678"), InstanceType: "t3.micro", MinCount: aws.Int32(2), MaxCount: aws.Int32(2),
		KeyName: aws.String("key"), SubnetId: &s.subnet, SecurityGroupIds: []string{s.web},
		TagSpecifications: []types.TagSpecification{
			{ResourceType: "instance", Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("web-1")}}},
			{ResourceType: "network-interface", Tags: []types.Tag{{Key: aws.String("nic"), Value: aws.String("yes")}}},
		},
	})
	must(s.T, out, err)
	same(s.T, "first state", out.Instances[0].State.Name, types.InstanceStateNamePending)
	for _, i := range out.Instances {
		s.instances = append(s.instances, aws.ToString(i.InstanceId))
	}
	nic, err := s.c.RunInstances(s.ctx, &awsec2.RunInstancesInput{
		ImageId: aws.String("ami-12345678"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{
			DeviceIndex: aws.Int32(0), SubnetId: aws.String(subnetID), Groups: []string{groupID}, Description: aws.String("first"),
			Ipv6AddressCount: aws.Int32(1), AssociatePublicIpAddress: aws.Bool(true), DeleteOnTermination: aws.Bool(true),
			PrivateIpAddresses: []types.PrivateIpAddressSpecification{
				{PrivateIpAddress: aws.String("10.0.0.77"), Primary: aws.Bool(true)},
				{PrivateIpAddress: aws.String("10.0.0.78"), Primary: aws.Bool(false)},
			},
		}},
	})
	must(s.T, nic, err)
	s.instances = append(s.instances, aws.ToString(nic.Instances[0].InstanceId))
	running := awsec2.NewInstanceRunningWaiter(s.c)
	if err := running.Wait(s.ctx, &awsec2.DescribeInstancesInput{InstanceIds: s.instances}, time.Minute); err != nil {
		s.Fatal(err)
	}
	if err := awsec2.NewInstanceStatusOkWaiter(s.c).Wait(s.ctx, &awsec2.DescribeInstanceStatusInput{InstanceIds: s.instances}, time.Minute); err != nil {
		s.Fatal(err)
	}
	described, err := s.c.DescribeInstances(s.ctx, &awsec2.DescribeInstancesInput{InstanceIds: s.instances})
	must(s.T, described, err)
	if len(described.Reservations) != 2 {
		s.Fatalf("%d reservations, one per launch expected", len(described.Reservations))
	}
	for _, r := range described.Reservations {
		for _, i := range r.Instances {
			s.checkInstance(r, i)
		}
	}
	replaced, err := s.c.ModifyInstanceAttribute(s.ctx, &awsec2.ModifyInstanceAttributeInput{
		InstanceId: &s.instances[0], Groups: []string{s.web, s.db},
	})
	must(s.T, replaced, err)
}

func (s *story) checkInstance(r types.Reservation, i types.Instance) {
	n := i.NetworkInterfaces[0]
	same(s.T, "what an instance takes from its interface",
		[]any{i.PrivateIpAddress, i.SubnetId, i.VpcId, i.PublicIpAddress, i.SecurityGroups, aws.ToString(r.OwnerId), i.SourceDestCheck},
		[]any{n.PrivateIpAddress, n.SubnetId, n.VpcId, publicIP(n), n.Groups, home, n.SourceDestCheck})
	same(s.T, "state", *i.State, types.InstanceState{Code: aws.Int32(16), Name: "running"})
	if aws.ToString(i.InstanceId) != s.instances[2] {
		same(s.T, "tags", i.Tags, []types.Tag{{Key: aws.String("Name"), Value: aws.String("web-1")}})
		return
	}
	var private []string
	for _, p := range n.PrivateIpAddresses {
		private = append(private, aws.ToString(p.PrivateIpAddress))
	}
	same(s.T, "private addresses", private, []string{"10.0.0.77", "10.0.0.78"})
	same(s.T, "names", aws.ToString(i.PrivateDnsName), "ip-10-0-0-77.eu-west-1.compute.internal")
	if aws.ToString(i.PublicIpAddress) == "" || !strings.HasPrefix(aws.ToString(i.PublicDnsName), "ec2-") ||
		!strings.HasPrefix(aws.ToString(i.Ipv6Address), "2001:db8:1:") || len(n.Ipv6Addresses) != 1 {
		s.Errorf("addresses %+v", i)
	}
}

func publicIP(n types.InstanceNetworkInterface) *string {
	if n.Association == nil {
		return nil
	}
	return n.Association.PublicIp
}

func (s *story) interfaces() {
	described, err := s.c.DescribeNetworkInterfaces(s.ctx, &awsec2.DescribeNetworkInterfacesInput{
		Filters: []types.Filter{{Name: aws.String("attachment.instance-id"), Values: s.instances[:1]}},
	})
	must(s.T, described, err)
	n := described.NetworkInterfaces[0]
	same(s.T, "groups", n.Groups, []types.GroupIdentifier{
		{GroupId: &s.web, GroupName: aws.String("web")}, {GroupId: &s.db, GroupName: aws.String("db")},
	})
	same(s.T, "interface", []any{n.Status, n.OwnerId, n.VpcId, n.SubnetId, n.AvailabilityZone, n.RequesterManaged, n.InterfaceType, n.TagSet,
		*n.Attachment.InstanceId, *n.Attachment.InstanceOwnerId, *n.Attachment.DeviceIndex, n.Attachment.Status, *n.Attachment.DeleteOnTermination},
		[]any{types.NetworkInterfaceStatusInUse, aws.String(home), &s.vpc, &s.subnet, aws.String(region + "b"), aws.Bool(false),
			types.NetworkInterfaceTypeInterface, []types.Tag{{Key: aws.String("nic"), Value: aws.String("yes")}},
			s.instances[0], home, int32(0), types.AttachmentStatusAttached, true})
	changed, err := s.c.ModifyNetworkInterfaceAttribute(s.ctx, &awsec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceId: n.NetworkInterfaceId, Groups: []string{s.db},
	})
	must(s.T, changed, err)
	described, err = s.c.DescribeNetworkInterfaces(s.ctx, &awsec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{*n.NetworkInterfaceId}})
	must(s.T, described, err)
	same(s.T, "replaced groups", described.NetworkInterfaces[0].Groups, []types.GroupIdentifier{{GroupId: &s.db, GroupName: aws.String("db")}})
}

func (s *story) power() {
	ids := s.instances[:1]
	stopped, err := s.c.StopInstances(s.ctx, &awsec2.StopInstancesInput{InstanceIds: ids})
	must(s.T, stopped, err)
	same(s.T, "stop", stopped.StoppingInstances, []types.InstanceStateChange{{
		InstanceId: &ids[0], PreviousState: &types.InstanceState{Code: aws.Int32(16), Name: "running"},
		CurrentState: &types.InstanceState{Code: aws.Int32(64), Name: "stopping"},
	}})
	if err := awsec2.NewInstanceStoppedWaiter(s.c).Wait(s.ctx, &awsec2.DescribeInstancesInput{InstanceIds: ids}, time.Minute); err != nil {
		s.Fatal(err)
	}
	started, err := s.c.StartInstances(s.ctx, &awsec2.StartInstancesInput{InstanceIds: ids})
	must(s.T, started, err)
	same(s.T, "start", started.StartingInstances[0].CurrentState.Name, types.InstanceStateNamePending)
	ended, err := s.c.TerminateInstances(s.ctx, &awsec2.TerminateInstancesInput{InstanceIds: s.instances})
	must(s.T, ended, err)
	if err := awsec2.NewInstanceTerminatedWaiter(s.c).Wait(s.ctx, &awsec2.DescribeInstancesInput{InstanceIds: s.instances}, time.Minute); err != nil {
		s.Fatal(err)
	}
}
