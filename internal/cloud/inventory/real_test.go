package inventory

import (
	"fmt"
	"slices"
	"testing"

	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// TestRealAccounts imports the published accounts whole, and compares every VM, interface and
// network with the account itself.
func TestRealAccounts(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "../../../testdata/aws/web-tier", "../../../testdata/aws/collector-sg1.json"} {
		state, _, err := estate.HybridCloud()
		if path != "" {
			state, _, err = estate.Load(path)
		}
		if err != nil {
			t.Fatal(err)
		}
		l := newLabWith(t, sim.Options{State: state})
		l.direct = true
		var entries []v1alpha1.VirtualMachineSelector
		var regions, vpcs []string
		for _, r := range state.Regions {
			if len(r.VPCs) > 0 {
				regions = append(regions, r.Name)
			}
			for _, v := range r.VPCs {
				entries, vpcs = append(entries, wholeVPC(v.ID)), append(vpcs, "clouds/"+v.ID)
			}
		}
		l.create(l.secret(goodCreds), l.cpa(regions...), l.ces("web", "all", entries...))
		l.reconcile()
		l.wantAccount("True OK", "True OK", "True OK", "")
		slices.Sort(vpcs)
		l.want("VPCs", l.vpcs(), vpcs...)
		count := 0
		for _, r := range state.Regions {
			for _, i := range r.Instances {
				if i.State != aws.Terminated {
					count++
					l.compare(r, i)
				}
			}
		}
		if got := l.vms(); len(got) != count || count == 0 {
			t.Errorf("%s: %d VMs; want %d", path, len(got), count)
		}
		l.takeWrites()
		l.restart(nil)
		l.reconcile()
		if got := l.takeWrites(); len(got) != 0 {
			t.Errorf("%s: a second look writes %q", path, got)
		}
	}
}

// compare checks the objects of an instance against the account.
func (l *lab) compare(r aws.RegionState, i aws.Instance) {
	l.Helper()
	vm := get(l, &v1alpha1.VirtualMachine{}, "web", i.ID).Status
	if fmt.Sprint(vm.Tags) != fmt.Sprint(map[string]string(i.Tags)) || vm.CloudVpcId != i.VPCID || vm.Region != r.Name {
		l.Errorf("%s: %+v", i.ID, vm)
	}
	entity := get(l, &antreav1alpha2.ExternalEntity{}, "web", "virtualmachine-"+i.ID)
	nics := 0
	for _, n := range r.NetworkInterfaces {
		if n.Attachment == nil || n.Attachment.InstanceID != i.ID {
			continue
		}
		nics++
		at := slices.IndexFunc(vm.NetworkInterfaces, func(x v1alpha1.AttachedInterface) bool { return x.Name == n.ID })
		if at < 0 {
			l.Errorf("%s: no interface %s", i.ID, n.ID)
			continue
		}
		var groups []string
		for _, g := range n.Groups {
			groups = append(groups, g.ID)
		}
		slices.Sort(groups)
		l.want("groups of "+n.ID, vm.NetworkInterfaces[at].SecurityGroupIds, groups...)
		for _, ip := range n.PrivateIPs {
			if !slices.ContainsFunc(entity.Spec.Endpoints, func(e antreav1alpha2.Endpoint) bool { return e.IP == ip.Addr.String() }) {
				l.Errorf("%s: address %s is missing", i.ID, ip.Addr)
			}
		}
	}
	if nics != len(vm.NetworkInterfaces) {
		l.Errorf("%s: %d interfaces; want %d", i.ID, len(vm.NetworkInterfaces), nics)
	}
}
