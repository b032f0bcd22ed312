package noderoutes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// region is a cloud of one region; it fails as fails says.
type region struct {
	cloud.Provider
	world
	name  string
	fails func(cloud.RouteOp) error
	read  error
	done  []string
}

// Router implements cloud.HasRouter.
func (r *region) Router() cloud.Router { return r }

func (r *region) RouteTables(_ context.Context, s cloud.Scope, ids []string) (out []cloud.RouteTable, err error) {
	if r.read != nil || s.Region != r.name {
		return nil, r.read
	}
	for _, t := range r.found().Tables {
		if slices.Contains(ids, t.ID) {
			out = append(out, t)
		}
	}
	return out, nil
}

func (r *region) Forwarders(_ context.Context, _ cloud.Scope, addresses []netip.Addr, ids []string) (out []cloud.Forwarder, err error) {
	for _, f := range r.found().Forwarders {
		if slices.Contains(ids, f.ID) || slices.ContainsFunc(f.Addresses, func(a netip.Addr) bool { return slices.Contains(addresses, a) }) {
			out = append(out, f)
		}
	}
	return out, nil
}

func (r *region) Route(_ context.Context, _ cloud.Scope, op cloud.RouteOp) error {
	if r.fails != nil {
		if err := r.fails(op); err != nil {
			return err
		}
	}
	r.done = append(r.done, op.String())
	return r.do(op)
}

// bench is the loop with an account, two Nodes and a cloud.
type bench struct {
	*testing.T
	kube    client.Client
	loop    *Loop
	cloud   *region
	events  *events.FakeRecorder
	account client.ObjectKey
}

func node(name, vm, address, pods string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "aws:///eu-west-1a/" + vm, PodCIDRs: []string{pods}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: address}}},
	}
}

func newBench(t *testing.T) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(cloudv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	account := &cloudv1.CloudProviderAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "aws"},
		Spec: cloudv1.CloudProviderAccountSpec{AWSConfig: &cloudv1.CloudProviderAccountAWSConfig{
			Region: []string{"eu-west-1", "us-east-1"}, NodeRoutes: &cloudv1.NodeRoutes{ClusterCIDRs: []string{"10.244.0.0/16"}, RouteTables: []string{"rtb-1"}},
		}},
	}
	b := &bench{T: t, events: events.NewFakeRecorder(100), account: client.ObjectKeyFromObject(account)}
	b.kube = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(account).
		WithObjects(account, node("a", "i-1", "172.16.0.1", "10.244.1.0/24"), node("b", "i-2", "172.16.0.2", "10.244.2.0/24")).Build()
	nic := func(id, vm, address string, forwards bool) *cloud.Forwarder {
		return &cloud.Forwarder{ID: id, VMID: vm, NetworkID: "vpc-1", Addresses: []netip.Addr{netip.MustParseAddr(address)}, Forwards: forwards}
	}
	b.cloud = &region{name: "eu-west-1", world: world{
		tables: map[string]*cloud.RouteTable{"rtb-1": {ID: "rtb-1", NetworkID: "vpc-1"}},
		nics:   map[string]*cloud.Forwarder{"eni-1": nic("eni-1", "i-1", "172.16.0.1", false), "eni-2": nic("eni-2", "i-2", "172.16.0.2", true)},
	}}
	b.loop = New(Options{
		Client: b.kube, Cluster: "us", Provider: func(string) (cloud.Provider, bool) { return b.cloud, true }, Events: b.events,
		Clock: clocktesting.NewFakeClock(time.Unix(0, 0)), Log: logr.Discard(),
	})
	return b
}

func (b *bench) get() *cloudv1.CloudProviderAccount {
	b.Helper()
	var a cloudv1.CloudProviderAccount
	if err := b.kube.Get(b.Context(), b.account, &a); err != nil {
		b.Fatal(err)
	}
	return &a
}

// round runs one and returns what was done, the condition, and what is written down.
func (b *bench) round() (done, condition, written string) {
	b.Helper()
	b.cloud.done = nil
	b.loop.round(b.Context())
	a := b.get()
	if c := conditionOf(a); c != nil {
		condition = fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
	}
	if s := a.Status.NodeRoutes; s != nil {
		for _, t := range s.Tables {
			written += fmt.Sprintf("%s/%s %v %d ", t.Region, t.ID, t.ClusterCIDRs, t.Routes)
		}
		written += strings.Join(s.Interfaces, " ")
	}
	return strings.Join(b.cloud.done, "; "), condition, strings.TrimSpace(written)
}

func (b *bench) expect(done, condition, written string) {
	b.Helper()
	d, c, w := b.round()
	if d != done || c != condition || w != written {
		b.Errorf("done %q\ncondition %q\nwritten %q\nwant %q\n%q\n%q", d, c, w, done, condition, written)
	}
}

func (b *bench) edit(change func(*cloudv1.CloudProviderAccount)) {
	b.Helper()
	a := b.get()
	change(a)
	if err := b.kube.Update(b.Context(), a); err != nil {
		b.Fatal(err)
	}
}

const (
	bothLead = "True OK 2 routes lead to Pods of the cluster's 2 Nodes"
	bothKept = "eu-west-1/rtb-1 [10.244.0.0/16] 2 eu-west-1/eni-1"
)

// TestNodesComeAndGo: routes follow the Nodes, what the account no longer asks for is taken back,
// and an interface that forwarded before us goes on.
func TestNodesComeAndGo(t *testing.T) {
	b := newBench(t)
	b.expect("ClaimRouteTable rtb-1; SetForwarding eni-1 true; PutRoute rtb-1 10.244.1.0/24 to eni-1; PutRoute rtb-1 10.244.2.0/24 to eni-2", bothLead, bothKept)
	b.expect("", bothLead, bothKept)
	if err := b.kube.Delete(t.Context(), node("b", "", "", "")); err != nil {
		t.Fatal(err)
	}
	b.expect("DeleteRoute rtb-1 10.244.2.0/24 to eni-2", "True OK 1 routes lead to Pods of the cluster's 1 Nodes", "eu-west-1/rtb-1 [10.244.0.0/16] 1 eu-west-1/eni-1")
	if err := b.kube.Delete(t.Context(), node("a", "", "", "")); err != nil {
		t.Fatal(err)
	}
	if done, _, _ := b.round(); done != "" {
		t.Errorf("while no Node can be seen: %s", done)
	}
	b.edit(func(a *cloudv1.CloudProviderAccount) { a.Spec.AWSConfig.NodeRoutes = nil })
	b.expect("DeleteRoute rtb-1 10.244.1.0/24 to eni-1; UnclaimRouteTable rtb-1; SetForwarding eni-1 false", "", "")
	if b.cloud.nics["eni-1"].Forwards || !b.cloud.nics["eni-2"].Forwards {
		t.Error("the interfaces are not as they were")
	}
	b.expect("", "", "")
}

// TestNothingIsWritten: for an account that only plans, that another instance works on, or that is
// being deleted.
func TestNothingIsWritten(t *testing.T) {
	b := newBench(t)
	b.edit(func(a *cloudv1.CloudProviderAccount) { a.Spec.Mode = cloudv1.ModePlan })
	b.expect("", "False NotRouted the account's mode is plan, so 4 changes of routes are not made", "")
	b.edit(func(a *cloudv1.CloudProviderAccount) { a.Spec.Mode = "" })
	a := b.get()
	a.Status.OtherInstance = "7"
	if err := b.kube.Status().Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	b.expect("", "False NotRouted another instance of the controller works on the account, so 4 changes of routes are not made", "")
}

// TestFailures: what fails is reported and tried again; what may be there is written down; and
// after a failure nothing is given back.
func TestFailures(t *testing.T) {
	b := newBench(t)
	full := &cloud.Error{Class: cloud.Quota, Call: "CreateRoute", Code: "RouteLimitExceeded", Err: errors.New("50 routes")}
	b.cloud.fails = func(op cloud.RouteOp) error {
		if op.Kind == cloud.RouteOpPut && op.Interface == "eni-1" {
			return full
		}
		return nil
	}
	b.expect("ClaimRouteTable rtb-1; SetForwarding eni-1 true; PutRoute rtb-1 10.244.2.0/24 to eni-2",
		"False NotRouted PutRoute rtb-1 10.244.1.0/24 to eni-1: "+full.Error(), bothKept)
	if e := <-b.events.Events; !strings.HasPrefix(e, "Warning NodesNotRouted PutRoute") {
		t.Error(e)
	}
	b.cloud.fails = func(cloud.RouteOp) error {
		return &cloud.Error{Class: cloud.Throttled, Call: "CreateRoute", Err: errors.New("slower")}
	}
	if done, c, _ := b.round(); done != "" || !strings.HasPrefix(c, "False Throttled ") {
		t.Errorf("%s, %s", done, c)
	}
	b.cloud.fails = nil
	b.expect("PutRoute rtb-1 10.244.1.0/24 to eni-1", bothLead, bothKept)
	if e := <-b.events.Events; !strings.HasPrefix(e, "Normal NodesRouted ") {
		t.Error(e)
	}
	// Of what cannot be read nothing is changed, and what is there stays written down.
	b.cloud.read = &cloud.Error{Class: cloud.Unavailable, Call: "DescribeRouteTables", Err: errors.New("no answer")}
	b.edit(func(a *cloudv1.CloudProviderAccount) { a.Spec.AWSConfig.NodeRoutes = nil })
	if done, c, written := b.round(); done != "" || written != bothKept || !strings.HasPrefix(c, "False Unreachable region eu-west-1: ") {
		t.Errorf("%s, %s, %s", done, c, written)
	}
	b.cloud.read = nil
	b.cloud.fails = func(op cloud.RouteOp) error {
		if op.Kind == cloud.RouteOpDelete && op.Interface == "eni-2" {
			return full
		}
		return nil
	}
	if done, _, written := b.round(); done != "DeleteRoute rtb-1 10.244.1.0/24 to eni-1" || written != bothKept {
		t.Errorf("%s, %s", done, written)
	}
	b.cloud.fails = nil
	b.expect("DeleteRoute rtb-1 10.244.2.0/24 to eni-2; UnclaimRouteTable rtb-1; SetForwarding eni-1 false", "", "")
}

// TestClaims: a table that another control plane writes is left alone, also if it claims it between
// the look and the tag; a table that is nowhere is reported.
func TestClaims(t *testing.T) {
	b := newBench(t)
	b.edit(func(a *cloudv1.CloudProviderAccount) {
		a.Spec.AWSConfig.NodeRoutes.RouteTables = []string{"rtb-1", "rtb-2"}
	})
	b.cloud.fails = func(op cloud.RouteOp) error {
		if op.Kind == cloud.RouteOpClaim {
			return &cloud.Error{Class: cloud.Conflict, Call: "CreateTags", Err: errors.New("claimed by them")}
		}
		return nil
	}
	done, condition, _ := b.round()
	if done != "SetForwarding eni-1 true" || !strings.HasPrefix(condition, "False NotRouted ClaimRouteTable rtb-1: ") {
		t.Errorf("%s, %s", done, condition)
	}
	b.cloud.fails = nil
	b.cloud.tables["rtb-1"].Tags = map[string]string{cloud.TagNodeRoutes: "them"}
	done, condition, written := b.round()
	want := "False TableNotFound route table rtb-2 is in none of the account's regions\nroute table rtb-1: the control plane them writes its routes; nothing is changed"
	if !strings.HasPrefix(condition, want) || strings.Contains(done, "rtb-1") {
		t.Errorf("%s, %s, %s", done, condition, written)
	}
}

// TestOddNodes: what a Node says of itself that cannot be is reported, and stops no other Node.
func TestOddNodes(t *testing.T) {
	b := newBench(t)
	odd := node("odd", "i-3", "not an address", "10.244.9.0/240")
	abroad := node("abroad", "", "172.16.0.1", "10.244.8.0/24")
	abroad.Spec.ProviderID = "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/v"
	for _, n := range []*corev1.Node{odd, abroad} {
		if err := b.kube.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	done, condition, _ := b.round()
	if strings.Count(done, "PutRoute") != 2 || condition != `False NotRouted Node odd: spec.podCIDRs: "10.244.9.0/240" is no range of addresses` {
		t.Errorf("%s, %s", done, condition)
	}
}

// TestAzure: an account of Azure names tables and machines by ids, which are the same in any case.
func TestAzure(t *testing.T) {
	b := newBench(t)
	const scope = "/subscriptions/s/resourceGroups/g/providers/"
	machine, table := scope+"Microsoft.Compute/virtualMachines/A", scope+"Microsoft.Network/routeTables/Nodes"
	key := strings.ToLower(table)
	b.cloud.tables = map[string]*cloud.RouteTable{key: {ID: key, NetworkID: "vnet"}}
	b.cloud.nics = map[string]*cloud.Forwarder{"/nic": {ID: "/nic", VMID: strings.ToLower(machine), NetworkID: "vnet", Addresses: []netip.Addr{netip.MustParseAddr("172.16.0.1")}}}
	var n corev1.Node
	if err := b.kube.Get(t.Context(), client.ObjectKey{Name: "a"}, &n); err != nil {
		t.Fatal(err)
	}
	n.Spec.ProviderID = "azure://" + machine
	if err := b.kube.Update(t.Context(), &n); err != nil {
		t.Fatal(err)
	}
	b.edit(func(a *cloudv1.CloudProviderAccount) {
		a.Spec.AWSConfig = nil
		a.Spec.AzureConfig = &cloudv1.CloudProviderAccountAzureConfig{
			Region: []string{"eu-west-1"}, NodeRoutes: &cloudv1.AzureNodeRoutes{ClusterCIDRs: []string{"10.244.0.0/16"}, RouteTables: []string{table}},
		}
	})
	leads, kept := "True OK 1 routes lead to Pods of the cluster's 2 Nodes", "eu-west-1/"+key+" [10.244.0.0/16] 1 eu-west-1//nic"
	b.expect("ClaimRouteTable "+key+"; SetForwarding /nic true; PutRoute "+key+" 10.244.1.0/24 to /nic", leads, kept)
	b.edit(func(a *cloudv1.CloudProviderAccount) {
		a.Spec.AzureConfig.NodeRoutes.RouteTables[0] = strings.ToUpper(table)
	})
	b.expect("", leads, kept)
	b.cloud.tables[key].NetworkID = ""
	b.expect("DeleteRoute "+key+" 10.244.1.0/24 to /nic; SetForwarding /nic false",
		"False NotRouted route table "+key+": no subnet uses it, or subnets of several networks do: nothing can be led to Nodes there", "eu-west-1/"+key+" [10.244.0.0/16] 0")
}
