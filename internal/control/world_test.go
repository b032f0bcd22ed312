package control

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	adminv1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	adminv2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/control/trim"
)

// testWorld is a Controller whose rounds and workers the test turns by hand: no goroutines, no
// waiting. Objects go both into the fake API and to the handlers of the informers.
type testWorld struct {
	*Controller
	t      *testing.T
	api    client.Client
	clock  *clocktesting.FakeClock
	events *recordedEvents
	// trimmer makes objects what informers hold.
	trimmer *trim.Trimmer
}

// recordedEvents keeps Events as "type reason: note".
type recordedEvents struct {
	mu   sync.Mutex
	list []string
}

func (r *recordedEvents) Eventf(_, _ runtime.Object, eventType, reason, _, _ string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, eventType+" "+reason+": "+args[0].(string))
}

func testScheme(t testing.TB) *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, v1alpha1.AddToScheme, v1alpha2.AddToScheme, v1beta1.AddToScheme, adminv1.Install, adminv2.Install,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// handInformers are informers that the test feeds by hand, and that begin empty.
type handInformers struct {
	scheme    *runtime.Scheme
	mu        sync.Mutex
	informers map[string]*controllertest.FakeInformer
	held      map[string]bool
}

func (h *handInformers) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return h.of(obj), nil
}

func (h *handInformers) RemoveInformer(_ context.Context, obj client.Object) error {
	name := h.name(obj)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.informers, name)
	return nil
}

func (h *handInformers) name(obj client.Object) string {
	gvks, _, err := h.scheme.ObjectKinds(obj)
	if err != nil {
		panic(err)
	}
	return gvks[0].GroupKind().String()
}

func (h *handInformers) of(obj client.Object) *controllertest.FakeInformer {
	name := h.name(obj)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.informers[name] == nil {
		if h.held[name] {
			h.informers[name] = controllertest.NewFakeInformer()
		} else {
			h.informers[name] = controllertest.NewFakeInformer(controllertest.Synced)
		}
	}
	return h.informers[name]
}

func newTestWorld(t *testing.T) *testWorld {
	s := testScheme(t)
	api := fake.NewClientBuilder().WithScheme(s).WithStatusSubresource(
		&v1beta1.NetworkPolicy{}, &v1beta1.ClusterNetworkPolicy{}, &v1beta1.Group{}, &v1beta1.ClusterGroup{},
		&adminv1.AdminNetworkPolicy{}, &adminv1.BaselineAdminNetworkPolicy{}, &adminv2.ClusterNetworkPolicy{},
	).Build()
	w := &testWorld{t: t, api: api, clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), events: &recordedEvents{}, trimmer: trim.NewTrimmer()}
	c, err := New(Options{
		Informers: &handInformers{scheme: s, informers: map[string]*controllertest.FakeInformer{}, held: map[string]bool{}}, Client: api,
		Recorder: w.events, Clock: w.clock, Logger: testr.New(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Controller = c
	t.Cleanup(c.tasks.ShutDown)
	return w
}

func kindOf(o runtime.Object) kind {
	switch o.(type) {
	case *corev1.Namespace:
		return kindNamespace
	case *corev1.Pod:
		return kindPod
	case *corev1.Node:
		return kindNode
	case *corev1.Service:
		return kindService
	case *v1alpha2.ExternalEntity:
		return kindEntity
	case *v1alpha1.ExternalNode:
		return kindExternalNode
	case *v1beta1.Tier:
		return kindTier
	case *v1beta1.Group:
		return kindGroup
	case *v1beta1.ClusterGroup:
		return kindClusterGroup
	case *v1beta1.NetworkPolicy:
		return kindPolicy
	case *v1beta1.ClusterNetworkPolicy:
		return kindClusterPolicy
	case *networkingv1.NetworkPolicy:
		return kindK8sPolicy
	case *adminv1.AdminNetworkPolicy:
		return kindAdmin
	case *adminv1.BaselineAdminNetworkPolicy:
		return kindBaselineAdmin
	case *adminv2.ClusterNetworkPolicy:
		return kindUpstream
	}
	return ""
}

// put creates or replaces an object.
func (w *testWorld) put(o client.Object) { w.putObject(o) }

func (w *testWorld) putObject(object runtime.Object) {
	w.t.Helper()
	ctx := w.t.Context()
	o := object.DeepCopyObject().(client.Object)
	former := o.DeepCopyObject().(client.Object)
	if err := w.api.Get(ctx, client.ObjectKeyFromObject(o), former); err == nil {
		before := former.DeepCopyObject().(client.Object)
		o.SetResourceVersion(former.GetResourceVersion())
		if err := w.api.Update(ctx, o); err != nil {
			w.t.Fatal(err)
		}
		w.handler(kindOf(o)).OnUpdate(w.trimmed(before), w.trimmed(o.DeepCopyObject()))
		return
	}
	o.SetResourceVersion("")
	if err := w.api.Create(ctx, o); err != nil {
		w.t.Fatal(err)
	}
	w.handler(kindOf(o)).OnAdd(w.trimmed(o.DeepCopyObject()), false)
}

// trimmed is an object as informers hold it.
func (w *testWorld) trimmed(o any) any {
	w.t.Helper()
	out, err := w.trimmer.Trim(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// remove deletes an object.
func (w *testWorld) remove(o client.Object) {
	w.t.Helper()
	former := o.DeepCopyObject().(client.Object)
	if err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(o), former); err != nil {
		w.t.Fatal(err)
	}
	if err := w.api.Delete(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	w.handler(kindOf(o)).OnDelete(w.trimmed(former))
}

// settle turns a round and then the workers until nothing is due.
func (w *testWorld) settle() {
	w.t.Helper()
	w.round()
	for w.tasks.Len() > 0 {
		task, _ := w.tasks.Get()
		if err := w.statuses().do(w.t.Context(), task); err != nil {
			w.t.Fatal(err)
		}
		w.tasks.Forget(task)
		w.tasks.Done(task)
	}
}

// get reads an object back from the API.
func get[T client.Object](w *testWorld, o T) T {
	w.t.Helper()
	if err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		w.t.Fatal(err)
	}
	return o
}
