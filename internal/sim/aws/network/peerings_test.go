package network_test

import (
	"testing"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/world"
	"github.com/nephele-io/nephele/internal/sim/world/worldtest"
)

func TestPeering(t *testing.T) {
	b := worldtest.New(t, world.Options{})
	rb := worldtest.Must[*world.Region](t)(b.World.Region(worldtest.AccountB, worldtest.West))
	far := worldtest.Must[aws.VPC](t)(rb.Networks().CreateVPC(aws.CreateVPCInput{CIDR: "10.7.0.0/16"}))
	sub := worldtest.Must[aws.Subnet](t)(rb.Networks().CreateSubnet(aws.CreateSubnetInput{VPCID: far.ID, CIDR: "10.7.0.0/24"}))
	theirs := worldtest.Must[aws.SecurityGroup](t)(rb.Groups().CreateSecurityGroup(aws.CreateSecurityGroupInput{Name: "theirs", Description: "d", VPCID: far.ID})).ID
	mine := b.Group("mine")
	refer := func(user string) error {
		p := worldtest.TCP(80)
		p.Groups = []aws.GroupRef{{GroupID: theirs, UserID: user}}
		return b.Allow(mine, p)
	}
	worldtest.WantRefusal(t, "without account", refer(""), "InvalidGroup.NotFound", "does not exist")
	worldtest.WantRefusal(t, "without peering", refer(worldtest.AccountB), "InvalidGroup.NotFound", "different networks")
	pcx := worldtest.Must[aws.PeeringConnection](
		t,
	)(
		b.World.AddPeering(aws.PeeringConnection{Requester: aws.PeeringVPC{VPCID: b.VPC.ID, Account: worldtest.AccountA, Region: worldtest.West}, Accepter: aws.PeeringVPC{VPCID: far.ID, Account: worldtest.AccountB, Region: worldtest.West}}),
	)
	if err := refer(worldtest.AccountB); err != nil {
		t.Fatal(err)
	}
	if got := worldtest.Must[[]aws.PeeringConnection](t)(rb.Peerings().PeeringConnections()); len(got) != 1 || got[0].Accepter.CIDRs[0].String() != "10.7.0.0/16" {
		t.Errorf("the other account sees %+v", got)
	}
	server := b.Run(aws.RunInstancesInput{GroupIDs: []string{mine}}).NetworkInterfaces[0]
	client := worldtest.Must[aws.Reservation](t)(rb.InstanceCalls().RunInstances(aws.RunInstancesInput{ImageID: "ami-0", MinCount: 1, MaxCount: 1, SubnetID: sub.ID, GroupIDs: []string{theirs}})).Instances[0].NetworkInterfaces[0]
	flow := packet.Flow{Src: packet.End{NIC: client.ID}, Dst: packet.End{NIC: server.ID}, Protocol: 6, Port: 80}
	byAddress := packet.Flow{Src: packet.End{Addr: client.PrivateIPs[0].Addr}, Dst: packet.End{NIC: server.ID}, Protocol: 6, Port: 80}
	for _, status := range []string{"active", "deleted", "active"} {
		if err := b.World.SetPeeringStatus(pcx.ID, status); err != nil {
			t.Fatal(err)
		}
		for _, f := range []packet.Flow{flow, byAddress} {
			if v := worldtest.Must[packet.Verdict](t)(b.World.Allowed(f)); v.Allowed != (status == "active") {
				t.Errorf("peering %s: %s", status, v.Reason)
			}
		}
		if got := worldtest.Must[[]aws.SecurityGroup](t)(b.Region.SecurityGroups(mine))[0].Rules[2].Group.PeeringStatus; got != status {
			t.Errorf("the rule shows peering status %q, want %q", got, status)
		}
	}
	// A reference from the peer VPC does not keep a group: the rule becomes stale, and matches
	// nothing.
	if err := rb.Interfaces().ModifyNetworkInterfaceGroups(client.ID, []string{defaultOf(t, rb, far.ID)}); err != nil {
		t.Fatal(err)
	}
	worldtest.Must[string](t)(rb.Groups().DeleteSecurityGroup(theirs, ""))
	if v := worldtest.Must[packet.Verdict](t)(b.World.Allowed(flow)); v.Allowed {
		t.Errorf("stale rule: %s", v.Reason)
	}
	if rules := b.Rules(mine); rules[2] != "tcp 80 from "+theirs {
		t.Errorf("the stale rule is gone: %v", rules)
	}
	if _, err := world.New(b.World.State(), world.Options{}); err != nil {
		t.Errorf("a state with a stale rule: %v", err)
	}
}

func defaultOf(t *testing.T, r *world.Region, vpc string) string {
	t.Helper()
	for _, g := range worldtest.Must[[]aws.SecurityGroup](t)(r.SecurityGroups()) {
		if g.VPCID == vpc && g.Name == "default" {
			return g.ID
		}
	}
	t.Fatal("no default group")
	return ""
}
