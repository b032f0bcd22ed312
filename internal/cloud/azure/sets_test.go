package azure_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/calls"
)

// TestScaleSets: instances of a scale set in Uniform orchestration are read with their interfaces
// and say why they cannot be guarded; those in Flexible orchestration are machines like others. A
// role that does not let see the interfaces leaves them out. Without such sets nothing more is
// called.
func TestScaleSets(t *testing.T) {
	t.Parallel()
	var nics []string
	l := newLab(t, func(b *build.Builder) {
		vnet := l0vnet(b)
		nics = b.ScaleSet("shop", "front", vnet+"/subnets/web", "", "10.1.1.50", "10.1.1.51", "10.1.1.52", "10.1.1.53")
		set := b.Add("shop", "Microsoft.Compute/virtualMachineScaleSets", "pool", map[string]any{"orchestrationMode": "Flexible"}, nil)
		machine, _ := b.Machine("shop", "pool_ab12", vnet+"/subnets/web", "10.1.1.60", "")
		for i := range b.State.Resources {
			if b.State.Resources[i].ID == machine {
				b.State.Resources[i].Properties["virtualMachineScaleSet"] = map[string]any{"id": set}
			}
		}
	})
	s := l.observe(l.account())
	for i, id := range nics {
		at := slices.IndexFunc(s.Interfaces, func(n cloud.Interface) bool { return n.ID == strings.ToLower(id) })
		if at < 0 {
			t.Fatalf("%s is not there", id)
		}
		n := s.Interfaces[at]
		vm := slices.IndexFunc(s.VMs, func(m cloud.VM) bool { return m.ID == n.VMID })
		if vm < 0 || s.VMs[vm].State != cloud.VMRunning || !slices.Equal(s.VMs[vm].Interfaces, []string{n.ID}) || s.VMs[vm].NetworkID == "" {
			t.Errorf("the machine of %s: %+v", id, n)
		}
		if want := netip.MustParseAddr("10.1.1.50"); i == 0 && !slices.Equal(n.PrivateIPs, []netip.Addr{want}) {
			t.Errorf("addresses %v, want %s", n.PrivateIPs, want)
		}
		if !strings.Contains(n.Untouchable, "Uniform orchestration") {
			t.Errorf("untouchable: %q", n.Untouchable)
		}
	}
	for _, n := range s.Interfaces {
		if strings.HasSuffix(n.ID, "/pool_ab12-nic") && (n.Untouchable != "" || n.VMID == "") {
			t.Errorf("a flexible instance: %+v", n)
		}
	}
	if n := l.journal.Counts()["Microsoft.Compute/virtualMachineScaleSets/virtualMachines/networkInterfaces/read"]; n != 2 {
		t.Errorf("%d lists of interfaces, want two pages", n) // the simulator's pages are of three
	}

	role := func(actions ...string) {
		l.change(func(c *simazure.Cloud) {
			p := c.Principals()[0]
			p.Assignments = []simazure.Assignment{{Scope: "/subscriptions/" + subscription, Role: simazure.Role{Actions: actions}}}
			c.SetPrincipal(p)
		})
	}
	role("Microsoft.Network/*", "Microsoft.Compute/virtualMachines/read", "Microsoft.Compute/virtualMachineScaleSets/read", "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read")
	s = l.observe(l.account())
	if n := slices.IndexFunc(s.Interfaces, func(n cloud.Interface) bool { return strings.Contains(n.ID, "scalesets") }); n >= 0 {
		t.Errorf("an interface that may not be seen: %+v", s.Interfaces[n])
	}
	if n := slices.IndexFunc(s.VMs, func(m cloud.VM) bool { return strings.Contains(m.ID, "scalesets") }); n < 0 {
		t.Error("the instances are not there")
	}
	role("*")
	l.faults.Add(calls.Fault{Action: "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/networkInterfaces/read", Status: 500, Code: "InternalServerError"})
	if _, err := l.account().Observe(t.Context(), inRegion); cloud.ClassOf(err) != cloud.Unavailable {
		t.Errorf("a list that fails: %v", err)
	}
}
