package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// posted keeps the policy statuses that are reported.
type posted struct {
	mu  sync.Mutex
	all []v1beta2.NetworkPolicyStatus
}

func (p *posted) Report(_ context.Context, s *v1beta2.NetworkPolicyStatus) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, *s)
	return nil
}

// take returns what was posted since the last call, as "uid generation failed message".
func (p *posted) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, s := range p.all {
		n := s.Nodes[0]
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %d %t %s", n.NodeName, s.Name, n.Generation, n.RealizationFailure, n.Message)))
	}
	p.all = nil
	return out
}

// marked takes the marker out, if it is there.
func (p *posted) marked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.all, func(s v1beta2.NetworkPolicyStatus) bool { return s.Name == "marker" })
	if i >= 0 {
		p.all = slices.Delete(p.all, i, i+1)
	}
	return i >= 0
}

const (
	labNamespace = "vms"
	labAccount   = labNamespace + "/shop"
	labCluster   = "11111111-2222-3333-4444-555555555555"
	rivalCluster = "99999999-2222-3333-4444-555555555555"
	home, away   = "eu-west-1", "us-east-1"
	homeVPC      = "vpc-00000001"
	// patience is for machines that are busy with other things.
	patience = 3 * time.Minute
)

// eventually polls until the condition holds; false if patience runs out.
func eventually(condition func() bool) bool {
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if condition() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// desk is a Writer with everything around it.
type desk struct {
	*testing.T
	client   client.Client
	writer   *Writer
	recorder *events.FakeRecorder
	posted   *posted
	clock    *clocktesting.FakeClock
}

func newDesk(t *testing.T, funcs interceptor.Funcs) *desk {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := cloudv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	vm := &cloudv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: "web-1", UID: "vm-uid"}}
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: labNamespace, Name: "shop"}}
	d := &desk{
		T:        t,
		recorder: events.NewFakeRecorder(100),
		posted:   &posted{},
		clock:    clocktesting.NewFakeClock(time.Now()),
		client: fake.NewClientBuilder().
			WithScheme(scheme).
			WithObjects(vm, account).
			WithStatusSubresource(vm, &cloudv1.CloudEntitySelector{}, &cloudv1.Vpc{}, account, &cloudv1.CloudNativeService{}, &cloudv1.NetworkInterface{}).
			WithInterceptorFuncs(funcs).
			Build(),
	}
	d.run()
	return d
}

// run starts a new writer, until the test ends.
func (d *desk) run() {
	d.writer = NewWriter(d.client, d.posted, d.recorder, d.clock, logr.Discard())
	ctx, cancel := context.WithCancel(d.Context())
	done := make(chan struct{})
	go func(w *Writer) {
		defer close(done)
		if err := w.Start(ctx); err != nil {
			d.Error(err)
		}
	}(d.writer)
	d.Cleanup(func() { cancel(); <-done })
}

var (
	webVM   = plan.VMRef{Region: home, ID: "i-1"}
	otherVM = plan.VMRef{Region: home, ID: "i-2"}
)

// onVM is a policy on webVM; name is also its UID.
func onVM(name string, generation int64, realized bool, message string) plan.VMPolicy {
	return plan.VMPolicy{PolicyRef: plan.PolicyRef{Kind: v1beta2.AntreaClusterNetworkPolicy, Name: name, UID: name, Generation: generation},
		Realized: realized, Message: message}
}

// reportOf says what applies to webVM.
func reportOf(err error, drift []plan.Drift, policies ...plan.VMPolicy) Report {
	res := &plan.Result{Outcome: plan.Outcome{VMs: []plan.VMStatus{{VM: webVM, Policies: policies}}, Drift: drift}}
	for _, p := range policies {
		st := plan.PolicyStatus{PolicyRef: p.PolicyRef}
		switch {
		case p.Message != "":
			st.Failed = []plan.FailedVM{{VM: webVM, Message: p.Message}}
			st.Realized = []plan.VMRef{otherVM}
		case p.Realized:
			st.Realized = []plan.VMRef{webVM}
		default:
			st.Pending = []plan.VMRef{webVM}
		}
		res.Policies = append(res.Policies, st)
	}
	return Report{Account: labAccount, EnforcerKey: "cloud/vms/shop", Result: res, Err: err, Entities: map[plan.EntityRef]plan.VMRef{
		{Namespace: labNamespace, Name: cloudv1.EntityNamePrefix + "web-1"}: webVM,
		{Namespace: labNamespace, Name: cloudv1.EntityNamePrefix + "gone"}:  webVM,
		{Namespace: labNamespace, Name: cloudv1.EntityNamePrefix + "other"}: {Region: away, ID: "unobserved"},
	}}
}

// vm returns the object as it is stored.
func (d *desk) vm() cloudv1.VirtualMachine {
	d.Helper()
	var vm cloudv1.VirtualMachine
	if err := d.client.Get(d.Context(), client.ObjectKey{Namespace: labNamespace, Name: "web-1"}, &vm); err != nil {
		d.Fatal(err)
	}
	return vm
}

// events returns what was recorded since the last call.
func (d *desk) events() []string {
	var out []string
	for {
		select {
		case e := <-d.recorder.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// write publishes a report and waits until all of it is written.
func (d *desk) write(r Report) {
	d.Helper()
	d.writer.Publish(d.Context(), r)
	d.idle()
}

// idle waits until nothing is pending: a report of an unknown account is written after all that
// came before it.
func (d *desk) idle() {
	d.Helper()
	for range 2 { // what comes while its account is being written goes behind what waits already
		d.writer.Publish(d.Context(), Report{Account: "zz/marker", Result: &plan.Result{Policies: []plan.PolicyStatus{{PolicyRef: plan.PolicyRef{UID: "marker"}}}}})
		if !eventually(d.posted.marked) {
			d.Fatal("reports are not written")
		}
	}
}

// TestVirtualMachineStatus follows one VM through the life of two policies.
func TestVirtualMachineStatus(t *testing.T) {
	t.Parallel()
	d := newDesk(t, interceptor.Funcs{})
	quota := "needs 73 ingress rules, quota 60"
	drift := plan.Drift{Region: home, Object: "eni-1", Message: "somebody put the interface into sg-9"}
	for _, c := range []struct {
		name     string
		report   Report
		summary  string
		status   metav1.ConditionStatus
		reason   string
		phases   []string
		events   []string
		policies []string
	}{
		{"realizing", reportOf(nil, nil, onVM("a", 1, false, "")), "0/1", metav1.ConditionFalse, cloudv1.ReasonPending,
			[]string{"a Realizing"}, nil, nil},
		{"realized", reportOf(nil, nil, onVM("a", 1, true, "")), "1/1", metav1.ConditionTrue, cloudv1.ReasonOK,
			[]string{"a Realized"}, []string{"Normal PolicyRealized a is enforced on this VM"}, []string{"cloud/vms/shop a 1 false"}},
		{"again", reportOf(nil, nil, onVM("a", 1, true, "")), "1/1", metav1.ConditionTrue, cloudv1.ReasonOK,
			[]string{"a Realized"}, nil, []string{"cloud/vms/shop a 1 false"}},
		{"in motion for something else", reportOf(nil, nil, onVM("a", 1, false, "")), "0/1", metav1.ConditionFalse, cloudv1.ReasonPending,
			[]string{"a Realizing"}, nil, nil},
		{"and back", reportOf(nil, nil, onVM("a", 1, true, "")), "1/1", metav1.ConditionTrue, cloudv1.ReasonOK,
			[]string{"a Realized"}, nil, []string{"cloud/vms/shop a 1 false"}},
		{"a second one is refused", reportOf(nil, nil, onVM("a", 1, true, ""), onVM("b", 1, false, quota)), "1/2", metav1.ConditionFalse,
			cloudv1.ReasonPolicyFailed, []string{"a Realized", "b Failed " + quota}, []string{"Warning PolicyFailed b: " + quota},
			[]string{"cloud/vms/shop a 1 false", "cloud/vms/shop b 1 true refused on 1 of 2 VMs: " + quota}},
		{"an edit whose calls fail", reportOf(errors.New("AuthFailure [request 1-2]"), nil, onVM("a", 2, false, "")), "0/1", metav1.ConditionFalse,
			cloudv1.ReasonPolicyFailed, []string{"a Failed AuthFailure"}, []string{"Warning RealizationFailed AuthFailure", "Warning PolicyFailed a: AuthFailure"},
			[]string{"cloud/vms/shop a 2 true AuthFailure"}},
		{"the same failure again", reportOf(errors.New("AuthFailure [request 3-4]"), nil, onVM("a", 2, false, "")), "0/1", metav1.ConditionFalse,
			cloudv1.ReasonPolicyFailed, []string{"a Failed AuthFailure"}, nil, []string{"cloud/vms/shop a 2 true AuthFailure"}},
		{"recovered", reportOf(nil, nil, onVM("a", 2, true, "")), "1/1", metav1.ConditionTrue, cloudv1.ReasonOK,
			[]string{"a Realized"}, []string{"Normal PolicyRealized a is enforced on this VM"}, []string{"cloud/vms/shop a 2 false"}},
		{"drift", reportOf(nil, []plan.Drift{drift}, onVM("a", 2, true, "")), "1/1", metav1.ConditionTrue, cloudv1.ReasonOK,
			[]string{"a Realized"}, []string{"Warning Drift eu-west-1 eni-1: somebody put the interface into sg-9"},
			[]string{"cloud/vms/shop a 2 false"}},
		{"still drift", reportOf(nil, []plan.Drift{drift}, onVM("a", 2, true, "")), "1/1", metav1.ConditionTrue, cloudv1.ReasonOK,
			[]string{"a Realized"}, nil, []string{"cloud/vms/shop a 2 false"}},
		{"the policy goes", reportOf(nil, nil), "", metav1.ConditionTrue, cloudv1.ReasonOK, nil,
			[]string{"Warning DriftRepaired eu-west-1 eni-1: somebody put the interface into sg-9",
				"Normal Released no policy applies any more; the VM is under its own security groups"}, nil},
	} {
		d.write(c.report)
		vm := d.vm()
		var phases []string
		for _, p := range vm.Status.Policies {
			phases = append(phases, strings.TrimSpace(fmt.Sprintf("%s %s %s", p.Name, p.Phase, p.Message)))
		}
		cond := meta.FindStatusCondition(vm.Status.Conditions, cloudv1.ConditionRealized)
		if cond == nil || cond.Status != c.status || cond.Reason != c.reason || vm.Status.PolicySummary != c.summary {
			t.Errorf("%s: condition %+v, summary %q", c.name, cond, vm.Status.PolicySummary)
		}
		for what, pair := range map[string][2][]string{
			"policies": {c.phases, phases}, "events": {c.events, d.events()}, "posted": {c.policies, d.posted.take()}} {
			if diff := gocmp.Diff(pair[0], pair[1]); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", c.name, what, diff)
			}
		}
	}
}

// TestStatusConflicts: somebody else writes the status in between, and then the API fails for a
// while.
func TestStatusConflicts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	conflicts, failures := 2, 3
	d := newDesk(t, interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case conflicts > 0:
			conflicts--
			return apierrors.NewConflict(schema.GroupResource{Resource: "virtualmachines"}, obj.GetName(), errors.New("changed"))
		case failures > 0:
			failures--
			return apierrors.NewInternalError(errors.New("etcd is away"))
		}
		return c.Status().Update(ctx, obj, opts...)
	}})
	d.writer.Publish(t.Context(), reportOf(nil, nil, onVM("a", 1, true, "")))
	if !eventually(func() bool {
		if d.clock.HasWaiters() {
			d.clock.Step(5 * time.Second)
		}
		return d.vm().Status.PolicySummary == "1/1"
	}) {
		t.Fatal("the status was never written")
	}
	d.idle()
	if got := d.events(); len(got) != 1 {
		t.Errorf("events %v, want one", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if conflicts+failures != 0 {
		t.Errorf("%d conflicts and %d failures were not met", conflicts, failures)
	}
}

// TestDriftIsToldEvenIfOvertaken: the repair is often published before the report with the
// difference is written.
func TestDriftIsToldEvenIfOvertaken(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	var once sync.Once
	entered := make(chan struct{})
	d := newDesk(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		once.Do(func() { close(entered) })
		<-gate
		return c.Get(ctx, key, obj, opts...)
	}})
	d.writer.Publish(t.Context(), reportOf(nil, nil, onVM("a", 1, true, "")))
	<-entered
	d.writer.Publish(t.Context(), reportOf(nil, []plan.Drift{{Region: home, Object: "sg-1", Message: "somebody added the rule"}}, onVM("a", 1, false, "")))
	d.writer.Publish(t.Context(), reportOf(nil, nil, onVM("a", 1, true, "")))
	close(gate)
	d.idle()
	got := d.events()
	for _, want := range []string{"Warning Drift eu-west-1 sg-1: somebody added the rule", "Warning DriftRepaired eu-west-1 sg-1: somebody added the rule"} {
		if !slices.Contains(got, want) {
			t.Errorf("events %v, want %q among them", got, want)
		}
	}
}

// TestRestartTellsNothingTwice: what a former process wrote into the status is not told again.
func TestRestartTellsNothingTwice(t *testing.T) {
	t.Parallel()
	d := newDesk(t, interceptor.Funcs{})
	r := reportOf(nil, nil, onVM("a", 1, true, ""))
	d.write(r)
	d.events()
	d.run()
	d.write(r)
	if got := d.events(); len(got) > 0 {
		t.Errorf("told again: %v", got)
	}
}
