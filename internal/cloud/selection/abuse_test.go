package selection

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// odd is a snapshot with one VM of each kind that somebody may bring about to do harm, or by
// accident.
func odd() *cloud.Snapshot {
	long := strings.Repeat("n", 256)
	addr := func(s string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(s)} }
	return &cloud.Snapshot{
		Scope:    cloud.Scope{Account: "clouds/acc", Region: oregon},
		Networks: []cloud.Network{{ID: "vpc-1", Name: long}, {ID: "vpc-2", Name: "\x1b[31mred\x00"}},
		VMs: []cloud.VM{
			{ID: "i-1", NetworkID: "vpc-1", Interfaces: []string{"eni-1"}, Tags: map[string]string{
				"kind": "forged", "cpa-name": "forged", "owner-vm": "forged", "nephe.antrea.io/kind": "forged", "nephe.antrea.io/tag-role": "admin",
				"nephele.io/cluster": "forged", "nephele.io/claimed-by": "forged", "tag-role": "admin"}},
			{ID: "i-2", NetworkID: "vpc-1", Name: long, Interfaces: []string{"eni-2"}, Tags: map[string]string{
				"Name": long, "bell": "\x07", "new\nline": "x", strings.Repeat("k", 128): "x", "": "x", "emoji": "🙂", "fine": "yes"}},
			{ID: "i-3", NetworkID: "vpc-2", Name: "Same", Interfaces: []string{"eni-3"}}, // IPv6 only
			{ID: "i-4", NetworkID: "vpc-2", Name: "same"},                                // no interface
			{ID: "i-5", NetworkID: "vpc-2", Interfaces: []string{"eni-5", "eni-missing"}},
			{ID: "i-6", NetworkID: "vpc-9", Interfaces: []string{"eni-6"}}, // of a network that is not shown
		},
		Interfaces: []cloud.Interface{
			{ID: "eni-1", NetworkID: "vpc-1", VMID: "i-1", PrivateIPs: addr("10.0.0.1"), Tags: map[string]string{cloud.TagFormer: "sg-forged \x00 sg-2"}},
			{ID: "eni-2", NetworkID: "vpc-1", VMID: "i-2", PrivateIPs: addr("10.0.0.2"), Description: "\x1b]0;x\x07"},
			{ID: "eni-3", NetworkID: "vpc-2", VMID: "i-3", PrivateIPs: addr("2001:db8::3")},
			{ID: "eni-5", NetworkID: "vpc-2", VMID: "i-5", PrivateIPs: addr("10.0.0.1"), GroupIDs: sixteen()}, // as i-1, elsewhere
			{ID: "eni-6", NetworkID: "vpc-9", VMID: "i-6", PrivateIPs: addr("10.0.0.6")},
		},
	}
}

func sixteen() (out []string) {
	for n := range 16 {
		out = append(out, fmt.Sprintf("sg-%02d", n))
	}
	return out
}

// TestAbuse states what becomes of each of them; see docs/failures.md.
func TestAbuse(t *testing.T) {
	t.Parallel()
	selectors := []v1alpha1.CloudEntitySelector{*ces("web", "one", wholeVPC("vpc-1")), *ces("web", "two", wholeVPC("vpc-2")), *ces("web", "nine", wholeVPC("vpc-9"))}
	Sort(selectors)
	d := Compute(View{Account: accountKey, Provider: v1alpha1.CloudProviderAWS, Snapshots: []*cloud.Snapshot{odd()}, Selectors: selectors})
	if len(d.VMs) != 6 || len(d.Entities) != 6 {
		t.Fatalf("%d VMs, %d entities", len(d.VMs), len(d.Entities))
	}
	entity := func(id string) map[string]string {
		for key, e := range d.Entities {
			if key.Name == v1alpha1.EntityNamePrefix+id {
				labels := map[string]string{"": ""}
				for _, p := range e.Spec.Endpoints {
					labels[""] += p.IP + " "
				}
				for k, v := range e.Labels {
					labels[k] = v
				}
				return labels
			}
		}
		t.Fatalf("no entity of %s", id)
		return nil
	}
	vm := func(id string) v1alpha1.VirtualMachineStatus {
		for key, m := range d.VMs {
			if key.Name == id {
				return m.Status
			}
		}
		t.Fatalf("no VM %s", id)
		return v1alpha1.VirtualMachineStatus{}
	}
	for _, c := range []struct{ what, id, label, want string }{
		{"a tag cannot forge a label of ours", "i-1", v1alpha1.LabelKind, v1alpha1.LabelKindVirtualMachine},
		{"nor the owner", "i-1", v1alpha1.LabelOwnerVM, "i-1"},
		{"it becomes a label of tags", "i-1", v1alpha1.LabelTagPrefix + "kind", "forged"},
		{"a tag cannot forge the label of another tag", "i-1", v1alpha1.LabelTagPrefix + "role", ""},
		{"a tag named like a label of tags is one below it", "i-1", v1alpha1.LabelTagPrefix + "tag-role", "admin"},
		{"a name of 256 characters is no label", "i-2", v1alpha1.LabelCloudVMName, ""},
		{"nor that of a network", "i-2", v1alpha1.LabelCloudVPCName, ""},
		{"control characters are no label", "i-2", v1alpha1.LabelTagPrefix + "bell", ""},
		{"tags beside bad ones are imported", "i-2", v1alpha1.LabelTagPrefix + "fine", "yes"},
		{"an IPv6-only VM has its address", "i-3", "", "2001:db8::3 "},
		{"names that differ in case only", "i-3", v1alpha1.LabelCloudVMName, "same"},
		{"are the same label on two entities", "i-4", v1alpha1.LabelCloudVMName, "same"},
		{"a VM without interfaces has no address", "i-4", "", ""},
		{"an address that exists twice", "i-1", "", "10.0.0.1 "},
		{"stands at both", "i-5", "", "10.0.0.1 "},
		{"a VM of an unknown network is imported", "i-6", "", "10.0.0.6 "},
	} {
		if got := entity(c.id)[c.label]; got != c.want {
			t.Errorf("%s: %q; want %q", c.what, got, c.want)
		}
	}
	left := func(id string) (keys []string) {
		for _, u := range vm(id).UnimportedTags {
			keys = append(keys, u.Key)
		}
		return keys
	}
	if got := fmt.Sprintf("%q", left("i-1")); got != `["nephe.antrea.io/kind" "nephe.antrea.io/tag-role" "nephele.io/claimed-by" "nephele.io/cluster"]` {
		t.Errorf("left out of i-1: %s", got)
	}
	if got := len(left("i-2")); got != 6 {
		t.Errorf("left out of i-2: %q", left("i-2"))
	}
	if got := vm("i-5").NetworkInterfaces; len(got) != 1 || len(got[0].SecurityGroupIds) != 16 {
		t.Errorf("interfaces of i-5: %+v", got)
	}
	if vm("i-2").CloudName != strings.Repeat("n", 256) {
		t.Error("the status does not show the name as it is")
	}
	if got := d.VMRefs; len(got) != 6 {
		t.Errorf("references %v", got)
	}
}
