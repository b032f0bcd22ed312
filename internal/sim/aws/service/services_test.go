package service_test

import (
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/native"
	"github.com/nephele-io/nephele/internal/sim/world"
	"github.com/nephele-io/nephele/internal/sim/world/worldtest"
)

// TestLife: a database has an interface from its creation, another one after a failover, and none
// after its deletion; its interface has its groups.
func TestLife(t *testing.T) {
	b := worldtest.New(t, world.Options{TransitionDelay: time.Minute})
	services := b.Region.Services()
	ref := native.Ref{Kind: native.Database, Name: "db"}
	nic := func() *aws.NetworkInterface {
		for _, n := range worldtest.Must[[]aws.NetworkInterface](t)(b.Region.NetworkInterfaces()) {
			if n.RequesterManaged {
				return &n
			}
		}
		return nil
	}
	first, second := b.Group("first"), b.Group("second")
	made := worldtest.Must[native.Service](t)(services.Create(native.Service{
		Kind: native.Database, Name: "db", VPCID: b.VPC.ID, Subnets: []string{b.Subnets[0].ID, b.Subnets[1].ID}, Groups: []string{first},
		Nodes: []native.Node{{SubnetID: b.Subnets[0].ID}}, Engine: "postgres", Port: 5432, MultiZone: true,
	}))
	before := nic()
	if before == nil || before.ID != made.Nodes[0].NIC || !before.HasGroup(first) || before.SubnetID != b.Subnets[0].ID {
		t.Fatalf("made %+v with %+v", made, before)
	}
	if _, err := services.SetGroups("ModifyDBInstance", ref, []string{second}); err != nil {
		t.Fatal(err)
	}
	if n := nic(); !n.HasGroup(second) || n.HasGroup(first) {
		t.Errorf("groups %v", n.Groups)
	}
	_, err := services.Failover(ref)
	worldtest.WantRefusal(t, "while it is being modified", err, "ServiceBusy", "")
	b.Clock.Advance(time.Minute)
	worldtest.Must[native.Service](t)(services.Failover(ref))
	if after := nic(); after.ID == before.ID || after.SubnetID != b.Subnets[1].ID || !after.HasGroup(second) {
		t.Errorf("after the failover: %+v", after)
	}
	worldtest.WantRefusal(t, "an interface of a service", b.Region.Interfaces().ModifyNetworkInterfaceGroups(nic().ID, []string{first}), "AuthFailure", "")
	if err := services.Delete(ref); err != nil || nic() != nil {
		t.Errorf("after the deletion: %+v (%v)", nic(), err)
	}
	worldtest.WantRefusal(t, "once more", services.Delete(ref), "ServiceNotFound", "db not found")
}
