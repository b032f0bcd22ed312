package inventory

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// balancerNIC is an interface of a load balancer; forgedNIC is an interface that somebody has made
// who says that it is one.
const (
	balancerNIC = "eni-0000000000000ba1a"
	forgedNIC   = "eni-0000000000000f09e"
	balancerARN = "arn:aws:elasticloadbalancing:us-west-2:123456789012:loadbalancer/app/front/50dc6c495c0c9188"
)

// serviceLab is a lab with these interfaces in the first network.
func serviceLab(t *testing.T) *lab {
	t.Helper()
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	for i := range state.Regions {
		r := &state.Regions[i]
		if r.Name != oregon {
			continue
		}
		like := r.NetworkInterfaces[slices.IndexFunc(r.NetworkInterfaces, func(n world.NetworkInterface) bool { return n.VPCID == vpc1 })]
		for k, id := range []string{balancerNIC, forgedNIC} {
			n := like
			n.ID, n.MAC, n.Attachment, n.Status, n.Description = id, "02:00:00:00:0b:0"+string('1'+rune(k)), nil, world.StatusAvailable, "ELB app/front/50dc6c495c0c9188"
			last := like.PrivateIPs[0].Addr
			for range 200 + k {
				last = last.Next()
			}
			n.PrivateIPs, n.IPv6, n.Tags = []world.PrivateIP{{Addr: last, Primary: true}}, nil, world.Tags{"team": "edge"}
			if id == balancerNIC {
				n.RequesterManaged, n.RequesterID, n.Status = true, "amazon-elb", world.StatusInUse
				n.Attachment = &world.Attachment{ID: "ela-attach-1", DeviceIndex: 1, Status: "attached"}
			}
			r.NetworkInterfaces = append(r.NetworkInterfaces, n)
		}
	}
	l := newLabWith(t, sim.Options{State: state})
	l.direct = true
	return l
}

// since are the actions that were called after the first n, sorted, and how many there are now.
func (l *lab) since(n int) (out []string, all int) {
	calls := l.server.Journal().Calls(0)
	for _, c := range calls[n:] {
		out = append(out, c.Action)
	}
	slices.Sort(out)
	return out, len(calls)
}

func (l *lab) services() []string { return names[v1alpha1.CloudNativeServiceList](l) }

// TestServices: a selector brings native services into its namespace, with an entity that policies
// select; without one nothing is asked, and nothing is there. What calls itself a service and is
// none is not imported.
func TestServices(t *testing.T) {
	t.Parallel()
	l := serviceLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("apps", "vms", wholeVPC(vpc1)))
	l.reconcile()
	without, so := l.since(0)
	if got := l.services(); len(got) > 0 || condition(l.account().Status.Conditions, v1alpha1.ConditionServicesRead) != "" {
		t.Fatalf("%v", got)
	}
	want := &v1alpha1.CloudEntitySelector{}
	*want = *l.ces("apps", "services")
	want.Spec.NativeSelector = []v1alpha1.NativeServiceSelector{{VpcMatch: &v1alpha1.EntityMatch{MatchID: vpc1}, Kind: v1alpha1.NativeServiceApplicationLoadBalancer}}
	l.create(want)
	l.reconcile()
	with, so := l.since(so)
	t.Logf("%d calls without services, %d with", len(without), len(with))
	objects := l.services()
	if len(objects) != 1 || !strings.HasPrefix(objects[0], "apps/applicationloadbalancer-front-") {
		t.Fatalf("%v", objects)
	}
	name := strings.TrimPrefix(objects[0], "apps/")
	object := get(l, &v1alpha1.CloudNativeService{}, "apps", name)
	st := object.Status
	if st.CloudName != "front" || st.Kind != v1alpha1.NativeServiceApplicationLoadBalancer || st.CloudVpcId != vpc1 || st.Region != oregon || st.Settable || !strings.Contains(st.NotSettable, "its API is not read") || len(st.NetworkInterfaces) != 1 ||
		st.NetworkInterfaces[0].Name != balancerNIC || len(st.SecurityGroupIds) == 0 || condition(st.Conditions, v1alpha1.ConditionAddressed) != "True OK" || condition(st.Conditions, v1alpha1.ConditionObserved) != "True OK" {
		t.Errorf("%+v", st)
	}
	entity := get(l, &antreav1alpha2.ExternalEntity{}, "apps", v1alpha1.ServiceEntityNamePrefix+name)
	for key, value := range map[string]string{
		v1alpha1.LabelKind: "cloudnativeservice", v1alpha1.LabelCloudServiceKind: "ApplicationLoadBalancer", v1alpha1.LabelCloudServiceName: "front", v1alpha1.LabelNamespace: "apps",
		v1alpha1.LabelCloudVPCUID: vpc1, v1alpha1.LabelCloudRegion: oregon, v1alpha1.LabelOwnerService: name, v1alpha1.LabelVPCName: vpc1,
	} {
		if entity.Labels[key] != value {
			t.Errorf("label %s is %q, want %q", key, entity.Labels[key], value)
		}
	}
	if got := entity.Spec; len(got.Endpoints) != 1 || got.Endpoints[0].IP != st.NetworkInterfaces[0].IPs[0].Address || got.ExternalNode != "cloud/clouds/acc" {
		t.Errorf("%+v", got)
	}
	key := types.NamespacedName{Namespace: "apps", Name: entity.Name}
	if got := l.inv.Services("clouds/acc"); len(got) != 1 || got[key].Region != oregon || got[key].ID != st.CloudId {
		t.Errorf("%+v", got)
	}
	selector := get(l, &v1alpha1.CloudEntitySelector{}, "apps", "services").Status
	if selector.MatchedServices == nil || *selector.MatchedServices != 1 || condition(selector.Conditions, v1alpha1.ConditionMatched) != "True OK" {
		t.Errorf("%+v", selector)
	}
	if got := condition(l.account().Status.Conditions, v1alpha1.ConditionServicesRead); got == "" {
		t.Error("nothing is said about reading services")
	}
	// The VMs' selector is as it was.
	if vms := get(l, &v1alpha1.CloudEntitySelector{}, "apps", "vms").Status; vms.MatchedServices != nil || *vms.MatchedVMs == 0 {
		t.Errorf("%+v", vms)
	}

	// Nothing changes: nothing is written.
	l.takeWrites()
	l.advance(2 * time.Minute)
	l.reconcile()
	if got := l.takeWrites(); len(got) > 0 {
		t.Errorf("written at rest: %v", got)
	}
	// The selector goes, and with it what it has imported, and the questions.
	if err := l.api.Delete(l.Context(), want); err != nil {
		t.Fatal(err)
	}
	l.reconcile()
	_, so = l.since(so)
	if got := l.services(); len(got) > 0 || slices.ContainsFunc(l.entities(), func(e string) bool { return strings.Contains(e, v1alpha1.ServiceEntityNamePrefix) }) {
		t.Errorf("left: %v, %v", got, l.entities())
	}
	l.advance(2 * time.Minute)
	l.reconcile()
	if got, _ := l.since(so); !reflect.DeepEqual(got, slices.DeleteFunc(without, func(c string) bool { return c == "GetCallerIdentity" })) {
		t.Errorf("calls without a selector for services: %v, before %v", got, without)
	}
}

// TestServicesNotGranted: a namespace that the account does not let select gets no service, and
// nothing is asked for its sake.
func TestServicesNotGranted(t *testing.T) {
	t.Parallel()
	l := serviceLab(t)
	account := l.cpa()
	account.Spec.AllowedNamespaces = &v1alpha1.NamespaceGrant{Names: []string{"apps"}}
	thief := l.ces("thieves", "all")
	thief.Spec.NativeSelector = []v1alpha1.NativeServiceSelector{{Kind: v1alpha1.NativeServiceApplicationLoadBalancer}}
	l.create(l.secret(goodCreds), account, thief)
	l.reconcile()
	if got := l.services(); len(got) > 0 {
		t.Errorf("%v", got)
	}
	if got := get(l, &v1alpha1.CloudEntitySelector{}, "thieves", "all").Status; condition(got.Conditions, v1alpha1.ConditionReady) != "False NotGranted" || got.MatchedServices != nil {
		t.Errorf("%+v", got)
	}
	if got := condition(l.account().Status.Conditions, v1alpha1.ConditionServicesRead); got != "" {
		t.Errorf("services are asked about: %s", got)
	}
}

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
		if wrong := checkSelector(&v1alpha1.CloudEntitySelector{Spec: v1alpha1.CloudEntitySelectorSpec{NativeSelector: entries}}); wrong == "" {
			t.Errorf("%+v is taken for good", entries)
		}
	}
}

// TestKeptServices: a service whose API cannot be read since the start is known by its object, as
// far as its interfaces are still those of a service; what they have of addresses is what counts.
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
	s := &syncer{natives: map[types.NamespacedName]*v1alpha1.CloudNativeService{client.ObjectKeyFromObject(object): object}}
	got := s.keptServices([]*cloud.Snapshot{snap})[oregon]
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
	got = s.keptServices([]*cloud.Snapshot{&unread})[oregon]
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
		if got := s.keptServices([]*cloud.Snapshot{&other}); len(got[oregon]) > 0 {
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
	d := compute(view{account: types.NamespacedName{Namespace: "a", Name: "acc"}, provider: v1alpha1.CloudProviderAWS,
		selectors: []v1alpha1.CloudEntitySelector{plan, vms},
		snapshots: []*cloud.Snapshot{{Scope: cloud.Scope{Region: "eu-west-1"}, Services: []cloud.Service{
			{ID: "arn:db", Kind: cloud.RDSInstance, Name: "db", NetworkID: "vpc-1", Tags: map[string]string{
				"team": "shop", cloud.TagFormer: "sg-1", cloud.TagFormer + ".1": " sg-2", cloud.TagSignature: "v1 x", cloud.TagGuard: ""}},
		}}}})
	for key, ref := range d.serviceRefs {
		if ref.Mode != string(v1alpha1.ModePlan) || ref.ModeReason != "CloudEntitySelector a/plan" {
			t.Errorf("%+v", ref)
		}
		if labels := d.entities[key].Labels; labels[v1alpha1.LabelTagPrefix+"team"] != "shop" || len(labels) == 0 {
			t.Errorf("%v", labels)
		}
	}
	for _, n := range d.natives {
		if n.Status.Mode != "plan" || len(n.Status.Tags) != 2 || !slices.Equal(n.Status.FormerSecurityGroupIds, []string{"sg-1", "sg-2"}) {
			t.Errorf("%+v", n.Status)
		}
	}
	if len(d.serviceRefs) != 1 || len(d.natives) != 1 {
		t.Errorf("%+v", d.serviceRefs)
	}
}
