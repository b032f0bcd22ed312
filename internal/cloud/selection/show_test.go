package selection

import (
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// TestWhatSelectsAnEntityFindsItsVM: every label that a policy may select an entity by is on the
// VirtualMachine as well, and what the VirtualMachine had of its own stays.
func TestWhatSelectsAnEntityFindsItsVM(t *testing.T) {
	t.Parallel()
	snap := &cloud.Snapshot{Scope: cloud.Scope{Account: "clouds/acc", Region: oregon}, Networks: []cloud.Network{{ID: "vpc-1", Name: "shop"}},
		VMs:        []cloud.VM{{ID: "i-1", Name: "web-1", NetworkID: "vpc-1", Tags: map[string]string{"role": "web", "Name": "web-1"}, Interfaces: []string{"eni-1"}}},
		Interfaces: []cloud.Interface{{ID: "eni-1", NetworkID: "vpc-1", VMID: "i-1", PrivateIPs: addrs("10.0.0.1", "10.0.0.2"), PublicIPs: addrs("203.0.113.7", "203.0.113.8")}}}
	d := Compute(View{Account: accountKey, Provider: v1alpha1.CloudProviderAWS, Snapshots: []*cloud.Snapshot{snap},
		Selectors: []v1alpha1.CloudEntitySelector{selector("vms", "all", wholeVPC("vpc-1"))}})
	if len(d.VMs) != 1 || len(d.Entities) != 1 {
		t.Fatalf("%d VMs, %d entities", len(d.VMs), len(d.Entities))
	}
	for _, vm := range d.VMs {
		for _, e := range d.Entities {
			for key, value := range e.Labels {
				s, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: map[string]string{key: value}})
				if err != nil || !s.Matches(labels.Set(vm.Labels)) {
					t.Errorf("%s=%s (%v) does not find the VM, which has %v", key, value, err, vm.Labels)
				}
			}
			if e.Labels[v1alpha1.LabelTagPrefix+"role"] != "web" {
				t.Errorf("labels of the entity: %v", e.Labels)
			}
		}
		if vm.Labels[v1alpha1.LabelCESName] != "all" || vm.Labels[v1alpha1.LabelCPAName] != accountKey.Name {
			t.Errorf("labels of the VM: %v", vm.Labels)
		}
		if vm.Status.Addresses != "10.0.0.1, 10.0.0.2, 203.0.113.7, and 1 more" {
			t.Errorf("addresses %q", vm.Status.Addresses)
		}
	}
}

func addrs(in ...string) (out []netip.Addr) {
	for _, a := range in {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}
