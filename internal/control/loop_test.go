package control

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// TestLoop runs the whole controller: nothing is published until the last informer is synced,
// conflicts and failures of the API are retried, and everything ends with the context.
func TestLoop(t *testing.T) {
	s := testScheme(t)
	var conflicts, outages atomic.Int32
	policy := allowSSH(t, "p", "db", 1)
	api := fake.NewClientBuilder().WithScheme(s).WithObjects(policy).WithStatusSubresource(policy).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				if conflicts.Add(1) <= 3 {
					return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("changed"))
				}
				return c.SubResource(sub).Update(ctx, o, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if outages.Add(1) <= 2 {
					return apierrors.NewServiceUnavailable("starting")
				}
				return c.Create(ctx, o, opts...)
			},
		}).Build()
	informers := &handInformers{scheme: s, informers: map[string]*controllertest.FakeInformer{}, held: map[string]bool{"Pod": true}}
	c, err := New(Options{Informers: informers, Client: api, Recorder: &recordedEvents{}, Clock: clock.RealClock{}, Logger: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer stop()
	watcher, err := c.Store().Watch(watchstore.NetworkPolicies, "cloud-a")
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()

	// The tiers are written while the listing is awaited: when they are there, the handlers are
	// registered.
	eventually(t, "the system tiers", func() bool {
		var list v1beta1.TierList
		return api.List(ctx, &list) == nil && len(list.Items) == 6
	})
	c.handler(kindPolicy).OnAdd(policy, true)
	c.handler(kindEntity).OnAdd(vm(t, "a", "db", "cloud-a"), true)
	if _, ok, err := watcher.TryNext(); ok || err != nil {
		t.Fatalf("something is published before all Pods are known (%v)", err)
	}
	informers.of(&corev1.Pod{}).Synced()
	for _, want := range []watch.EventType{watch.Added, watch.Bookmark} {
		next, cancel := context.WithTimeout(ctx, 20*time.Second)
		ev, err := watcher.Next(next)
		cancel()
		if err != nil || ev.Type != want {
			t.Fatalf("got %v %v, want %s", ev, err, want)
		}
	}
	if err := c.Report(ctx, &v1beta2.NetworkPolicyStatus{
		ObjectMeta: metav1.ObjectMeta{Name: "uid-p"}, Nodes: []v1beta2.NetworkPolicyNodeStatus{{NodeName: "cloud-a", Generation: 1}},
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the status in spite of conflicts", func() bool {
		p := &v1beta1.NetworkPolicy{}
		return api.Get(ctx, client.ObjectKeyFromObject(policy), p) == nil && p.Status.Phase == v1beta1.NetworkPolicyRealized
	})
}

// eventually polls until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestNewNeedsItsParts(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("New without Informers succeeds")
	}
}
