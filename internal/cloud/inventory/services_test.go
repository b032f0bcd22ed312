package inventory

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// balancerNIC is an interface of a load balancer; forgedNIC is an interface that somebody has made,
// with the description of one.
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
		like := r.NetworkInterfaces[slices.IndexFunc(r.NetworkInterfaces, func(n aws.NetworkInterface) bool { return n.VPCID == vpc1 })]
		for k, id := range []string{balancerNIC, forgedNIC} {
			n := like
			n.ID, n.MAC, n.Attachment, n.Status, n.Description = id, "02:00:00:00:0b:0"+string('1'+rune(k)), nil, aws.StatusAvailable, "ELB app/front/50dc6c495c0c9188"
			last := like.PrivateIPs[0].Addr
			for range 200 + k {
				last = last.Next()
			}
			n.PrivateIPs, n.IPv6, n.Tags = []aws.PrivateIP{{Addr: last, Primary: true}}, nil, aws.Tags{"team": "edge"}
			if id == balancerNIC {
				n.RequesterManaged, n.RequesterID, n.Status = true, "amazon-elb", aws.StatusInUse
				n.Attachment = &aws.Attachment{ID: "ela-attach-1", DeviceIndex: 1, Status: "attached"}
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
