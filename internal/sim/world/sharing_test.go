package world_test

import (
	"reflect"
	"testing"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/world"
	"github.com/nephele-io/nephele/internal/sim/world/worldtest"
)

// sharedVPC is a world with a VPC of one account, one of whose two subnets another account may use.
func sharedVPC(t *testing.T) (w *world.World, owner, participant *world.Region, vpc aws.VPC, subnet aws.Subnet) {
	t.Helper()
	region := func(w *world.World, account string) *world.Region {
		return worldtest.Must[*world.Region](t)(w.Region(account, "eu-west-1"))
	}
	s := aws.State{Accounts: []aws.Account{{ID: "111111111111", Regions: []string{"eu-west-1"}}, {ID: "222222222222", Regions: []string{"eu-west-1"}}}}
	w = worldtest.Must[*world.World](t)(world.New(s, world.Options{}))
	owner = region(w, "111111111111")
	vpc = worldtest.Must[aws.VPC](t)(owner.Networks().CreateVPC(aws.CreateVPCInput{CIDR: "10.1.0.0/16", Tags: aws.Tags{"Name": "shared"}}))
	worldtest.Must[aws.Subnet](t)(owner.Networks().CreateSubnet(aws.CreateSubnetInput{VPCID: vpc.ID, CIDR: "10.1.1.0/24"}))
	subnet = worldtest.Must[aws.Subnet](t)(owner.Networks().CreateSubnet(aws.CreateSubnetInput{VPCID: vpc.ID, CIDR: "10.1.2.0/24"}))
	s = w.State()
	for r := range s.Regions {
		for i := range s.Regions[r].Subnets {
			if x := &s.Regions[r].Subnets[i]; x.ID == subnet.ID {
				x.SharedWith = []string{"222222222222"}
			}
		}
	}
	w = worldtest.Must[*world.World](t)(world.New(s, world.Options{}))
	return w, region(w, "111111111111"), region(w, "222222222222"), vpc, subnet
}

// TestSharedVPC: what owner and participant of a shared subnet see, may and may not do.
func TestSharedVPC(t *testing.T) {
	w, owner, participant, vpc, subnet := sharedVPC(t)
	vpcs := worldtest.Must[[]aws.VPC](t)(participant.VPCs())
	subnets := worldtest.Must[[]aws.Subnet](t)(participant.Subnets())
	if len(vpcs) != 1 || vpcs[0].ID != vpc.ID || vpcs[0].Account != "111111111111" || len(vpcs[0].Tags) != 0 || len(subnets) != 1 || subnets[0].ID != subnet.ID {
		t.Fatalf("the participant sees %+v and %+v", vpcs, subnets)
	}
	if groups := worldtest.Must[[]aws.SecurityGroup](t)(participant.SecurityGroups()); len(groups) != 0 {
		t.Errorf("the participant sees the owner's groups: %+v", groups)
	}
	_, err := participant.Networks().CreateSubnet(aws.CreateSubnetInput{VPCID: vpc.ID, CIDR: "10.1.3.0/24"})
	worldtest.WantRefusal(t, "a subnet in the owner's VPC", err, "UnauthorizedOperation", "")

	mine := worldtest.Must[aws.SecurityGroup](t)(participant.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: "mine", Description: "d", VPCID: vpc.ID, Tags: aws.Tags{"a": "1"}}))
	theirs := worldtest.Must[aws.SecurityGroup](t)(owner.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: "mine", Description: "d", VPCID: vpc.ID}))
	run := func(r *world.Region, g string) aws.NetworkInterface {
		t.Helper()
		out := worldtest.Must[aws.Reservation](t)(r.InstanceCalls().RunInstances(aws.RunInstancesInput{ImageID: "ami-0", MinCount: 1, MaxCount: 1, SubnetID: subnet.ID, GroupIDs: []string{g}}))
		return out.Instances[0].NetworkInterfaces[0]
	}
	_, err = participant.InstanceCalls().RunInstances(aws.RunInstancesInput{ImageID: "ami-0", MinCount: 1, MaxCount: 1, SubnetID: subnet.ID, GroupIDs: []string{theirs.ID}})
	worldtest.WantRefusal(t, "a group of the owner", err, "InvalidGroup.NotFound", "")
	a, b := run(owner, theirs.ID), run(participant, mine.ID)
	if a.PrimaryIP().Addr == b.PrimaryIP().Addr {
		t.Errorf("both got %s", a.PrimaryIP().Addr)
	}
	if err := participant.CreateTags([]string{b.ID, vpc.ID}, []aws.Tag{{Key: "who", Value: "participant"}}); err != nil {
		t.Fatal(err)
	}
	if err := owner.CreateTags([]string{vpc.ID}, []aws.Tag{{Key: "who", Value: "owner"}}); err != nil {
		t.Fatal(err)
	}

	// The owner sees what the participant has, without its tags, and cannot change it.
	nic := worldtest.Must[[]aws.NetworkInterface](t)(owner.NetworkInterfaces(b.ID))[0]
	group := worldtest.Must[[]aws.SecurityGroup](t)(owner.SecurityGroups(mine.ID))[0]
	if nic.Account != "222222222222" || len(nic.Tags) != 0 || group.Account != "222222222222" || len(group.Tags) != 0 {
		t.Errorf("the owner sees %+v and %+v", nic, group)
	}
	if instances := worldtest.Must[[]aws.Instance](t)(owner.Instances()); len(instances) != 1 {
		t.Errorf("the owner sees %d instances, want its own", len(instances))
	}
	worldtest.WantRefusal(t, "the participant's interface", owner.Interfaces().ModifyNetworkInterfaceGroups(b.ID, []string{theirs.ID}), "InvalidNetworkInterfaceID.NotFound", "")
	_, err = owner.Groups().DeleteSecurityGroup(mine.ID, "")
	worldtest.WantRefusal(t, "the participant's group", err, "InvalidGroup.NotFound", "")
	_, err = participant.NetworkInterfaces(a.ID)
	worldtest.WantRefusal(t, "the owner's interface", err, "InvalidNetworkInterfaceID.NotFound", "")

	// References across the accounts hold, and groups that are referred to stay.
	from := aws.Permission{Protocol: "-1", Groups: []aws.GroupRef{{GroupID: theirs.ID, UserID: "111111111111"}}}
	worldtest.Must[[]aws.SecurityGroupRule](t)(participant.Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: mine.ID, Permissions: []aws.Permission{from}}))
	v, err := w.Allowed(packet.Flow{Src: packet.End{NIC: a.ID}, Dst: packet.End{NIC: b.ID}, Protocol: 6, Port: 443})
	if err != nil || !v.Allowed {
		t.Errorf("%+v, %v", v, err)
	}
	spare := worldtest.Must[aws.SecurityGroup](t)(owner.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: "spare", Description: "d", VPCID: vpc.ID}))
	from.Groups[0].GroupID = spare.ID
	worldtest.Must[[]aws.SecurityGroupRule](t)(participant.Groups().AuthorizeSecurityGroup(aws.AuthorizeInput{GroupID: mine.ID, Permissions: []aws.Permission{from}}))
	_, err = owner.Groups().DeleteSecurityGroup(spare.ID, "")
	worldtest.WantRefusal(t, "a group that the participant refers to", err, "DependencyViolation", "")

	// All of it is kept.
	again := worldtest.Must[*world.World](t)(world.New(w.State(), world.Options{}))
	if !reflect.DeepEqual(w.State(), again.State()) {
		t.Error("the state does not come back")
	}
	for account, who := range map[string]string{"111111111111": "owner", "222222222222": "participant"} {
		seen := worldtest.Must[[]aws.VPC](t)(worldtest.Must[*world.Region](t)(again.Region(account, "eu-west-1")).VPCs(vpc.ID))[0].Tags
		if seen["who"] != who {
			t.Errorf("%s sees the tags %v", who, seen)
		}
	}
}
