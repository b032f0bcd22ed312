package inventory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/selection"
	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

func byIDs(ids ...string) v1alpha1.VirtualMachineSelector {
	e := v1alpha1.VirtualMachineSelector{}
	for _, i := range ids {
		e.VMMatch = append(e.VMMatch, v1alpha1.EntityMatch{MatchID: i})
	}
	return e
}

func TestImport(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "one", byIDs(vm1)), l.ces("db", "none", byIDs("i-00000000")))
	if wait := l.reconcile(); wait != time.Minute {
		t.Errorf("next in %s", wait)
	}
	l.want("VMs", l.vms(), "web/"+vm1)
	l.want("entities", l.entities(), "web/virtualmachine-"+vm1)
	if got := l.vpcs(); len(got) != 4 || !slices.Contains(got, "clouds/"+vpc1) {
		t.Errorf("VPCs %v", got)
	}
	l.wantAccount("True OK", "True OK", "True OK", "")
	st := l.account().Status
	if st.LastSyncTime == nil || !st.LastSyncTime.Time.Equal(l.clock()) || len(st.Regions) != 1 || st.Regions[0].VMs != 1 || st.Regions[0].Vpcs != 4 {
		t.Errorf("status %+v", st)
	}
	if vpc := get(l, &v1alpha1.Vpc{}, "clouds", vpc1); !vpc.Status.Managed || vpc.Status.CloudName != "Arista Demo" {
		t.Errorf("VPC %+v", vpc.Status)
	}
	one := get(l, &v1alpha1.CloudEntitySelector{}, "web", "one").Status
	if condition(one.Conditions, "Ready") != "True OK" || condition(one.Conditions, "Matched") != "True OK" || *one.MatchedVMs != 1 || one.Error != "" {
		t.Errorf("selector one: %+v", one)
	}
	none := get(l, &v1alpha1.CloudEntitySelector{}, "db", "none").Status
	if condition(none.Conditions, "Ready") != "False NoMatch" || *none.MatchedVMs != 0 || !strings.Contains(none.Error, "selects none of the") {
		t.Errorf("selector none: %+v", none)
	}
	l.wantEvents("acc Normal Ready", "none Warning NoMatch", "one Normal Ready")
	if got := l.inv.Entities("clouds/acc"); len(got) != 1 || got[types.NamespacedName{Namespace: "web", Name: "virtualmachine-" + vm1}] != (selection.VMRef{VMID: vm1, Region: oregon}) {
		t.Errorf("entities %v", got)
	}

	// Nothing is due: nothing is called, nothing is written.
	vm := get(l, &v1alpha1.VirtualMachine{}, "web", vm1)
	calls := l.calls("DescribeInstances")
	l.advance(20 * time.Second)
	if wait := l.reconcile(); wait != 40*time.Second {
		t.Errorf("next in %s", wait)
	}
	l.advance(40 * time.Second)
	l.reconcile()
	if got := l.calls("DescribeInstances"); got != calls+1 {
		t.Errorf("%d observations; want 1", got-calls)
	}
	if again := get(l, &v1alpha1.VirtualMachine{}, "web", vm1); again.ResourceVersion != vm.ResourceVersion {
		t.Error("an unchanged VM was written")
	}
	l.wantEvents()
}

func TestChangesInTheCloud(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	before := l.vms()
	if len(before) < 2 {
		t.Fatalf("VMs %v", before)
	}
	// A user's tag survives what follows and has a label of its own.
	vm := get(l, &v1alpha1.VirtualMachine{}, "web", vm1)
	vm.Spec.Tags = map[string]string{"Application": "mine", "extra": "1"}
	l.update(vm)
	ee := get(l, &antreav1alpha2.ExternalEntity{}, "web", "virtualmachine-"+vm1)
	ee.Labels["somebody.else/label"] = "stays"
	ee.Labels[v1alpha1.LabelCloudRegion] = "nonsense"
	l.update(ee)

	if err := l.region(oregon).CreateTags([]string{vm1}, []aws.Tag{{Key: "Application", Value: "theirs"}, {Key: "not legal", Value: "x"}}); err != nil {
		t.Fatal(err)
	}
	gone := strings.TrimPrefix(before[0], "web/")
	if gone == vm1 {
		gone = strings.TrimPrefix(before[1], "web/")
	}
	if _, err := l.region(oregon).InstanceCalls().TerminateInstances([]string{gone}); err != nil {
		t.Fatal(err)
	}
	l.advance(time.Minute)
	l.reconcile()
	if got := l.vms(); len(got) != len(before)-1 || slices.Contains(got, "web/"+gone) || len(l.entities()) != len(got) {
		t.Errorf("VMs %v, entities %v", got, l.entities())
	}
	labels := get(l, &antreav1alpha2.ExternalEntity{}, "web", "virtualmachine-"+vm1).Labels
	for key, want := range map[string]string{
		v1alpha1.LabelTagPrefix + "Application": "theirs", v1alpha1.LabelUserTagPrefix + "Application": "mine", v1alpha1.LabelUserTagPrefix + "extra": "1",
		v1alpha1.LabelCloudRegion: oregon, "somebody.else/label": "stays",
	} {
		if labels[key] != want {
			t.Errorf("label %s is %q; want %q", key, labels[key], want)
		}
	}
	vm = get(l, &v1alpha1.VirtualMachine{}, "web", vm1)
	if vm.Spec.Tags["extra"] != "1" || vm.Status.Tags["Application"] != "theirs" {
		t.Errorf("tags %v, %v", vm.Spec.Tags, vm.Status.Tags)
	}
	if !slices.ContainsFunc(vm.Status.UnimportedTags, func(u v1alpha1.UnimportedTag) bool { return u.Key == "not legal" }) {
		t.Errorf("left out %v", vm.Status.UnimportedTags)
	}
}

// TestStatusOfOthersStays: what realization writes into the status of a VM is not ours to change.
func TestStatusOfOthersStays(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "one", byIDs(vm1)))
	l.reconcile()
	vm := get(l, &v1alpha1.VirtualMachine{}, "web", vm1)
	vm.Status.PolicySummary = "1/1"
	vm.Status.Policies = []v1alpha1.AppliedPolicy{{Name: "p", UID: "u", Kind: "k", Phase: v1alpha1.PolicyPhaseRealized}}
	vm.Status.Conditions = append(vm.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionRealized, Status: "True", Reason: "OK"})
	if err := l.api.Status().Update(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if _, err := l.region(oregon).InstanceCalls().StartInstances([]string{vm1}); err != nil {
		t.Fatal(err)
	}
	l.advance(time.Minute)
	l.reconcile()
	vm = get(l, &v1alpha1.VirtualMachine{}, "web", vm1)
	if vm.Status.State == v1alpha1.VMStateStopped || vm.Status.PolicySummary != "1/1" || len(vm.Status.Policies) != 1 ||
		condition(vm.Status.Conditions, v1alpha1.ConditionRealized) != "True OK" || condition(vm.Status.Conditions, v1alpha1.ConditionObserved) != "True OK" {
		t.Errorf("status %+v", vm.Status)
	}
}

func TestFailingRegionKeepsWhatIsKnown(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(oregon, ireland), l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	before := l.vms()
	l.events.take()
	l.server.Faults().Add(ec2.Fault{Action: "DescribeNetworkInterfaces", Region: oregon, Code: "InternalError", Times: -1})

	var waits []time.Duration
	l.advance(time.Minute)
	for range 8 {
		wait := l.reconcile()
		waits = append(waits, wait)
		l.advance(wait)
	}
	// The healthy region goes on every minute; the failing one is asked at growing distances in
	// between.
	if waits[0] != 5*time.Second || waits[1] != 10*time.Second || waits[2] != 20*time.Second {
		t.Errorf("waits %v", waits)
	}
	l.want("VMs", l.vms(), before...)
	l.wantAccount("False Unreachable", "True OK", "False Unreachable", "us-west-2: DescribeNetworkInterfaces: InternalError")
	l.wantEvents("acc Warning Unreachable", "all Warning AccountNotReady")
	st := l.account().Status
	first := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if !st.LastSyncTime.Time.Equal(first) || st.Regions[0].Name != ireland || st.Regions[0].LastError != "" ||
		!st.Regions[0].LastSyncTime.After(first) || st.Regions[1].LastError == "" || int(st.Regions[1].VMs) != len(before) {
		t.Errorf("status %+v", st)
	}
	vm := get(l, &v1alpha1.VirtualMachine{}, "web", vm1).Status
	if condition(vm.Conditions, v1alpha1.ConditionObserved) != "False Stale" {
		t.Errorf("VM conditions %v", vm.Conditions)
	}
	snap, err := l.inv.Latest("clouds/acc", oregon)
	if snap == nil || err == nil {
		t.Errorf("latest %v, %v", snap != nil, err)
	}

	// After a restart the region is still down, and nothing is lost.
	l.restart(nil)
	l.reconcile()
	l.want("VMs", l.vms(), before...)
	if got := l.inv.Entities("clouds/acc"); len(got) != len(before) {
		t.Errorf("entities %v", got)
	}
	if st := l.account().Status; !st.LastSyncTime.Time.Equal(first) {
		t.Errorf("the age was forgotten: %+v", st)
	}
	// Not even a trigger makes a failing region faster.
	calls := l.calls("DescribeNetworkInterfaces")
	l.inv.Trigger("clouds/acc")
	l.reconcile()
	if got := l.calls("DescribeNetworkInterfaces") - calls; got != 1 {
		t.Errorf("%d calls; want one, of the healthy region", got)
	}

	l.server.Faults().Clear()
	l.advance(5 * time.Minute)
	l.reconcile()
	l.wantAccount("True OK", "True OK", "True OK", "")
	if vm := get(l, &v1alpha1.VirtualMachine{}, "web", vm1).Status; condition(vm.Conditions, v1alpha1.ConditionObserved) != "True OK" {
		t.Errorf("VM conditions %v", vm.Conditions)
	}
	l.want("VMs", l.vms(), before...)
}

func TestSelectorsComeAndGo(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.ces("web", "a", byIDs(vm1)), l.ces("web", "b", wholeVPC(vpc1))
	c := l.ces("db", "c", byIDs(vm1))
	c.Spec.VMSelector[0].Agented = true
	l.create(l.secret(goodCreds), l.cpa(), a)
	l.reconcile()
	l.want("VMs", l.vms(), "web/"+vm1)
	uid := get(l, &v1alpha1.VirtualMachine{}, "web", vm1).ResourceVersion

	calls := l.calls("DescribeInstances")
	l.create(b)
	l.reconcile()
	if got := l.calls("DescribeInstances") - calls; got != 1 {
		t.Errorf("%d observations after a change of the selectors", got)
	}
	all := l.vms()
	if len(all) < 3 || get(l, &v1alpha1.VirtualMachine{}, "web", vm1).ResourceVersion != uid {
		t.Errorf("VMs %v", all)
	}
	l.delete(a)
	l.reconcile()
	l.want("VMs", l.vms(), all...)
	if got := get(l, &v1alpha1.VirtualMachine{}, "web", vm1).Labels[v1alpha1.LabelCESName]; got != "b" {
		t.Errorf("selected by %q", got)
	}
	l.create(c)
	l.reconcile()
	l.want("nodes", l.nodes(), "db/virtualmachine-"+vm1)
	if len(l.vms()) != len(all)+1 || len(l.entities()) != len(all)+1 {
		t.Errorf("VMs %v, entities %v", l.vms(), l.entities())
	}
	if vm := get(l, &v1alpha1.VirtualMachine{}, "db", vm1); !vm.Status.Agented {
		t.Error("the VM is not agented")
	}
	c = get(l, c, "db", "c")
	c.Spec.VMSelector[0].Agented = false
	c.Generation = 2
	l.update(c)
	// The node stays until the cloud has ceased to let in what its agent decides.
	l.inv.opts.LetsIn = func(node string) bool { return node == "db/virtualmachine-"+vm1 }
	l.reconcile()
	l.want("nodes", l.nodes(), "db/virtualmachine-"+vm1)
	l.inv.opts.LetsIn = nil
	l.reconcile()
	l.want("nodes", l.nodes())
	if len(l.entities()) != len(all)+1 {
		t.Errorf("entities %v", l.entities())
	}
	l.delete(b)
	l.reconcile()
	l.want("VMs", l.vms(), "db/"+vm1)
	l.delete(c)
	l.reconcile()
	l.want("VMs", l.vms())
	l.want("entities", l.entities())
	if len(l.vpcs()) != 4 {
		t.Errorf("VPCs %v", l.vpcs())
	}
}

// TestReadersAndSubscribers uses the exported methods while accounts are reconciled; it is for the
// race detector too.
func TestReadersAndSubscribers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(oregon, ireland), l.ces("web", "all", wholeVPC(vpc1)))
	var mu sync.Mutex
	heard := map[string]int{}
	cancel := l.inv.Subscribe(func(key string) { mu.Lock(); defer mu.Unlock(); heard[key]++ })
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			for _, key := range l.inv.Keys() {
				for _, r := range l.inv.Regions(key) {
					if s, _ := l.inv.Latest(key, r); s != nil && s.Region != r {
						t.Error("snapshot of another region")
					}
				}
				_, _ = l.inv.Provider(key)
				_ = fmt.Sprint(l.inv.Entities(key), l.inv.Deleting(key))
				l.inv.Trigger(key)
			}
		}
	})
	for n := range 5 {
		l.reconcile()
		l.advance(time.Minute)
		if err := l.region(oregon).CreateTags([]string{vm1}, []aws.Tag{{Key: "n", Value: fmt.Sprint(n)}}); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	wg.Wait()
	mu.Lock()
	got := heard["clouds/acc"]
	mu.Unlock()
	if got < 5 {
		t.Errorf("heard %d times", got)
	}
	cancel()
	l.reconcile()
	mu.Lock()
	defer mu.Unlock()
	if heard["clouds/acc"] != got {
		t.Error("heard after cancel")
	}
}

// TestRefusedObjects: one object that the API server does not take stops no other, and is said on
// the account.
func TestRefusedObjects(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", wholeVPC(vpc1)), l.ces("going", "all", wholeVPC(vpc1)))
	refused := "virtualmachine-" + vm1
	l.refuse = func(o client.Object) error {
		switch {
		case o.GetNamespace() == "going":
			err := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, o.GetName(), errors.New("the namespace is going"))
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
			return err
		case o.GetName() == refused:
			return errors.New("no thanks")
		}
		return nil
	}
	if _, err := l.inv.Reconcile(t.Context(), request(accountKey)); err == nil || !strings.Contains(err.Error(), "no thanks") {
		t.Errorf("error %v", err)
	}
	if got := l.entities(); len(got) != len(l.vms())-1 || len(got) < 2 || slices.Contains(got, "web/"+refused) {
		t.Errorf("entities %v", got)
	}
	l.wantAccount("False NotWritten", "True OK", "True OK", "no thanks")
	l.refuse = nil
	l.reconcile()
	l.wantAccount("True OK", "True OK", "True OK", "")
	if got := l.entities(); len(got) != len(l.vms()) || !slices.Contains(got, "going/"+refused) {
		t.Errorf("entities %v", got)
	}
}

// TestSubscribersHearNewsOnly: a pass that finds nothing new is silent.
func TestSubscribersHearNewsOnly(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ces := l.ces("web", "all", wholeVPC(vpc1))
	l.create(l.secret(goodCreds), l.cpa(), ces)
	heard := 0
	l.inv.Subscribe(func(string) { heard++ })
	for i, c := range []struct {
		what string
		do   func()
		want int
	}{
		{"the first observation", func() {}, 1},
		{"nothing", func() {}, 0},
		{"an entity deleted by hand", func() { l.delete(get(l, &antreav1alpha2.ExternalEntity{}, "web", "virtualmachine-"+vm1)) }, 0},
		{"an observation that shows the same", func() { l.advance(time.Minute) }, 0},
		{"an observation that shows something else", func() { l.advance(time.Minute); l.retag("1") }, 1},
		{"a trigger", func() { l.inv.Trigger("clouds/acc") }, 0},
		{"a trigger after a change", func() { l.inv.Trigger("clouds/acc"); l.retag("2") }, 1},
		{"a selector less", func() { l.delete(ces) }, 1},
		{"the account gone", func() { l.delete(l.account()) }, 1},
	} {
		heard = 0
		c.do()
		l.reconcile()
		if heard != c.want {
			t.Errorf("%d: heard %d times of %s; want %d", i, heard, c.what, c.want)
		}
	}
}
