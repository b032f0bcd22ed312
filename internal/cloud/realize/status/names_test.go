package status

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestConditionsNameMachines: conditions of an account name machines as people do, not by paths of
// 150 characters, and say with which command all are seen.
func TestConditionsNameMachines(t *testing.T) {
	const base = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/rg/providers/Microsoft."
	nic := func(name string) string { return base + "Network/networkInterfaces/" + name }
	vm := func(name string) string { return base + "Compute/virtualMachines/" + name }
	snapshot := &cloud.Snapshot{Scope: cloud.Scope{Region: "r"},
		VMs: []cloud.VM{
			{ID: vm("a"), Name: "web-1", Interfaces: []string{nic("a")}}, {ID: vm("b"), Name: "web-2", Interfaces: []string{nic("b1"), nic("b2")}}, {ID: vm("c")},
		},
		Interfaces: []cloud.Interface{{ID: nic("a"), VMID: vm("a")}, {ID: nic("b1"), VMID: vm("b")}, {ID: nic("b2"), VMID: vm("b")}, {ID: nic("c"), VMID: vm("c")}}}
	for id, want := range map[string]string{
		nic("a"): "web-1", nic("b2"): "web-2 (rg/b2)", nic("c"): "rg/c", vm("a"): "web-1", vm("b"): "web-2", nic("gone"): "rg/gone",
	} {
		if got := snapshot.Called(id); got != want {
			t.Errorf("%s is called %q, want %q", id, got, want)
		}
	}
	if got := (*cloud.Snapshot)(nil).Called(nic("a")); got != "rg/a" {
		t.Errorf("of a region that was not seen: %q", got)
	}
	var cuts []plan.Cut
	for range maxTold + 7 {
		cuts = append(cuts, plan.Cut{Region: "r", Interface: nic("a"), VMID: vm("a"), Group: base + "Network/networkSecurityGroups/own"})
	}
	blocked := map[plan.InterfaceKey]string{}
	for _, name := range []string{"a", "b", "c", "d"} {
		blocked[plan.InterfaceKey{Region: "r", ID: nic(name)}] = "no right on " + nic(name)
	}
	for what, text := range map[string]string{
		"cuts":    cutsCondition(cuts, map[string]*cloud.Snapshot{"r": snapshot}).Message,
		"blocked": BlockedText(blocked),
	} {
		if strings.Contains(text, "/subscriptions/") {
			t.Errorf("%s: %s", what, text)
		}
		if !strings.Contains(text, " names all)") {
			t.Errorf("%s: nothing says with which command all are seen: %s", what, text)
		}
	}
}
