package selection

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/convert"
)

// oddCloud is a snapshot with everything that is unusual about VMs.
func oddCloud() *cloud.Snapshot {
	addr := netip.MustParseAddr
	return &cloud.Snapshot{
		Scope:      cloud.Scope{Account: "clouds/acc", Region: oregon},
		ObservedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Networks: []cloud.Network{
			{ID: "vpc-1", Name: "prod", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("2001:db8::/56")}},
			{ID: "vpc-2", Name: "not a label"},
		},
		VMs: []cloud.VM{
			{ID: "i-1", Name: "Twin", NetworkID: "vpc-1", State: cloud.VMRunning, Interfaces: []string{"eni-1", "eni-2"},
				Tags: map[string]string{"Name": "Twin", "a": "b", "aws:x": "y"}},
			{ID: "i-2", Name: "Twin", NetworkID: "vpc-1", State: cloud.VMStopped, Interfaces: []string{"eni-3"}},
			{ID: "i-3", NetworkID: "vpc-2", State: cloud.VMRunning},
			{ID: "i-4", Name: "name with spaces", NetworkID: "vpc-9", State: cloud.VMShuttingDown, Interfaces: []string{"eni-unknown"}},
		},
		Interfaces: []cloud.Interface{
			{ID: "eni-1", VMID: "i-1", MAC: "02:00:00:00:00:01", GroupIDs: []string{"sg-1"},
				PrivateIPs: []netip.Addr{addr("10.0.0.5"), addr("2001:db8::5")}, PublicIPs: []netip.Addr{addr("198.51.100.5")},
				Tags: map[string]string{cloud.TagFormer: "sg-7 sg-", cloud.TagFormer + ".1": "8 sg-9"}},
			{ID: "eni-2", VMID: "i-1", PrivateIPs: []netip.Addr{addr("10.0.0.6"), addr("10.0.0.5")}},
			{ID: "eni-3", VMID: "i-2", PrivateIPs: []netip.Addr{addr("10.0.0.7")}},
			{ID: "eni-9", PrivateIPs: []netip.Addr{addr("10.0.0.9")}, Description: "a load balancer"},
		},
	}
}

func TestComputeOddities(t *testing.T) {
	t.Parallel()
	all := []v1alpha1.CloudEntitySelector{selector("a", "all",
		wholeVPC("vpc-1"), wholeVPC("vpc-2"), wholeVPC("vpc-9"))}
	d := Compute(View{Account: accountKey, Provider: v1alpha1.CloudProviderAWS, Snapshots: []*cloud.Snapshot{oddCloud()}, Selectors: all})
	if len(d.VMs) != 4 || len(d.Entities) != 4 || len(d.VMRefs) != 4 || len(d.Vpcs) != 2 || len(d.Nodes) != 0 || d.Selected[0].VMs != 4 {
		t.Fatalf("%d VMs, %d entities, %d VPCs, matched %v", len(d.VMs), len(d.Entities), len(d.Vpcs), d.Selected)
	}
	endpoints := func(name string) (ips []string) {
		for _, e := range d.Entities[types.NamespacedName{Namespace: "a", Name: "virtualmachine-" + name}].Spec.Endpoints {
			ips = append(ips, e.IP)
		}
		return ips
	}
	labels := func(name string) map[string]string {
		return d.Entities[types.NamespacedName{Namespace: "a", Name: "virtualmachine-" + name}].Labels
	}
	if got := endpoints("i-1"); !slices.Equal(got, []string{"10.0.0.5", "2001:db8::5", "10.0.0.6", "198.51.100.5"}) {
		t.Errorf("endpoints of i-1: %v", got)
	}
	if got := endpoints("i-3"); got != nil {
		t.Errorf("endpoints of i-3: %v", got)
	}
	for name, want := range map[string]string{
		"i-1": "twin", "i-2": "twin", "i-3": "", "i-4": "",
	} {
		if got := labels(name)[v1alpha1.LabelCloudVMName]; got != want {
			t.Errorf("name label of %s: %q; want %q", name, got, want)
		}
	}
	if got := labels("i-1")[v1alpha1.LabelCloudVPCName]; got != "prod" {
		t.Errorf("VPC name label %q", got)
	}
	for _, name := range []string{"i-3", "i-4"} {
		if got, there := labels(name)[v1alpha1.LabelCloudVPCName]; there {
			t.Errorf("VPC name label of %s: %q", name, got)
		}
	}
	vm := d.VMs[types.NamespacedName{Namespace: "a", Name: "i-1"}]
	if got := vm.Status.NetworkInterfaces[0].FormerSecurityGroupIds; !slices.Equal(got, []string{"sg-7", "sg-8", "sg-9"}) {
		t.Errorf("former groups %v", got)
	}
	if vm.Status.NetworkInterfaces[1].FormerSecurityGroupIds != nil {
		t.Error("former groups of an interface that was never taken over")
	}
	if !d.Vpcs[types.NamespacedName{Namespace: "clouds", Name: "vpc-1"}].Status.Managed {
		t.Error("the VPC is not managed")
	}
}

func TestComputeAgented(t *testing.T) {
	t.Parallel()
	e := wholeVPC("vpc-1")
	e.Agented = true
	e2 := wholeVPC("vpc-2")
	e2.Agented = true
	d := Compute(View{Account: accountKey, Snapshots: []*cloud.Snapshot{oddCloud()},
		Selectors: []v1alpha1.CloudEntitySelector{selector("a", "agents", e, e2)}})
	// i-3 has no address, and a node without one is not legal. The cloud guards all of them, too.
	if len(d.VMs) != 3 || len(d.Nodes) != 2 || len(d.Entities) != 3 || len(d.VMRefs) != 3 {
		t.Fatalf("%d VMs, %d nodes, %d entities", len(d.VMs), len(d.Nodes), len(d.Entities))
	}
	n := d.Nodes[types.NamespacedName{Namespace: "a", Name: "virtualmachine-i-1"}]
	if got := fmt.Sprint(n.Spec.Interfaces); got != "[{eni-1 [10.0.0.5 2001:db8::5 198.51.100.5]}]" {
		t.Errorf("interfaces %s", got)
	}
	ref := d.VMRefs[types.NamespacedName{Namespace: "a", Name: "virtualmachine-i-1"}]
	if want := convert.EntityOfExternalNode(n).Name; ref.Agent != "a/virtualmachine-i-1" || ref.AgentEntity != want {
		t.Errorf("%+v, the entity of the node is %s", ref, want)
	}
	// A selector without a grant, or one of several, hands nothing over.
	if !strings.Contains(ref.AgentDenied, "releaseNamespaces") {
		t.Errorf("denied: %q", ref.AgentDenied)
	}
	v := View{Account: accountKey, Modes: Modes{Release: []string{"a"}}, Snapshots: []*cloud.Snapshot{oddCloud()},
		Selectors: []v1alpha1.CloudEntitySelector{selector("a", "agents", e, e2)}}
	if ref := Compute(v).VMRefs[types.NamespacedName{Namespace: "a", Name: "virtualmachine-i-1"}]; ref.AgentDenied != "" {
		t.Errorf("denied although there is a say: %q", ref.AgentDenied)
	}
	v.Selectors = append(v.Selectors, selector("b", "others", wholeVPC("vpc-1")))
	if ref := Compute(v).VMRefs[types.NamespacedName{Namespace: "a", Name: "virtualmachine-i-1"}]; !strings.Contains(ref.AgentDenied, "several namespaces") {
		t.Errorf("denied: %q", ref.AgentDenied)
	}
}

// TestComputeIsStable: the result depends on the set of inputs only.
func TestComputeIsStable(t *testing.T) {
	t.Parallel()
	v := View{Account: accountKey, Snapshots: []*cloud.Snapshot{oddCloud()},
		Selectors: []v1alpha1.CloudEntitySelector{selector("a", "x", wholeVPC("vpc-1")), selector("a", "y", byIDs("i-1", "i-2"))}}
	want := Compute(v)
	for range 20 {
		if got := Compute(v); !reflect.DeepEqual(got, want) {
			t.Fatalf("differs:\n%+v\n%+v", got, want)
		}
	}
}
