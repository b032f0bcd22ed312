package aws

import (
	"testing"
	"time"
)

func TestInterfaceGroups(t *testing.T) {
	b := newBench(t, Options{})
	web := b.group("web")
	other := must[VPC](t)(b.r.Networks().CreateVPC(CreateVPCInput{CIDR: "10.5.0.0/16"}))
	foreign := must[SecurityGroup](t)(b.r.Groups().CreateSecurityGroup(CreateSecurityGroupInput{Name: "far", Description: "d", VPCID: other.ID})).ID
	one := b.run(RunInstancesInput{})
	two := b.run(RunInstancesInput{Interfaces: []InterfaceSpec{{SubnetID: b.subnet[0].ID, GroupIDs: []string{web}, IPv6Count: 1},
		{DeviceIndex: 1, SubnetID: b.subnet[1].ID, SecondaryIPs: []string{"10.0.1.77"}, KeepOnTermination: true}}})
	if one.NetworkInterfaces[0].Groups[0].Name != "default" || len(two.NetworkInterfaces) != 2 || len(two.NetworkInterfaces[0].IPv6) != 1 ||
		len(two.NetworkInterfaces[1].PrivateIPs) != 2 {
		t.Fatalf("one: %+v\ntwo: %+v", one, two)
	}
	nic := one.NetworkInterfaces[0].ID
	set := b.r.Interfaces().ModifyNetworkInterfaceGroups
	wantRefusal(t, "no group", set(nic, nil), "InvalidParameterValue", "")
	wantRefusal(t, "group of another VPC", set(nic, []string{foreign}), "InvalidParameterValue", "different networks")
	wantRefusal(t, "unknown group", set(nic, []string{"sg-00000000"}), "InvalidGroup.NotFound", "")
	wantRefusal(t, "unknown interface", set("eni-00000000", []string{web}), "InvalidNetworkInterfaceID.NotFound", "The networkInterface ID 'eni-00000000' does not exist")
	if err := set(nic, []string{web, web}); err != nil {
		t.Fatal(err)
	}
	if g := must[[]NetworkInterface](t)(b.r.NetworkInterfaces(nic))[0].Groups; len(g) != 1 || g[0].ID != web {
		t.Errorf("groups %v", g)
	}
	if err := b.r.Interfaces().ModifyInstanceGroups(one.ID, []string{web}); err != nil {
		t.Error(err)
	}
	wantRefusal(t, "two interfaces", b.r.Interfaces().ModifyInstanceGroups(two.ID, []string{web}), "InvalidInstanceID", "multiple interfaces")
	for what, in := range map[string]RunInstancesInput{
		"InvalidParameter":            {SubnetID: b.subnet[0].ID, GroupIDs: []string{foreign}},
		"InvalidSubnetID.NotFound":    {SubnetID: "subnet-00000000"},
		"InvalidIPAddress.InUse":      {SubnetID: b.subnet[1].ID, PrivateIP: "10.0.1.77"},
		"InvalidParameterValue":       {SubnetID: b.subnet[1].ID, PrivateIP: "10.0.0.77"},
		"InvalidParameterCombination": {SubnetID: b.subnet[1].ID, Interfaces: []InterfaceSpec{{}}},
	} {
		in.ImageID, in.MinCount, in.MaxCount = "ami-0", 1, 1
		_, err := b.r.InstanceCalls().RunInstances(in)
		wantRefusal(t, what, err, what, "")
	}
}

func TestPowerStates(t *testing.T) {
	b := newBench(t, Options{TransitionDelay: time.Minute})
	state := func(id string) string {
		t.Helper()
		return must[[]Instance](t)(b.r.Instances(id))[0].State.String()
	}
	public := true
	i := b.run(
		RunInstancesInput{Interfaces: []InterfaceSpec{{SubnetID: b.subnet[0].ID, AssociatePublicIP: &public}, {DeviceIndex: 1, SubnetID: b.subnet[1].ID, KeepOnTermination: true}},
			ClientToken: "t1", Tags: map[string]Tags{"instance": {"Name": "x"}, "network-interface": {"Name": "x-nic"}}},
	)
	if i.State != Pending || state(i.ID) != "pending" || i.Tags["Name"] != "x" || i.NetworkInterfaces[0].Tags["Name"] != "x-nic" {
		t.Fatalf("launched %+v", i)
	}
	b.clock.advance(time.Minute)
	if state(i.ID) != "running" {
		t.Errorf("after a minute: %s", state(i.ID))
	}
	change := must[[]StateChange](t)(b.r.InstanceCalls().StopInstances([]string{i.ID}, false))[0]
	if change.Previous != Running || change.Current != Stopping {
		t.Errorf("stop: %+v", change)
	}
	_, err := b.r.InstanceCalls().StartInstances([]string{i.ID})
	wantRefusal(t, "start while stopping", err, "IncorrectInstanceState", "The instance '"+i.ID+"' is not in a state from which it can be started.")
	b.clock.advance(time.Minute)
	stopped := must[[]Instance](t)(b.r.Instances(i.ID))[0]
	if stopped.State != Stopped || stopped.Primary().PrimaryIP().Public.IsValid() || len(stopped.NetworkInterfaces) != 2 {
		t.Errorf("stopped: %+v", stopped)
	}
	must[[]StateChange](t)(b.r.InstanceCalls().StartInstances([]string{i.ID}))
	if !must[[]Instance](t)(b.r.Instances(i.ID))[0].Primary().PrimaryIP().Public.IsValid() {
		t.Error("started without a public address")
	}
	must[[]StateChange](t)(b.r.InstanceCalls().TerminateInstances([]string{i.ID}))
	if nics := must[[]NetworkInterface](t)(b.r.NetworkInterfaces()); state(i.ID) != "shutting-down" || len(nics) != 2 {
		t.Errorf("shutting down: %s with %d interfaces", state(i.ID), len(nics))
	}
	b.clock.advance(time.Minute)
	nics := must[[]NetworkInterface](t)(b.r.NetworkInterfaces())
	if state(i.ID) != "terminated" || len(nics) != 1 || nics[0].Status != StatusAvailable || nics[0].Attachment != nil {
		t.Errorf("terminated: %+v", nics)
	}
	again := must[Reservation](
		t,
	)(
		b.r.InstanceCalls().RunInstances(
			RunInstancesInput{
				ImageID:     "ami-00000000",
				MinCount:    1,
				MaxCount:    1,
				ClientToken: "t1",
				Interfaces:  []InterfaceSpec{{SubnetID: b.subnet[0].ID, AssociatePublicIP: &public}, {DeviceIndex: 1, SubnetID: b.subnet[1].ID, KeepOnTermination: true}},
				Tags:        map[string]Tags{"instance": {"Name": "x"}, "network-interface": {"Name": "x-nic"}},
			},
		),
	)
	if again.Instances[0].ID != i.ID {
		t.Errorf("the same token launched %s", again.Instances[0].ID)
	}
	_, err = b.r.InstanceCalls().RunInstances(RunInstancesInput{ImageID: "ami-1", MinCount: 1, MaxCount: 1, SubnetID: b.subnet[0].ID, ClientToken: "t1"})
	wantRefusal(t, "same token, other parameters", err, "IdempotentParameterMismatch", "")
	b.clock.advance(2 * time.Hour)
	_, err = b.r.Instances(i.ID)
	wantRefusal(t, "an hour later", err, "InvalidInstanceID.NotFound", "The instance ID '"+i.ID+"' does not exist")
}
