package selection

import (
	"net/netip"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// TestSelectService: what an entry asks for narrows; one that asks for nothing selects nothing.
func TestSelectService(t *testing.T) {
	s := &cloud.Service{ID: balancerARN, Kind: cloud.ApplicationLoadBalancer, Name: "front", NetworkID: "vpc-1", Tags: map[string]string{"env": "prod"}}
	network := &cloud.Network{ID: "vpc-1", Name: "main"}
	for text, c := range map[string]struct {
		e    v1alpha1.NativeServiceSelector
		want bool
	}{
		"nothing":        {v1alpha1.NativeServiceSelector{}, false},
		"kind":           {v1alpha1.NativeServiceSelector{Kind: "ApplicationLoadBalancer"}, true},
		"other kind":     {v1alpha1.NativeServiceSelector{Kind: "RDSInstance"}, false},
		"network":        {v1alpha1.NativeServiceSelector{VpcMatch: &v1alpha1.EntityMatch{MatchName: "main"}}, true},
		"other network":  {v1alpha1.NativeServiceSelector{Kind: "ApplicationLoadBalancer", VpcMatch: &v1alpha1.EntityMatch{MatchID: "vpc-2"}}, false},
		"name":           {v1alpha1.NativeServiceSelector{ServiceMatch: []v1alpha1.EntityMatch{{MatchName: "back"}, {MatchName: "front"}}}, true},
		"id":             {v1alpha1.NativeServiceSelector{ServiceMatch: []v1alpha1.EntityMatch{{MatchID: balancerARN}}}, true},
		"other name":     {v1alpha1.NativeServiceSelector{ServiceMatch: []v1alpha1.EntityMatch{{MatchName: "fron"}}}, false},
		"tag":            {v1alpha1.NativeServiceSelector{TagMatch: []v1alpha1.TagMatch{{Key: "env", Values: []string{"test", "prod"}}}}, true},
		"other value":    {v1alpha1.NativeServiceSelector{TagMatch: []v1alpha1.TagMatch{{Key: "env", Values: []string{"test"}}}}, false},
		"one tag of two": {v1alpha1.NativeServiceSelector{TagMatch: []v1alpha1.TagMatch{{Key: "env"}, {Key: "team"}}}, false},
	} {
		if got := selectService(c.e, s, network); got != c.want {
			t.Errorf("%s: %v", text, got)
		}
	}
	for _, entries := range [][]v1alpha1.NativeServiceSelector{{{}}, {{VpcMatch: &v1alpha1.EntityMatch{}}}, {{ServiceMatch: []v1alpha1.EntityMatch{{}}}}} {
		if wrong := Check(&v1alpha1.CloudEntitySelector{Spec: v1alpha1.CloudEntitySelectorSpec{NativeSelector: entries}}); wrong == "" {
			t.Errorf("%+v is taken for good", entries)
		}
	}
}

// TestKeptServices: a service whose API cannot be read since the start is known by its object, as
// far as its interfaces still belong to a service; what they have of addresses is what counts.
func TestKeptServices(t *testing.T) {
	object := &v1alpha1.CloudNativeService{Status: v1alpha1.CloudNativeServiceStatus{
		ImportedStatus: v1alpha1.ImportedStatus{CloudId: "arn:orders", CloudName: "orders", Region: oregon, CloudVpcId: "vpc-1"},
		Kind:           v1alpha1.NativeServiceRDSInstance,
		Ports:          []v1alpha1.NativeServicePort{{Name: "postgres", Protocol: "TCP", Port: 5432}},
		NetworkInterfaces: []v1alpha1.AttachedInterface{
			{Name: "eni-1", IPs: []v1alpha1.IPAddress{{Address: "10.0.0.9"}}}, {Name: "eni-2"}, {Name: "eni-3"}, {Name: "eni-4"},
		},
	}}
	addr := func(a string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(a)} }
	snap := &cloud.Snapshot{Scope: cloud.Scope{Region: oregon},
		Interfaces: []cloud.Interface{
			{ID: "eni-1", NetworkID: "vpc-1", Managed: true, PrivateIPs: addr("10.0.0.1")}, {ID: "eni-2", NetworkID: "vpc-1", PrivateIPs: addr("10.0.0.2")},
			{ID: "eni-3", NetworkID: "vpc-2", Managed: true, PrivateIPs: addr("10.0.0.3")},
		},
		ServiceFaults: []cloud.ServiceFault{{API: "rds", Kinds: []cloud.ServiceKind{cloud.RDSInstance}}},
	}
	v := View{Services: map[types.NamespacedName]*v1alpha1.CloudNativeService{client.ObjectKeyFromObject(object): object}}
	got := v.keptServices(snap)
	if len(got) != 1 || got[0].ID != "arn:orders" || !slices.Equal(got[0].Interfaces, []string{"eni-1"}) || !slices.Equal(got[0].Private, addr("10.0.0.1")) ||
		!slices.Equal(got[0].Ports, []cloud.ServicePort{{Name: "postgres", Protocol: cloud.TCP, Port: 5432}}) {
		t.Errorf("%+v", got)
	}
	// The front ends of a load balancer of Azure are nobody's interfaces: its object tells them.
	object.Status.Kind, object.Status.NetworkInterfaces = v1alpha1.NativeServiceLoadBalancer, []v1alpha1.AttachedInterface{{Name: "front", IPs: []v1alpha1.IPAddress{
		{AddressType: v1alpha1.AddressTypeInternalIP, Address: "10.0.3.10"}, {AddressType: v1alpha1.AddressTypeExternalIP, Address: "203.0.113.10"}, {Address: "forged"},
	}}}
	unread := *snap
	unread.ServiceFaults = []cloud.ServiceFault{{API: "load balancers", Kinds: []cloud.ServiceKind{cloud.LoadBalancer}}}
	got = v.keptServices(&unread)
	if len(got) != 1 || !slices.Equal(got[0].Private, addr("10.0.3.10")) || !slices.Equal(got[0].Public, addr("203.0.113.10")) || len(got[0].nics) != 1 {
		t.Errorf("%+v", got)
	}
	object.Status.Kind, object.Status.NetworkInterfaces = v1alpha1.NativeServiceRDSInstance, []v1alpha1.AttachedInterface{{Name: "eni-1"}}
	for what, change := range map[string]func(*cloud.Snapshot){
		"read again": func(s *cloud.Snapshot) { s.ServiceFaults = nil },
		"another API fails": func(s *cloud.Snapshot) {
			s.ServiceFaults = []cloud.ServiceFault{{Kinds: []cloud.ServiceKind{cloud.VPCEndpoint}}}
		},
		"it is shown":          func(s *cloud.Snapshot) { s.Services = []cloud.Service{{ID: "arn:orders"}} },
		"no interface is left": func(s *cloud.Snapshot) { s.Interfaces = nil },
	} {
		other := *snap
		change(&other)
		if got := v.keptServices(&other); len(got) > 0 {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// TestServiceMode: what may be done to a service say the selectors that select it, as for VMs, and
// what it remembers of its own groups is neither a label nor its owner's tag.
func TestServiceMode(t *testing.T) {
	plan := v1alpha1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "plan"}, Spec: v1alpha1.CloudEntitySelectorSpec{
		Mode: v1alpha1.ModePlan, NativeSelector: []v1alpha1.NativeServiceSelector{{Kind: v1alpha1.NativeServiceRDSInstance}}}}
	vms := v1alpha1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "vms"}, Spec: v1alpha1.CloudEntitySelectorSpec{
		Mode: v1alpha1.ModeReleased, VMSelector: []v1alpha1.VirtualMachineSelector{{VpcMatch: &v1alpha1.EntityMatch{MatchID: "vpc-1"}}}}}
	d := Compute(View{Account: types.NamespacedName{Namespace: "a", Name: "acc"}, Provider: v1alpha1.CloudProviderAWS,
		Selectors: []v1alpha1.CloudEntitySelector{plan, vms},
		Snapshots: []*cloud.Snapshot{{Scope: cloud.Scope{Region: "eu-west-1"}, Services: []cloud.Service{
			{ID: "arn:db", Kind: cloud.RDSInstance, Name: "db", NetworkID: "vpc-1", Tags: map[string]string{
				"team": "shop", cloud.TagFormer: "sg-1", cloud.TagFormer + ".1": " sg-2", cloud.TagSignature: "v1 x", cloud.TagGuard: ""}},
		}}}})
	for key, ref := range d.ServiceRefs {
		if ref.Mode != string(v1alpha1.ModePlan) || ref.ModeReason != "CloudEntitySelector a/plan" {
			t.Errorf("%+v", ref)
		}
		if labels := d.Entities[key].Labels; labels[v1alpha1.LabelTagPrefix+"team"] != "shop" || len(labels) == 0 {
			t.Errorf("%v", labels)
		}
	}
	for _, n := range d.Services {
		if n.Status.Mode != "plan" || len(n.Status.Tags) != 2 || !slices.Equal(n.Status.FormerSecurityGroupIds, []string{"sg-1", "sg-2"}) {
			t.Errorf("%+v", n.Status)
		}
	}
	if len(d.ServiceRefs) != 1 || len(d.Services) != 1 {
		t.Errorf("%+v", d.ServiceRefs)
	}
}
