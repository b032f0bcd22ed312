package status

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	upstreamv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	upstreamv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func clockAt() time.Time { return noon }

func scheme(t testing.TB) *k8sruntime.Scheme {
	t.Helper()
	s := k8sruntime.NewScheme()
	for _, add := range []func(*k8sruntime.Scheme) error{clientgoscheme.AddToScheme, cloudv1.AddToScheme, v1beta1.AddToScheme, setv1alpha1.AddToScheme, upstreamv1alpha1.Install, upstreamv1alpha2.Install} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func ptr[T any](v T) *T { return &v }

// healthy are the objects of a small cluster in which everything is well.
func healthy() []client.Object {
	synced := metav1.NewTime(noon.Add(-20 * time.Second))
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "real"},
		Spec: cloudv1.CloudProviderAccountSpec{AWSConfig: &cloudv1.CloudProviderAccountAWSConfig{Quotas: &cloudv1.AWSQuotas{RulesPerGroup: 100}}},
		Status: cloudv1.CloudProviderAccountStatus{CloudAccountID: "111122223333", GuardedVMs: ptr(int32(1)), DeletionPolicy: cloudv1.DeletionProtect,
			Regions:    []cloudv1.RegionStatus{{Name: "eu-west-1", LastSyncTime: &synced, VMs: 2, Vpcs: 1}},
			Conditions: []metav1.Condition{{Type: cloudv1.ConditionReady, Status: metav1.ConditionTrue, Reason: cloudv1.ReasonOK}}}}
	selector := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all"},
		Status: cloudv1.CloudEntitySelectorStatus{Conditions: []metav1.Condition{{Type: cloudv1.ConditionReady, Status: metav1.ConditionTrue}}}}
	return []client.Object{account, selector,
		vm("db-1", "", cloudv1.PolicyPhaseRealized), vm("web-1", cloudv1.ModePlan, cloudv1.PolicyPhaseSuspended), policy("db-from-app", v1beta1.NetworkPolicyRealized, ""),
		&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pods-only", UID: "pods-only"}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseName}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr("nephele up"), LeaseDurationSeconds: ptr(int32(60)), RenewTime: &metav1.MicroTime{Time: noon.Add(-3 * time.Second)}}},
		&v1beta1.AntreaControllerInfo{ObjectMeta: metav1.ObjectMeta{Name: controllerInfo}, Version: "v1.2.3"}}
}

func vm(name string, mode cloudv1.EnforcementMode, phase cloudv1.PolicyPhase) *cloudv1.VirtualMachine {
	return &cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "i-" + name,
		Labels: map[string]string{cloudv1.LabelCPANamespace: "cloud", cloudv1.LabelCPAName: "real"}},
		Status: cloudv1.VirtualMachineStatus{CloudName: name, Mode: string(mode), NetworkInterfaces: []cloudv1.AttachedInterface{{SecurityGroupIds: []string{"sg-1", "sg-2"}}},
			Policies: []cloudv1.AppliedPolicy{{Name: "db-from-app", Namespace: "shop", Kind: "AntreaNetworkPolicy", UID: "db-from-app", Phase: phase,
				Message: "needs 73 ingress rules in one group, quota 60"}}}}
}

// until gives a release an end, so long after now.
func until(vm *cloudv1.VirtualMachine, left time.Duration) *cloudv1.VirtualMachine {
	vm.Status.ModeUntil = &metav1.Time{Time: clockAt().Add(left)}
	return vm
}

func policy(name string, phase v1beta1.NetworkPolicyPhase, message string) *v1beta1.NetworkPolicy {
	return &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Generation: 3},
		Status: v1beta1.NetworkPolicyStatus{Phase: phase, ObservedGeneration: 3, DesiredNodesRealized: 1, Conditions: []v1beta1.NetworkPolicyCondition{
			{Type: v1beta1.NetworkPolicyConditionRealizable, Status: metav1.ConditionTrue, Message: message}}}}
}

func collect(t *testing.T, objects []client.Object, asked ...string) *Report {
	t.Helper()
	r, err := Collect(t.Context(), fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).Build(), clockAt, asked...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEverythingIsWell(t *testing.T) {
	r := collect(t, healthy(), "shop/db-from-app")
	if r.State != Well || len(r.Attention) != 0 {
		t.Fatalf("%s: %+v", r.State, r.Attention)
	}
	a := r.Accounts[0]
	if a.Name != "cloud/real" || *a.Regions[0].AgeSeconds != 20 || a.Regions[0].Stale || a.GuardedVMs != 1 || a.Quotas != (Quotas{100, 5, 2500, 2}) {
		t.Errorf("account %+v", a)
	}
	if r.VMs.Total != 2 || r.VMs.ByMode["enforce"] != 1 || r.VMs.ByMode["plan"] != 1 || r.VMs.Realized != 1 {
		t.Errorf("VMs %+v", r.VMs)
	}
	if r.Policies.Total != 2 || r.Policies.ByPhase[Realized] != 1 || r.Policies.ByPhase[NotReported] != 1 {
		t.Errorf("policies %+v", r.Policies)
	}
	if !r.Controller.Works || r.Controller.Version != "v1.2.3" {
		t.Errorf("controller %+v", r.Controller)
	}
	if done, missing := r.Settled(); !done {
		t.Error(missing)
	}
}

// TestIdle: a policy that applies to nothing is not Realized, whatever has computed it, and waiting
// for it does not end.
func TestIdle(t *testing.T) {
	for name, phase := range map[string]v1beta1.NetworkPolicyPhase{"ours": v1beta1.NetworkPolicyIdle, "of an Antrea Controller": v1beta1.NetworkPolicyRealized} {
		p := policy("nobody", phase, "nothing is selected")
		p.Status.DesiredNodesRealized = 0
		r := collect(t, append(healthy(), p), "shop/nobody")
		if r.Policies.ByPhase[Idle] != 1 || len(r.Notes) != 1 || r.Notes[0].Reason != string(Idle) || r.Notes[0].Message == "" || r.State != Well {
			t.Errorf("%s: %+v, notes %+v, %s", name, r.Policies, r.Notes, r.State)
		}
		if done, missing := r.Settled(); done || !strings.Contains(missing, "Idle") {
			t.Errorf("%s: %v, %s", name, done, missing)
		}
	}
}

// TestStale: where events come a region may rest for five intervals before what is known is old.
func TestStale(t *testing.T) {
	for events, limit := range map[metav1.ConditionStatus]time.Duration{"": 150 * time.Second, metav1.ConditionFalse: 150 * time.Second, metav1.ConditionTrue: 390 * time.Second} {
		for past, want := range map[time.Duration]bool{0: false, time.Second: true} {
			objects := healthy()
			a := objects[0].(*cloudv1.CloudProviderAccount)
			a.Status.Regions[0].LastSyncTime = &metav1.Time{Time: noon.Add(-limit - past)}
			if events != "" {
				a.Status.Conditions = append(a.Status.Conditions, metav1.Condition{Type: cloudv1.ConditionEventsReceived, Status: events, Reason: "Any"})
			}
			if r := collect(t, objects).Accounts[0].Regions[0]; r.Stale != want {
				t.Errorf("events %q, read %d s ago: stale %t", events, *r.AgeSeconds, r.Stale)
			}
		}
	}
}

// TestWhatNeedsAttention: each fault by itself changes the judgement and is named with its object.
func TestWhatNeedsAttention(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) func([]client.Object) []client.Object {
		return func(o []client.Object) []client.Object {
			a := o[0].(*cloudv1.CloudProviderAccount)
			a.Status.Conditions = append([]metav1.Condition{{Type: kind, Status: status, Reason: reason, Message: "because"}}, a.Status.Conditions[1:]...)
			return o
		}
	}
	add := func(more ...client.Object) func([]client.Object) []client.Object {
		return func(o []client.Object) []client.Object { return append(o, more...) }
	}
	old := policy("changed", v1beta1.NetworkPolicyRealized, "")
	old.Generation = 4
	given := policy("given", v1beta1.NetworkPolicyPending, "not enforced: released")
	given.Status.Conditions[0].Reason = string(NotEnforced)
	for name, x := range map[string]struct {
		change func([]client.Object) []client.Object
		state  State
		about  string
	}{
		"account cannot be read": {condition(cloudv1.ConditionReady, metav1.ConditionFalse, "AuthFailed"), Attention, "CloudProviderAccount cloud/real Ready/AuthFailed because"},
		"a change waits":         {condition(cloudv1.ConditionBraked, metav1.ConditionTrue, "ConfirmationNeeded"), Attention, "Braked/ConfirmationNeeded because"},
		"a confirmed change":     {condition(cloudv1.ConditionBraked, metav1.ConditionFalse, "Confirmed"), UnderWay, ""},
		"another instance":       {condition(cloudv1.ConditionSoleWriter, metav1.ConditionFalse, "AnotherInstance"), Attention, "SoleWriter/AnotherInstance because nephele take-over cloud/real"},
		"break-glass":            {condition(cloudv1.ConditionBreakGlass, metav1.ConditionTrue, "BreakGlass"), Attention, "BreakGlass/BreakGlass because"},
		"break-glass on a VM":    {add(vm("glass", cloudv1.ModeBreakGlass, cloudv1.PolicyPhaseSuspended)), Attention, "takes 1 out of all policies: shop/glass"},
		"break-glass on a service": {add(&cloudv1.CloudNativeService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "rdsinstance-orders-0"}, Status: cloudv1.CloudNativeServiceStatus{
			ImportedStatus: cloudv1.ImportedStatus{CloudName: "orders", Mode: string(cloudv1.ModeBreakGlass)}}}), Attention, "takes 1 out of all policies: cns/shop/orders"},
		"break-glass that ends":        {add(until(vm("glass", cloudv1.ModeBreakGlass, cloudv1.PolicyPhaseSuspended), 119*time.Minute+30*time.Second)), Attention, "shop/glass (until 2026-03-01T13:59:30Z, 119m left)"},
		"break-glass nobody has ended": {add(until(vm("glass", cloudv1.ModeBreakGlass, cloudv1.PolicyPhaseSuspended), -time.Minute)), Attention, "shop/glass (to end since "},
		"drift":                        {condition(cloudv1.ConditionDrift, metav1.ConditionTrue, "Repaired"), UnderWay, ""},
		"authors are not checked":      {condition(cloudv1.ConditionAuthorsChecked, metav1.ConditionFalse, "PoliciesMissing"), Attention, "AuthorsChecked/PoliciesMissing"},
		"the policy server is away":    {condition(cloudv1.ConditionPoliciesReceived, metav1.ConditionFalse, "PolicyServerAway"), Attention, "PoliciesReceived/PolicyServerAway because"},
		"a policy is refused on a VM":  {add(vm("db-2", "", cloudv1.PolicyPhaseFailed)), Attention, "refused on 1 VMs, for example shop/db-2: needs 73 ingress rules in one group, quota 60"},
		"a policy is invalid":          {add(policy("bad", v1beta1.NetworkPolicyFailed, "no such tier")), Attention, "NetworkPolicy shop/bad Failed no such tier"},
		"a policy has changed":         {add(old), UnderWay, ""},
		"a policy of released VMs":     {add(given), Well, ""},
		"nobody works": {func(o []client.Object) []client.Object {
			return append(o[:len(o)-2:len(o)-2], o[len(o)-1])
		}, Attention, "controller NotRunning"},
		"the inventory is old": {func(o []client.Object) []client.Object {
			o[0].(*cloudv1.CloudProviderAccount).Status.Regions[0].LastSyncTime = &metav1.Time{Time: noon.Add(-time.Hour)}
			return o
		}, Attention, "what is known of region eu-west-1 is 1h0m0s old"},
	} {
		t.Run(name, func(t *testing.T) {
			r := collect(t, x.change(healthy()))
			if name == "drift" { // the condition Ready is replaced by these changes, so it is not known
				x.state = UnderWay
			}
			if r.State != x.state {
				t.Errorf("%s, want %s: %+v", r.State, x.state, r.Attention)
			}
			var all string
			for _, f := range r.Attention {
				all += f.About + " " + f.Reason + " " + f.Message + " " + f.Do + "\n"
			}
			if !strings.Contains(all, x.about) {
				t.Errorf("%q is not in %q", x.about, all)
			}
			if done, _ := r.Settled(); done != (x.state == Well) {
				t.Errorf("settled: %t", done)
			}
		})
	}
}

// TestPolicyInModePlan: what only modes keep from being enforced is no failure.
func TestPolicyInModePlan(t *testing.T) {
	objects := healthy()
	objects[2] = vm("db-1", cloudv1.ModePlan, cloudv1.PolicyPhaseSuspended)
	objects[4] = policy("db-from-app", v1beta1.NetworkPolicyFailed, "not enforced on 2 of 2 VMs: 2 in mode plan")
	r := collect(t, objects, "shop/db-from-app", "nobody")
	if r.State != Well || r.Policies.ByPhase[Suspended] != 1 {
		t.Errorf("%s: %+v %+v", r.State, r.Policies, r.Attention)
	}
	if done, missing := r.Settled(); done || missing != "policy nobody is Missing" {
		t.Errorf("%t %q", done, missing)
	}
}

// TestWhatMayNotBeRead: a caller that may not read everything sees the rest, and what is missing.
func TestWhatMayNotBeRead(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(healthy()...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, ok := l.(*networkingv1.NetworkPolicyList); ok {
				return fmt.Errorf("forbidden")
			}
			return c.List(ctx, l, opts...)
		},
	}).Build()
	r, err := Collect(t.Context(), c, clockAt)
	if err != nil || len(r.NotRead) != 1 || r.Policies.Total != 1 {
		t.Errorf("%v %+v %+v", err, r.NotRead, r.Policies)
	}
}

// pages answers lists of VMs page by page without keeping them, as an API server does.
type pages struct {
	client.Reader
	vms, most int
}

func (p *pages) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	list, ok := l.(*cloudv1.VirtualMachineList)
	if !ok {
		return p.Reader.List(ctx, l)
	}
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	at := 0
	_, _ = fmt.Sscan(o.Continue, &at)
	list.Items, list.Continue = nil, ""
	for ; len(list.Items) < int(o.Limit) && at < p.vms; at++ {
		m := vm(fmt.Sprintf("vm-%d", at), "", cloudv1.PolicyPhaseRealized)
		for n := range 10 {
			m.Status.Policies = append(
				m.Status.Policies,
				cloudv1.AppliedPolicy{Name: fmt.Sprint("p", n), UID: types.UID(fmt.Sprint("p", n, "-", at%100)), Phase: cloudv1.PolicyPhaseRealized},
			)
		}
		list.Items = append(list.Items, *m)
	}
	if at < p.vms {
		list.Continue = fmt.Sprint(at)
	}
	var now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&now)
	p.most = max(p.most, int(now.HeapAlloc))
	return nil
}

// TestPagesAreNotKept: ten times the VMs take the same memory.
func TestPagesAreNotKept(t *testing.T) {
	reader := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(healthy()...).Build()
	most := map[int]int{}
	for _, n := range []int{1000, 10_000} {
		p := &pages{Reader: reader, vms: n}
		r, err := Collect(t.Context(), p, clockAt)
		if err != nil || r.VMs.Total != n {
			t.Fatalf("%v %+v", err, r)
		}
		most[n] = p.most
	}
	if most[10_000] > most[1000]+4<<20 {
		t.Errorf("%d KiB with 10,000 VMs, %d KiB with 1,000", most[10_000]>>10, most[1000]>>10)
	}
}

func BenchmarkStatus10000VMs(b *testing.B) {
	reader := fake.NewClientBuilder().WithScheme(scheme(b)).WithObjects(healthy()...).Build()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Collect(b.Context(), &pages{Reader: reader, vms: 10_000}, clockAt); err != nil {
			b.Fatal(err)
		}
	}
}

// TestStagedIsNotWaitedFor: a policy that is not to be enforced yet is counted by itself, and does
// not keep anybody waiting.
func TestStagedIsNotWaitedFor(t *testing.T) {
	staged := policy("later", v1beta1.NetworkPolicyPending, "not enforced: the annotation nephele.io/stage: plan stages it")
	staged.Status.Conditions[0].Reason = "Staged"
	r := collect(t, append(healthy(), staged), "shop/later")
	if r.State != Well || r.Policies.ByPhase[Staged] != 1 || r.Policies.ByPhase[Pending] != 0 || r.Asked["shop/later"] != Staged {
		t.Errorf("%s: policies %+v, asked %v", r.State, r.Policies, r.Asked)
	}
	staged.Generation++
	if r := collect(t, append(healthy(), staged)); r.State == Well {
		t.Errorf("changed since: %s: policies %+v", r.State, r.Policies)
	}
}

// TestWhatEndsBreakGlass: the command that is told is one that ends it, of what asks for it: a
// machine, or the selector of many.
func TestWhatEndsBreakGlass(t *testing.T) {
	asks := func(o client.Object) client.Object {
		o.SetAnnotations(map[string]string{cloudv1.AnnotationBreakGlass: "fire"})
		return o
	}
	r := collect(t, append(healthy(), asks(vm("glass", cloudv1.ModeBreakGlass, cloudv1.PolicyPhaseSuspended)),
		asks(&cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "fleet"}})))
	for _, f := range r.Attention {
		if f.Reason == "BreakGlass" {
			if f.Do != "when the emergency is over: nephele release shop/i-glass --end, nephele release shop/fleet --selector --end" {
				t.Error(f.Do)
			}
			return
		}
	}
	t.Errorf("%+v", r.Attention)
}
