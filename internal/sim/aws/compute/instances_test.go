package compute_test

import (
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/world"
	"github.com/nephele-io/nephele/internal/sim/world/worldtest"
)

func TestInterfaceGroups(t *testing.T) {
	b := worldtest.New(t, world.Options{})
	web := b.Group("web")
	other := worldtest.Must[aws.VPC](t)(b.Region.Networks().CreateVPC(aws.CreateVPCInput{CIDR: "10.5.0.0/16"}))
	foreign := worldtest.Must[aws.SecurityGroup](t)(b.Region.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: "far", Description: "d", VPCID: other.ID})).ID
	one := b.Run(aws.RunInstancesInput{})
	two := b.Run(aws.RunInstancesInput{Interfaces: []aws.InterfaceSpec{{SubnetID: b.Subnets[0].ID, GroupIDs: []string{web}, IPv6Count: 1},
		{DeviceIndex: 1, SubnetID: b.Subnets[1].ID, SecondaryIPs: []string{"10.0.1.77"}, KeepOnTermination: true}}})
	if one.NetworkInterfaces[0].Groups[0].Name != "default" || len(two.NetworkInterfaces) != 2 || len(two.NetworkInterfaces[0].IPv6) != 1 ||
		len(two.NetworkInterfaces[1].PrivateIPs) != 2 {
		t.Fatalf("one: %+v\ntwo: %+v", one, two)
	}
	nic := one.NetworkInterfaces[0].ID
	set := b.Region.Interfaces().ModifyNetworkInterfaceGroups
	worldtest.WantRefusal(t, "no group", set(nic, nil), "InvalidParameterValue", "")
	worldtest.WantRefusal(t, "group of another VPC", set(nic, []string{foreign}), "InvalidParameterValue", "different networks")
	worldtest.WantRefusal(t, "unknown group", set(nic, []string{"sg-00000000"}), "InvalidGroup.NotFound", "")
	worldtest.WantRefusal(t, "unknown interface", set("eni-00000000", []string{web}), "InvalidNetworkInterfaceID.NotFound", "The networkInterface ID 'eni-00000000' does not exist")
	if err := set(nic, []string{web, web}); err != nil {
		t.Fatal(err)
	}
	if g := worldtest.Must[[]aws.NetworkInterface](t)(b.Region.NetworkInterfaces(nic))[0].Groups; len(g) != 1 || g[0].ID != web {
		t.Errorf("groups %v", g)
	}
	if err := b.Region.Interfaces().ModifyInstanceGroups(one.ID, []string{web}); err != nil {
		t.Error(err)
	}
	worldtest.WantRefusal(t, "two interfaces", b.Region.Interfaces().ModifyInstanceGroups(two.ID, []string{web}), "InvalidInstanceID", "multiple interfaces")
	for what, in := range map[string]aws.RunInstancesInput{
		"InvalidParameter":            {SubnetID: b.Subnets[0].ID, GroupIDs: []string{foreign}},
		"InvalidSubnetID.NotFound":    {SubnetID: "subnet-00000000"},
		"InvalidIPAddress.InUse":      {SubnetID: b.Subnets[1].ID, PrivateIP: "10.0.1.77"},
		"InvalidParameterValue":       {SubnetID: b.Subnets[1].ID, PrivateIP: "10.0.0.77"},
		"InvalidParameterCombination": {SubnetID: b.Subnets[1].ID, Interfaces: []aws.InterfaceSpec{{}}},
	} {
		in.ImageID, in.MinCount, in.MaxCount = "ami-0", 1, 1
		_, err := b.Region.InstanceCalls().RunInstances(in)
		worldtest.WantRefusal(t, what, err, what, "")
	}
}

func TestPowerStates(t *testing.T) {
	b := worldtest.New(t, world.Options{TransitionDelay: time.Minute})
	state := func(id string) string {
		t.Helper()
		return worldtest.Must[[]aws.Instance](t)(b.Region.Instances(id))[0].State.String()
	}
	public := true
	i := b.Run(
		aws.RunInstancesInput{Interfaces: []aws.InterfaceSpec{{SubnetID: b.Subnets[0].ID, AssociatePublicIP: &public}, {DeviceIndex: 1, SubnetID: b.Subnets[1].ID, KeepOnTermination: true}},
			ClientToken: "t1", Tags: map[string]aws.Tags{"instance": {"Name": "x"}, "network-interface": {"Name": "x-nic"}}},
	)
	if i.State != aws.Pending || state(i.ID) != "pending" || i.Tags["Name"] != "x" || i.NetworkInterfaces[0].Tags["Name"] != "x-nic" {
		t.Fatalf("launched %+v", i)
	}
	b.Clock.Advance(time.Minute)
	if state(i.ID) != "running" {
		t.Errorf("after a minute: %s", state(i.ID))
	}
	change := worldtest.Must[[]aws.StateChange](t)(b.Region.InstanceCalls().StopInstances([]string{i.ID}, false))[0]
	if change.Previous != aws.Running || change.Current != aws.Stopping {
		t.Errorf("stop: %+v", change)
	}
	_, err := b.Region.InstanceCalls().StartInstances([]string{i.ID})
	worldtest.WantRefusal(t, "start while stopping", err, "IncorrectInstanceState", "The instance '"+i.ID+"' is not in a state from which it can be started.")
	b.Clock.Advance(time.Minute)
	stopped := worldtest.Must[[]aws.Instance](t)(b.Region.Instances(i.ID))[0]
	if stopped.State != aws.Stopped || stopped.Primary().PrimaryIP().Public.IsValid() || len(stopped.NetworkInterfaces) != 2 {
		t.Errorf("stopped: %+v", stopped)
	}
	worldtest.Must[[]aws.StateChange](t)(b.Region.InstanceCalls().StartInstances([]string{i.ID}))
	if !worldtest.Must[[]aws.Instance](t)(b.Region.Instances(i.ID))[0].Primary().PrimaryIP().Public.IsValid() {
		t.Error("started without a public address")
	}
	worldtest.Must[[]aws.StateChange](t)(b.Region.InstanceCalls().TerminateInstances([]string{i.ID}))
	if nics := worldtest.Must[[]aws.NetworkInterface](t)(b.Region.NetworkInterfaces()); state(i.ID) != "shutting-down" || len(nics) != 2 {
		t.Errorf("shutting down: %s with %d interfaces", state(i.ID), len(nics))
	}
	b.Clock.Advance(time.Minute)
	nics := worldtest.Must[[]aws.NetworkInterface](t)(b.Region.NetworkInterfaces())
	if state(i.ID) != "terminated" || len(nics) != 1 || nics[0].Status != aws.StatusAvailable || nics[0].Attachment != nil {
		t.Errorf("terminated: %+v", nics)
	}
	again := worldtest.Must[aws.Reservation](
		t,
	)(
		b.Region.InstanceCalls().RunInstances(
			aws.RunInstancesInput{
				ImageID:     "ami-00000000",
				MinCount:    1,
				MaxCount:    1,
				ClientToken: "t1",
				Interfaces:  []aws.InterfaceSpec{{SubnetID: b.Subnets[0].ID, AssociatePublicIP: &public}, {DeviceIndex: 1, SubnetID: b.Subnets[1].ID, KeepOnTermination: true}},
				Tags:        map[string]aws.Tags{"instance": {"Name": "x"}, "network-interface": {"Name": "x-nic"}},
			},
		),
	)
	if again.Instances[0].ID != i.ID {
		t.Errorf("the same token launched %s", again.Instances[0].ID)
	}
	_, err = b.Region.InstanceCalls().RunInstances(aws.RunInstancesInput{ImageID: "ami-1", MinCount: 1, MaxCount: 1, SubnetID: b.Subnets[0].ID, ClientToken: "t1"})
	worldtest.WantRefusal(t, "same token, other parameters", err, "IdempotentParameterMismatch", "")
	b.Clock.Advance(2 * time.Hour)
	_, err = b.Region.Instances(i.ID)
	worldtest.WantRefusal(t, "an hour later", err, "InvalidInstanceID.NotFound", "The instance ID '"+i.ID+"' does not exist")
}
