package cloud_test

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
)

// TestJoined: the interfaces of a service whose groups can be set are one, with its ID and tags;
// the others stay what they are, and so does the snapshot.
func TestJoined(t *testing.T) {
	addr := netip.MustParseAddr
	tags := map[string]string{"team": "shop"}
	s := &cloud.Snapshot{
		VMs: []cloud.VM{{ID: "i-1", Interfaces: []string{"eni-9"}}},
		Interfaces: []cloud.Interface{
			{ID: "eni-1", NetworkID: "vpc-1", SubnetID: "subnet-1", OwnerID: "1", Managed: true, PrivateIPs: []netip.Addr{addr("10.0.0.9")}, GroupIDs: []string{"sg-1"}},
			{ID: "eni-2", NetworkID: "vpc-1", SubnetID: "subnet-2", OwnerID: "1", Managed: true, PrivateIPs: []netip.Addr{addr("10.0.0.1")},
				PublicIPs: []netip.Addr{addr("192.0.2.1")}, GroupIDs: []string{"sg-1", "sg-2"}},
			{ID: "eni-3", NetworkID: "vpc-1", Managed: true, PrivateIPs: []netip.Addr{addr("10.0.0.3")}},
			{ID: "eni-4", NetworkID: "vpc-1", Managed: true, PrivateIPs: []netip.Addr{addr("10.0.0.4")}},
			{ID: "eni-9", NetworkID: "vpc-1", VMID: "i-1"},
		},
		Services: []cloud.Service{
			{ID: "arn:a", Kind: cloud.ApplicationLoadBalancer, Name: "front", NetworkID: "vpc-1", Tags: tags, Interfaces: []string{"eni-1", "eni-2"}},
			{ID: "arn:b", Kind: cloud.LambdaFunction, Interfaces: []string{"eni-3"}, Fixed: "it is a function"},
			{ID: "arn:c", Kind: cloud.RDSInstance, Interfaces: []string{"eni-4"}, Ambiguous: "it may be another's"},
			{ID: "arn:d", Kind: cloud.RDSInstance},
			{ID: "eni-8", Kind: cloud.RDSInstance, Interfaces: []string{"eni-8"}, Fixed: "not read", Unread: true},
			{ID: "eni-9", Kind: cloud.RDSInstance, Interfaces: []string{"eni-9"}, Fixed: "not read", Unread: true},
		},
	}
	before := *s
	got := s.Joined()
	if !reflect.DeepEqual(*s, before) || len(s.Interfaces) != 5 {
		t.Error("the snapshot was changed")
	}
	want := cloud.Interface{ID: "arn:a", NetworkID: "vpc-1", OwnerID: "1", VMID: "arn:a", Tags: tags, Service: cloud.ApplicationLoadBalancer,
		PrivateIPs: []netip.Addr{addr("10.0.0.1"), addr("10.0.0.9")}, PublicIPs: []netip.Addr{addr("192.0.2.1")}, GroupIDs: []string{"sg-1", "sg-2"}}
	if len(got.Interfaces) != 4 || !reflect.DeepEqual(got.Interfaces[0], want) {
		t.Errorf("%+v", got.Interfaces)
	}
	if got.Interfaces[1].ID != "eni-3" || !got.Interfaces[1].Managed || got.Interfaces[2].ID != "eni-4" {
		t.Errorf("%+v", got.Interfaces)
	}
	if len(got.VMs) != 2 || !reflect.DeepEqual(got.VMs[0], cloud.VM{ID: "arn:a", Name: "front", NetworkID: "vpc-1", State: cloud.VMRunning, Tags: tags, Interfaces: []string{"arn:a"}}) {
		t.Errorf("%+v", got.VMs)
	}
	if got.Joined() != got {
		t.Error("what is joined is joined again")
	}
}
