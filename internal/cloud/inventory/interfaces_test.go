package inventory

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/selection"
)

func (l *lab) ports() []string { return names[v1alpha1.NetworkInterfaceList](l) }

// ofInterfaces is a selector of these interfaces in the namespace apps.
func (l *lab) ofInterfaces(name string, entries ...v1alpha1.NetworkInterfaceSelector) *v1alpha1.CloudEntitySelector {
	s := l.ces("apps", name)
	s.Spec.InterfaceSelector = entries
	return s
}

func (l *lab) port(id string) v1alpha1.NetworkInterfaceStatus {
	l.Helper()
	return get(l, &v1alpha1.NetworkInterface{}, "apps", id).Status
}

// TestInterfaces: a selector brings interfaces into its namespace, each with an entity that
// policies select, for no call more than VMs take. A VPC alone means those that are of no VM; what
// a service has made says that its groups cannot be set.
func TestInterfaces(t *testing.T) {
	t.Parallel()
	l := serviceLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("apps", "vms", wholeVPC(vpc1)))
	l.reconcile()
	without, so := l.since(0)
	if got := l.ports(); len(got) > 0 {
		t.Fatalf("%v", got)
	}
	l.create(l.ofInterfaces("interfaces", v1alpha1.NetworkInterfaceSelector{VpcMatch: &v1alpha1.EntityMatch{MatchID: vpc1}}))
	l.reconcile()
	if with, _ := l.since(so); len(with) > len(without) {
		t.Errorf("%d calls with interfaces, %d without", len(with), len(without))
	}
	if got := l.ports(); !slices.Equal(got, []string{"apps/" + balancerNIC, "apps/" + forgedNIC}) {
		t.Fatalf("%v", got)
	}
	if st := l.port(balancerNIC); st.Settable || !strings.Contains(st.NotSettable, "a service of the cloud has made it") || st.AttachedTo == nil || st.AttachedTo.Kind != v1alpha1.InterfaceOfService {
		t.Errorf("%+v", st)
	}
	st := l.port(forgedNIC)
	if !st.Settable || st.NotSettable != "" || st.AttachedTo != nil || st.CloudId != forgedNIC || st.CloudVpcId != vpc1 || st.CloudSubnetId == "" || st.Region != oregon || st.Tags["team"] != "edge" || st.MAC == "" ||
		!strings.HasPrefix(st.DNSName, "ip-") || len(st.IPs) != 1 || len(st.SecurityGroupIds) == 0 || condition(st.Conditions, v1alpha1.ConditionObserved) != "True OK" {
		t.Errorf("%+v", st)
	}
	entity := get(l, &antreav1alpha2.ExternalEntity{}, "apps", v1alpha1.InterfaceEntityNamePrefix+forgedNIC)
	for key, value := range map[string]string{
		v1alpha1.LabelKind: "networkinterface", v1alpha1.LabelCloudInterfaceUID: forgedNIC, v1alpha1.LabelNamespace: "apps", v1alpha1.LabelOwnerInterface: forgedNIC,
		v1alpha1.LabelCloudVPCUID: vpc1, v1alpha1.LabelCloudRegion: oregon, v1alpha1.LabelVPCName: vpc1, v1alpha1.LabelTagPrefix + "team": "edge",
	} {
		if entity.Labels[key] != value {
			t.Errorf("label %s is %q, want %q", key, entity.Labels[key], value)
		}
	}
	if got := entity.Spec; len(got.Endpoints) != 1 || got.Endpoints[0].IP != st.IPs[0].Address || got.ExternalNode != "cloud/clouds/acc" {
		t.Errorf("%+v", got)
	}
	key := types.NamespacedName{Namespace: "apps", Name: entity.Name}
	if got := l.inv.Services("clouds/acc"); len(got) != 2 || got[key] != (selection.ServiceRef{ID: forgedNIC, Region: oregon}) {
		t.Errorf("%+v", got)
	}
	s := get(l, &v1alpha1.CloudEntitySelector{}, "apps", "interfaces")
	if s.Status.MatchedInterfaces == nil || *s.Status.MatchedInterfaces != 2 || condition(s.Status.Conditions, v1alpha1.ConditionMatched) != "True OK" {
		t.Errorf("%+v", s.Status)
	}
	if err := l.api.Delete(l.Context(), s); err != nil {
		t.Fatal(err)
	}
	l.reconcile()
	if got := l.ports(); len(got) > 0 || len(l.inv.Services("clouds/acc")) > 0 {
		t.Errorf("left: %v", got)
	}
}

// TestInterfaceOfVM: the interface of a VM is imported by its id. Whether policies can apply to it
// depends on whether the VM is selected, and follows when that changes.
func TestInterfaceOfVM(t *testing.T) {
	t.Parallel()
	l := serviceLab(t)
	nics, err := l.server.World().Region(l.server.World().Accounts()[0].ID, oregon)
	if err != nil {
		t.Fatal(err)
	}
	all, err := nics.NetworkInterfaces()
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for all[i].VPCID != vpc1 || all[i].Attachment == nil || all[i].Attachment.InstanceID == "" {
		i++
	}
	id, vm := all[i].ID, all[i].Attachment.InstanceID
	l.create(l.secret(goodCreds), l.cpa(), l.ofInterfaces("interfaces", v1alpha1.NetworkInterfaceSelector{InterfaceMatch: []v1alpha1.EntityMatch{{MatchID: id}}}))
	l.reconcile()
	if st := l.port(id); !st.Settable || st.AttachedTo == nil || st.AttachedTo.CloudId != vm || st.AttachedTo.Kind != v1alpha1.InterfaceOfVirtualMachine {
		t.Errorf("%+v", st)
	}
	l.create(l.ces("apps", "vms", wholeVPC(vpc1)))
	l.reconcile()
	if st := l.port(id); st.Settable || !strings.Contains(st.NotSettable, "it is of the virtual machine "+vm+", which is selected") {
		t.Errorf("%+v", st)
	}
}

// TestInterfaceChangesAreSeen: what differs between two readings and concerns an interface that is
// selected is looked at, and nothing else for its sake.
func TestInterfaceChangesAreSeen(t *testing.T) {
	t.Parallel()
	snap := func(change func(s *cloud.Snapshot)) *cloud.Snapshot {
		s := &cloud.Snapshot{
			Networks: []cloud.Network{{ID: "vpc-1"}}, VMs: []cloud.VM{{ID: "i-1", Interfaces: []string{"eni-2", "eni-3"}}},
			Interfaces: []cloud.Interface{{ID: "eni-1", NetworkID: "vpc-1"}, {ID: "eni-2", NetworkID: "vpc-1", VMID: "i-1"}, {ID: "eni-3", NetworkID: "vpc-1", VMID: "i-1"}},
		}
		change(s)
		return s
	}
	v := selection.View{Selectors: []v1alpha1.CloudEntitySelector{{Spec: v1alpha1.CloudEntitySelectorSpec{InterfaceSelector: []v1alpha1.NetworkInterfaceSelector{
		{VpcMatch: &v1alpha1.EntityMatch{MatchID: "vpc-1"}}, {InterfaceMatch: []v1alpha1.EntityMatch{{MatchID: "eni-3"}}},
	}}}}}
	before := snap(func(*cloud.Snapshot) {})
	for name, c := range map[string]struct {
		change func(*cloud.Snapshot)
		vms    []string
		want   bool
	}{
		"nothing":                        {func(*cloud.Snapshot) {}, nil, false},
		"groups of a selected one":       {func(s *cloud.Snapshot) { s.Interfaces[0].GroupIDs = []string{"sg-1"} }, nil, true},
		"groups of another one":          {func(s *cloud.Snapshot) { s.Interfaces[1].GroupIDs = []string{"sg-1"} }, nil, false},
		"it is attached":                 {func(s *cloud.Snapshot) { s.Interfaces[0].VMID = "i-1" }, nil, true},
		"another one is free":            {func(s *cloud.Snapshot) { s.Interfaces[1].VMID = "" }, nil, true},
		"it is gone":                     {func(s *cloud.Snapshot) { s.Interfaces = s.Interfaces[1:] }, nil, true},
		"the VM of a selected one":       {func(*cloud.Snapshot) {}, []string{"i-1"}, true},
		"a VM without one":               {func(*cloud.Snapshot) {}, []string{"i-2"}, false},
		"tags of another one of that VM": {func(s *cloud.Snapshot) { s.Interfaces[1].Tags = map[string]string{"a": "b"} }, nil, false},
	} {
		vms := map[string]bool{}
		for _, id := range c.vms {
			vms[id] = true
		}
		if got := touches(v, before, snap(c.change), vms); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
