package placement

import (
	"net/netip"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/selection"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/policy"
)

// TestPlaces: an imported VM has the interfaces of its machine, a Node the interface with its
// address, a Pod an interface of its Node's machine, and what has an address that two interfaces
// have is nowhere.
func TestPlaces(t *testing.T) {
	address := netip.MustParseAddr
	networkInterface := func(id, vm, network string, ips ...string) cloud.Interface {
		n := cloud.Interface{ID: id, VMID: vm, NetworkID: network}
		for _, a := range ips {
			n.PrivateIPs = append(n.PrivateIPs, address(a))
		}
		return n
	}
	delegating := networkInterface("eni-1", "i-1", "vpc-1", "10.0.0.1")
	delegating.Prefixes = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/28")}
	snapshot := &cloud.Snapshot{
		Scope: cloud.Scope{Account: "ops/a", Region: "r"}, Networks: []cloud.Network{{ID: "vpc-1"}, {ID: "vpc-2"}},
		VMs: []cloud.VM{{ID: "i-1", Interfaces: []string{"eni-1"}}, {ID: "i-2", Interfaces: []string{"eni-2"}}},
		Interfaces: []cloud.Interface{
			delegating, networkInterface("eni-2", "i-2", "vpc-1", "10.0.0.2", "10.0.0.20"), networkInterface("eni-3", "i-3", "vpc-1", "10.0.0.7"), networkInterface("eni-4", "i-4", "vpc-2", "10.0.0.7"),
		},
	}
	vm := policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "shop", Name: "virtualmachine-i-1"}
	host := policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: "shop", Name: "host"}
	node := policy.EntityRef{Kind: policy.KindNode, Name: "node"}
	pod := policy.EntityRef{Kind: policy.KindPod, Namespace: "shop", Name: "pod"}
	ends := map[policy.EntityRef]policy.Entity{
		vm:   {EntityRef: vm, Host: cloud.EnforcerPrefix + "ops/a", Addresses: []netip.Addr{address("10.0.0.1")}},
		host: {EntityRef: host, Addresses: []netip.Addr{address("10.0.0.7")}},
		node: {EntityRef: node, Addresses: []netip.Addr{address("10.0.0.2")}},
		pod:  {EntityRef: pod, Host: "node", Addresses: []netip.Addr{address("10.0.0.20")}},
	}
	accounts := []input.Account{{Key: "ops/a", Snapshots: []*cloud.Snapshot{snapshot},
		VMs: map[types.NamespacedName]selection.VMRef{{Namespace: "shop", Name: "virtualmachine-i-1"}: {Region: "r", VMID: "i-1", Mode: "Monitor", ModeReason: "account"}}}}
	places := Of(accounts, ends, false)
	for ref, want := range map[policy.EntityRef][]string{vm: {"eni-1 10.0.0.1"}, host: nil, node: {"eni-2 10.0.0.2"}, pod: {"eni-2 10.0.0.20"}} {
		var got []string
		for _, p := range places.PointsOf(ref) {
			got = append(got, p.Interface.ID+" "+p.Addr.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v is at %v, want %v", ref, got, want)
		}
	}
	if ref, owned := places.OwnerOf("eni-1"); !owned || ref != vm {
		t.Errorf("eni-1 belongs to %v, %v; want %v", ref, owned, vm)
	}
	if refs := places.EntitiesOf("r", "i-1"); !slices.Equal(refs, []policy.EntityRef{vm}) {
		t.Errorf("i-1 is %v, want %v", refs, vm)
	}
	if mode, reason, known := places.Mode(vm); mode != "Monitor" || reason != "account" || !known {
		t.Errorf("mode of the VM: %q, %q, %v", mode, reason, known)
	}
	if _, _, known := places.Mode(node); known || places.IsImported(node) {
		t.Error("the Node counts as imported")
	}
	if refs := places.DelegatedTo(policy.EntityRef{}, address("10.9.0.3")); !slices.Equal(refs, []policy.EntityRef{vm}) {
		t.Errorf("10.9.0.3 is delegated to %v, want %v", refs, vm)
	}
	if refs := places.DelegatedTo(node, address("10.9.0.3")); refs != nil {
		t.Errorf("10.9.0.3 is delegated to %v for a Node, whose rules no security group carries", refs)
	}
	if refs := places.PodAmong([]policy.EntityRef{pod, node}, address("10.0.0.20")); !slices.Equal(refs, []policy.EntityRef{pod, node}) {
		t.Errorf("of 10.0.0.20, which the Node does not have, %v are left", refs)
	}
}

// TestNoAccounts: where no account was read nothing is known, and nothing fails.
func TestNoAccounts(t *testing.T) {
	places := Of(nil, nil, false)
	if places != nil || places.PointsOf(policy.EntityRef{}) != nil || places.DelegatedTo(policy.EntityRef{}, netip.Addr{}) != nil {
		t.Error("something is known of no account")
	}
	if _, _, known := places.Mode(policy.EntityRef{}); known {
		t.Error("a mode is known of no account")
	}
}
