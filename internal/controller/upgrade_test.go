package controller_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/inventory"
	"github.com/nephele-io/nephele/internal/cloud/realize"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"
	"github.com/nephele-io/nephele/internal/controller"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/kinds"
	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/preview"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// bothLoops is the inventory and the realizer, joined as the controller does it, between a stand-in
// for the API server and a simulated cloud.
type bothLoops struct {
	*testing.T
	server   *sim.Server
	api      client.Client
	key      types.NamespacedName
	inv      *inventory.Inventory
	realizer *realize.Realizer
	stop     func()
}

// storeSource lets enforcers watch a store.
type storeSource struct{ store *watchstore.Store }

func (s storeSource) Watch(_ context.Context, r enforcer.Resource, key string) (enforcer.Stream, error) {
	return s.store.Watch(watchstore.Resource(r), key)
}

// noReports drops reports.
type noReports struct{}

func (noReports) Publish(context.Context, status.Report) {}

// indexed begins a client that finds the objects of an account, as that of a manager does.
func indexed(scheme *runtime.Scheme) *fake.ClientBuilder {
	b := fake.NewClientBuilder().WithScheme(scheme)
	for _, o := range inventory.Indexed() {
		b.WithIndex(o, inventory.FieldAccount, inventory.AccountOf)
	}
	return b
}

func newBothLoops(t *testing.T, account types.NamespacedName, manifests string) *bothLoops {
	t.Helper()
	state, _, err := estate.Load(previewtest.HybridCloud)
	if err != nil {
		t.Fatal(err)
	}
	server, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: state})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	j := &bothLoops{T: t, server: server, key: account, stop: func() {}, api: indexed(scheme).
		WithStatusSubresource(&cloudv1.CloudProviderAccount{}, &cloudv1.CloudEntitySelector{}, &cloudv1.VirtualMachine{}, &cloudv1.Vpc{}).Build()}
	set, err := manifest.Load([]string{"-"}, strings.NewReader(strings.ReplaceAll(manifests, "ENDPOINT", server.URL())))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range set.Documents {
		d.Object.SetUID(preview.OfflineUID(d.Group, d.Kind, d.Object))
		j.create(d.Object.(client.Object))
	}
	return j
}

func (j *bothLoops) create(o client.Object) {
	j.Helper()
	o.SetGeneration(1)
	if err := j.api.Create(j.Context(), o); err != nil {
		j.Fatal(err)
	}
}

func (j *bothLoops) reconcile() {
	if _, err := j.inv.Reconcile(context.WithoutCancel(j.Context()), reconcile.Request{NamespacedName: j.key}); err != nil {
		j.Error(err)
	}
}

// start runs a new process: it imports, computes the policies that there are, and realizes them
// until stop.
func (j *bothLoops) start() {
	j.Helper()
	row, _ := clouds.Of(cloudv1.CloudProviderAWS)
	open, err := row.Open(j.Context(), clouds.Parts{Cluster: "cluster", Access: clouds.LocalAccess()})
	if err != nil {
		j.Fatal(err)
	}
	j.inv = inventory.New(inventory.Options{Client: j.api, Secrets: j.api, Events: noEvents{}, Clouds: map[cloudv1.CloudProvider]accountspec.Open{row.Kind: open}})
	j.reconcile()
	in := &preview.Inputs{Objects: input.Objects{At: time.Now()}}
	for _, k := range kinds.Of(kinds.Explained) {
		list := k.NewList()
		if err := j.api.List(j.Context(), list); err != nil {
			j.Fatal(err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			j.Fatal(err)
		}
		in.Objects.Add(objects...)
	}
	store := watchstore.New(watchstore.Options{})
	store.Publish(convert.Delta(preview.Compute(in).Computed.Delta))
	clk := clock.RealClock{}
	j.realizer, err = realize.New(
		realize.Options{ClusterID: "cluster", Follower: enforcer.Follower{Source: storeSource{store}, Clock: clk}, Accounts: controller.Accounts{Inventory: j.inv},
			Lowerer: lower.AWS{}, Sink: noReports{}, Clock: clk, Log: logr.Discard()},
	)
	if err != nil {
		j.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(j.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = j.realizer.Start(ctx) })
	running.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			j.reconcile()
		}
	})
	j.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	j.Cleanup(j.stop)
}

// settled waits until nothing is to be done any more about this many entities.
func (j *bothLoops) settled(what string, entities int) status.Report {
	j.Helper()
	var r status.Report
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		r, _ = j.realizer.Report(j.key.String())
		if r.Result != nil && r.Result.Plan.Empty() && r.Err == nil && len(r.Entities) == entities && len(j.inv.Pending(j.key.String())) == 0 {
			return r
		}
	}
	j.Fatalf("%s: not settled: %d entities, %v, %+v", what, len(r.Entities), r.Err, r.Result)
	return r
}

// written returns the calls that have changed something since.
func (j *bothLoops) written(since int) (out []string) {
	for _, c := range j.server.Journal().Calls(since) {
		if !strings.HasPrefix(c.Action, "Describe") && !strings.HasPrefix(c.Action, "Get") {
			out = append(out, c.Action)
		}
	}
	return out
}

// held names the interfaces that hold a group of ours, with it.
func (j *bothLoops) held() (out []string) {
	for _, r := range j.server.World().State().Regions {
		for _, i := range r.NetworkInterfaces {
			for _, g := range i.Groups {
				if strings.HasPrefix(g.Name, "nephele-") {
					out = append(out, i.ID+" "+g.Name)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// oldManifests are in the form of the version before grants: account, Secret and selector in
// namespaces of their own.
const oldManifests = `
apiVersion: v1
kind: Namespace
metadata: {name: kube-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: vms}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {name: hybrid, namespace: owner}
spec:
  awsConfig: {region: [us-west-2], endpoint: ENDPOINT, secretRef: {name: s, namespace: vault, key: k}}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {name: two, namespace: vms}
spec:
  accountName: hybrid
  accountNamespace: owner
  vmSelector:
  - vmMatch: [{matchID: i-075dc46a9bc347264}, {matchID: i-0837c877110427f2b}]
---
`

// TestUpgradeKeepsEverythingEnforced: objects without anything about grants are enforced as before,
// and a new process changes nothing in the cloud. What others without a say ask for then changes
// nothing either, and does not keep the owner's changes from being followed.
func TestUpgradeKeepsEverythingEnforced(t *testing.T) {
	j := newBothLoops(t, types.NamespacedName{Namespace: "owner", Name: "hybrid"}, oldManifests+strings.TrimPrefix(previewtest.SSHPolicy, "\n"))
	j.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "s"}, Data: map[string][]byte{
		"k": fmt.Appendf(nil, `{"accessKeyId": %q, "accessKeySecret": %q}`, estate.DefaultAccessKeyID, estate.DefaultSecret)}})
	j.start()
	j.settled("enforced", 2)
	j.stop()
	before := j.held()
	if len(before) == 0 {
		t.Fatal("nothing is held")
	}
	seq := j.server.Journal().Total()
	same := func(when string) {
		t.Helper()
		if got := j.held(); !slices.Equal(got, before) || len(j.written(seq)) > 0 {
			t.Errorf("%s: held %v, was %v; calls %v", when, got, before, j.written(seq))
		}
	}
	j.start()
	j.settled("a new process", 2)
	same("a new process")

	// Others select the same VMs, and try to have them frozen and released.
	for i, mode := range []cloudv1.EnforcementMode{cloudv1.ModePlan, cloudv1.ModeReleased, ""} {
		s := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("evil-%d", i), Name: "all", UID: types.UID(fmt.Sprint("evil", i)),
			Annotations: map[string]string{cloudv1.AnnotationBreakGlass: "open"}}}
		s.Spec = cloudv1.CloudEntitySelectorSpec{AccountNamespace: "owner", AccountName: "hybrid", Mode: mode, VMSelector: []cloudv1.VirtualMachineSelector{
			{VMMatch: []cloudv1.EntityMatch{{MatchID: "i-075dc46a9bc347264"}, {MatchID: "i-0837c877110427f2b"}}}}}
		j.create(s)
	}
	r := j.settled("others", 8)
	if len(r.ModeReasons) > 0 {
		t.Errorf("modes %v", r.ModeReasons)
	}
	same("others")
	j.stop()

	// The tenant of old changes his policy; the VM is not frozen.
	var policy v1beta1.NetworkPolicy
	if err := j.api.Get(t.Context(), client.ObjectKey{Namespace: "vms", Name: "ssh"}, &policy); err != nil {
		t.Fatal(err)
	}
	policy.Spec.Ingress[0].Ports[0].Port.IntVal, policy.Generation = 443, 2
	if err := j.api.Update(t.Context(), &policy); err != nil {
		t.Fatal(err)
	}
	j.start()
	j.settled("the policy changed", 8)
	got := j.written(seq)
	slices.Sort(got[:min(2, len(got))]) // the mark goes while the first rules change
	if !slices.Equal(got, []string{"DeleteTags", "ModifySecurityGroupRules", "CreateTags"}) {
		t.Errorf("a changed policy is not followed by a change of its rule, with the mark of what is in force away meanwhile: %v", got)
	}
}

// noEvents drops events.
type noEvents struct{}

func (noEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}
