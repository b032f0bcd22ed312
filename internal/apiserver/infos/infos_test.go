package infos

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// newKeeper are Infos of a cluster with given objects, at a time that the test sets.
func newKeeper(t *testing.T, objects ...client.Object) (*Keeper, *clocktesting.FakeClock) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	clk := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	return New(Keeper{Client: c, Reader: c, Server: describing{clk}, Clock: clk, Logger: testr.New(t)}), clk
}

// describing describes a healthy controller of version v1.
type describing struct{ clock *clocktesting.FakeClock }

func (d describing) Info() *v1beta1.AntreaControllerInfo {
	return &v1beta1.AntreaControllerInfo{ObjectMeta: metav1.ObjectMeta{Name: v1beta1.ControllerInfoName}, Version: "v1",
		ControllerConditions: []v1beta1.ControllerCondition{{Type: v1beta1.ControllerHealthy, Status: metav1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(d.clock.Now())}}}
}

// started runs a Keeper until the test ends.
func started(t *testing.T, i *Keeper) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- i.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// soon waits until a condition holds, and lets time pass meanwhile.
func soon(t *testing.T, clk *clocktesting.FakeClock, step time.Duration, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not after 2 minutes")
		}
		clk.Step(step)
	}
}

func (i *Keeper) controller(t *testing.T) *v1beta1.AntreaControllerInfo {
	t.Helper()
	var info v1beta1.AntreaControllerInfo
	if err := i.Reader.Get(t.Context(), client.ObjectKey{Name: "antrea-controller"}, &info); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return &info
}

func (i *Keeper) agents(t *testing.T) []string {
	t.Helper()
	var infos v1beta1.AntreaAgentInfoList
	if err := i.Reader.List(t.Context(), &infos); err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, a := range infos.Items {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	return names
}

func TestControllerReports(t *testing.T) {
	t.Parallel()
	i, clk := newKeeper(t)
	started(t, i)
	soon(t, clk, 0, func() bool { return i.controller(t).Version == "v1" })
	info := i.controller(t)
	want := &v1beta1.AntreaControllerInfo{
		ObjectMeta: info.ObjectMeta, Version: "v1",
		ControllerConditions: []v1beta1.ControllerCondition{{Type: v1beta1.ControllerHealthy, Status: metav1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(clk.Now())}},
	}
	if diff := cmp.Diff(want, info); diff != "" {
		t.Fatal(diff)
	}
	soon(t, clk, interval, func() bool { return lastHeartbeat(i.controller(t)).After(lastHeartbeat(info)) })
}

// TestOtherControllerIsLeftAlone: as long as somebody else's heart beats, the object is his.
func TestOtherControllerIsLeftAlone(t *testing.T) {
	t.Parallel()
	theirs := &v1beta1.AntreaControllerInfo{ObjectMeta: metav1.ObjectMeta{Name: "antrea-controller"}, Version: "theirs"}
	i, clk := newKeeper(t, theirs)
	heartbeat := func() {
		info := i.controller(t)
		info.ControllerConditions = []v1beta1.ControllerCondition{{Type: v1beta1.ControllerHealthy, Status: metav1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(clk.Now())}}
		if err := i.Client.Update(t.Context(), info); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		heartbeat()
		clk.Step(interval)
		if err := i.report(t.Context(), i.Server.Info()); err != nil || i.controller(t).Version != "theirs" {
			t.Fatalf("%v: %+v", err, i.controller(t))
		}
	}
	clk.Step(expiry)
	if err := i.report(t.Context(), i.Server.Info()); err != nil || i.controller(t).Version != "v1" {
		t.Fatalf("%v: %+v", err, i.controller(t))
	}
}

// TestInfosOfAgents: there is one for each Node and ExternalNode, and what an agent wrote stays.
func TestInfosOfAgents(t *testing.T) {
	t.Parallel()
	i, clk := newKeeper(t,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}},
		&v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "web-1"}},
		&v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Version: "agent"},
		&v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: "gone"}},
	)
	started(t, i)
	has := func(names ...string) func() bool { return func() bool { return slices.Equal(i.agents(t), names) } }
	soon(t, clk, 0, has("n1", "n2", "web-1"))
	var kept v1beta1.AntreaAgentInfo
	if err := i.Client.Get(t.Context(), client.ObjectKey{Name: "n1"}, &kept); err != nil || kept.Version != "agent" {
		t.Fatalf("%v: %+v", err, kept)
	}
	if err := i.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n3"}}); err != nil {
		t.Fatal(err)
	}
	if err := i.Client.Delete(t.Context(), &v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "web-1"}}); err != nil {
		t.Fatal(err)
	}
	i.changed <- struct{}{}
	soon(t, clk, agentsSettle, has("n1", "n2", "n3"))
}

// TestInfosOfNamesakes gives each of several hosts of one name an info of its own, and leaves to
// one that it has had, whichever hosts come or go.
func TestInfosOfNamesakes(t *testing.T) {
	t.Parallel()
	host := func(namespace, name string) *v1alpha1.ExternalNode {
		return &v1alpha1.ExternalNode{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	i, clk := newKeeper(t, host("a", "first"),
		&v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Version: "a's", NodeRef: v1beta1.ObjectReference{Kind: "ExternalNode", Namespace: "a", Name: "first"}},
		host("b", "first"),
		host("a", "twin"), host("b", "twin"),
		host("a", "n1"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		host("c", "x"), host("d", "x"), host("e", "c.x"), // whose name is as d's namesake would be called
	)
	started(t, i)
	has := func(names ...string) func() bool { return func() bool { return slices.Equal(i.agents(t), names) } }
	all := []string{"a.n1", "a.twin", "b.first", "b.twin", "c.x", "d.x", "first", "n1"}
	soon(t, clk, 0, has(all...))
	var kept v1beta1.AntreaAgentInfo
	if err := i.Client.Get(t.Context(), client.ObjectKey{Name: "first"}, &kept); err != nil || kept.Version != "a's" {
		t.Fatalf("%v: %+v", err, kept)
	}
	for _, gone := range []client.Object{host("a", "first"), host("a", "twin"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}} {
		if err := i.Client.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}
	i.changed <- struct{}{}
	soon(t, clk, agentsSettle, has("a.n1", "b.first", "b.twin", "c.x", "d.x"))
}
