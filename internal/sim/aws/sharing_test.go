package aws

import (
	"reflect"
	"testing"
)

// sharedVPC is a world with a VPC of one account, one of whose two subnets another account may use.
func sharedVPC(t *testing.T) (w *World, owner, participant *Region, vpc VPC, subnet Subnet) {
	t.Helper()
	region := func(w *World, account string) *Region { return must[*Region](t)(w.Region(account, "eu-west-1")) }
	s := State{Accounts: []Account{{ID: "111111111111", Regions: []string{"eu-west-1"}}, {ID: "222222222222", Regions: []string{"eu-west-1"}}}}
	w = must[*World](t)(New(s, Options{}))
	owner = region(w, "111111111111")
	vpc = must[VPC](t)(Networks{owner.site}.CreateVPC(CreateVPCInput{CIDR: "10.1.0.0/16", Tags: Tags{"Name": "shared"}}))
	must[Subnet](t)(Networks{owner.site}.CreateSubnet(CreateSubnetInput{VPCID: vpc.ID, CIDR: "10.1.1.0/24"}))
	subnet = must[Subnet](t)(Networks{owner.site}.CreateSubnet(CreateSubnetInput{VPCID: vpc.ID, CIDR: "10.1.2.0/24"}))
	s = w.State()
	for r := range s.Regions {
		for i := range s.Regions[r].Subnets {
			if x := &s.Regions[r].Subnets[i]; x.ID == subnet.ID {
				x.SharedWith = []string{"222222222222"}
			}
		}
	}
	w = must[*World](t)(New(s, Options{}))
	return w, region(w, "111111111111"), region(w, "222222222222"), vpc, subnet
}

// TestSharedVPC: what owner and participant of a shared subnet see, may and may not do.
func TestSharedVPC(t *testing.T) {
	w, owner, participant, vpc, subnet := sharedVPC(t)
	vpcs := must[[]VPC](t)(participant.VPCs())
	subnets := must[[]Subnet](t)(participant.Subnets())
	if len(vpcs) != 1 || vpcs[0].ID != vpc.ID || vpcs[0].Account != "111111111111" || len(vpcs[0].Tags) != 0 || len(subnets) != 1 || subnets[0].ID != subnet.ID {
		t.Fatalf("the participant sees %+v and %+v", vpcs, subnets)
	}
	if groups := must[[]SecurityGroup](t)(participant.SecurityGroups()); len(groups) != 0 {
		t.Errorf("the participant sees the owner's groups: %+v", groups)
	}
	_, err := Networks{participant.site}.CreateSubnet(CreateSubnetInput{VPCID: vpc.ID, CIDR: "10.1.3.0/24"})
	wantRefusal(t, "a subnet in the owner's VPC", err, "UnauthorizedOperation", "")

	mine := must[SecurityGroup](t)(Groups{participant.site}.CreateSecurityGroup(CreateSecurityGroupInput{Name: "mine", Description: "d", VPCID: vpc.ID, Tags: Tags{"a": "1"}}))
	theirs := must[SecurityGroup](t)(Groups{owner.site}.CreateSecurityGroup(CreateSecurityGroupInput{Name: "mine", Description: "d", VPCID: vpc.ID}))
	run := func(r *Region, g string) NetworkInterface {
		t.Helper()
		out := must[Reservation](t)(InstanceCalls{r.site}.RunInstances(RunInstancesInput{ImageID: "ami-0", MinCount: 1, MaxCount: 1, SubnetID: subnet.ID, GroupIDs: []string{g}}))
		return out.Instances[0].NetworkInterfaces[0]
	}
	_, err = InstanceCalls{participant.site}.RunInstances(RunInstancesInput{ImageID: "ami-0", MinCount: 1, MaxCount: 1, SubnetID: subnet.ID, GroupIDs: []string{theirs.ID}})
	wantRefusal(t, "a group of the owner", err, "InvalidGroup.NotFound", "")
	a, b := run(owner, theirs.ID), run(participant, mine.ID)
	if a.PrimaryIP().Addr == b.PrimaryIP().Addr {
		t.Errorf("both got %s", a.PrimaryIP().Addr)
	}
	if err := participant.CreateTags([]string{b.ID, vpc.ID}, []Tag{{"who", "participant"}}); err != nil {
		t.Fatal(err)
	}
	if err := owner.CreateTags([]string{vpc.ID}, []Tag{{"who", "owner"}}); err != nil {
		t.Fatal(err)
	}

	// The owner sees what the participant has, without its tags, and cannot change it.
	nic := must[[]NetworkInterface](t)(owner.NetworkInterfaces(b.ID))[0]
	group := must[[]SecurityGroup](t)(owner.SecurityGroups(mine.ID))[0]
	if nic.Account != "222222222222" || len(nic.Tags) != 0 || group.Account != "222222222222" || len(group.Tags) != 0 {
		t.Errorf("the owner sees %+v and %+v", nic, group)
	}
	if instances := must[[]Instance](t)(owner.Instances()); len(instances) != 1 {
		t.Errorf("the owner sees %d instances, want its own", len(instances))
	}
	wantRefusal(t, "the participant's interface", Interfaces{owner.site}.ModifyNetworkInterfaceGroups(b.ID, []string{theirs.ID}), "InvalidNetworkInterfaceID.NotFound", "")
	_, err = Groups{owner.site}.DeleteSecurityGroup(mine.ID, "")
	wantRefusal(t, "the participant's group", err, "InvalidGroup.NotFound", "")
	_, err = participant.NetworkInterfaces(a.ID)
	wantRefusal(t, "the owner's interface", err, "InvalidNetworkInterfaceID.NotFound", "")

	// References across the accounts hold, and groups that are referred to stay.
	from := Permission{Protocol: "-1", Groups: []GroupRef{{GroupID: theirs.ID, UserID: "111111111111"}}}
	must[[]SecurityGroupRule](t)(Groups{participant.site}.AuthorizeSecurityGroup(AuthorizeInput{GroupID: mine.ID, Permissions: []Permission{from}}))
	v, err := w.Allowed(Flow{Src: End{NIC: a.ID}, Dst: End{NIC: b.ID}, Protocol: 6, Port: 443})
	if err != nil || !v.Allowed {
		t.Errorf("%+v, %v", v, err)
	}
	spare := must[SecurityGroup](t)(Groups{owner.site}.CreateSecurityGroup(CreateSecurityGroupInput{Name: "spare", Description: "d", VPCID: vpc.ID}))
	from.Groups[0].GroupID = spare.ID
	must[[]SecurityGroupRule](t)(Groups{participant.site}.AuthorizeSecurityGroup(AuthorizeInput{GroupID: mine.ID, Permissions: []Permission{from}}))
	_, err = Groups{owner.site}.DeleteSecurityGroup(spare.ID, "")
	wantRefusal(t, "a group that the participant refers to", err, "DependencyViolation", "")

	// All of it is kept.
	again := must[*World](t)(New(w.State(), Options{}))
	if !reflect.DeepEqual(w.State(), again.State()) {
		t.Error("the state does not come back")
	}
	for account, who := range map[string]string{"111111111111": "owner", "222222222222": "participant"} {
		seen := must[[]VPC](t)(must[*Region](t)(again.Region(account, "eu-west-1")).VPCs(vpc.ID))[0].Tags
		if seen["who"] != who {
			t.Errorf("%s sees the tags %v", who, seen)
		}
	}
}
