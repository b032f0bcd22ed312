package clusterset_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
)

// store is what a cluster keeps objects in. It tells of each change in the order of the changes,
// and gives objects uids and generations as API servers do.
type store struct {
	client.Client
	mu       sync.Mutex
	uids     int
	handlers map[reflect.Type][]*registration
}

// registration is a handler. It is in sync as soon as it is there.
type registration struct {
	toolscache.ResourceEventHandlerRegistration
	toolscache.ResourceEventHandler
}

func (*registration) HasSynced() bool { return true }

func newStore(t testing.TB) *store {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme), networkingv1.AddToScheme(scheme), v1beta1.AddToScheme(scheme), v1alpha2.AddToScheme(scheme), cloudv1.AddToScheme(scheme), setv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	export := schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: "v1beta1", Kind: "ServiceExport"}
	scheme.AddKnownTypeWithName(export, &unstructured.Unstructured{})
	export.Kind += "List"
	scheme.AddKnownTypeWithName(export, &unstructured.UnstructuredList{})
	property := schema.GroupVersionKind{Group: "about.k8s.io", Version: "v1beta1", Kind: "ClusterProperty"}
	scheme.AddKnownTypeWithName(property, &unstructured.Unstructured{})
	property.Kind += "List"
	scheme.AddKnownTypeWithName(property, &unstructured.UnstructuredList{})
	exported := &unstructured.Unstructured{}
	exported.SetGroupVersionKind(schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: "v1beta1", Kind: "ServiceExport"})
	s := &store{handlers: map[reflect.Type][]*registration{}}
	s.Client = fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(exported, &setv1alpha1.Cluster{}, &setv1alpha1.Membership{}, &v1beta1.ClusterNetworkPolicy{}, &v1beta1.NetworkPolicy{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, _ ...client.CreateOption) error {
				return s.change(ctx, o, func() error {
					s.uids++
					o.SetUID(types.UID(fmt.Sprintf("%p-%d", s, s.uids)))
					o.SetGeneration(1)
					return c.Create(ctx, o)
				})
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, _ ...client.UpdateOption) error {
				return s.change(ctx, o, func() error { o.SetGeneration(o.GetGeneration() + 1); return c.Update(ctx, o) })
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, _ ...client.PatchOption) error {
				return s.change(ctx, o, func() error { return c.Patch(ctx, o, p) })
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
				return s.change(ctx, o, func() error { return c.Delete(ctx, o) })
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, of string, o client.Object, _ ...client.SubResourceUpdateOption) error {
				return s.change(ctx, o, func() error { return c.SubResource(of).Update(ctx, o) })
			},
		}).Build()
	return s
}

// change makes a change, and tells of it.
func (s *store) change(ctx context.Context, o client.Object, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := reflect.TypeOf(o)
	read := func() client.Object {
		found := reflect.New(kind.Elem()).Interface().(client.Object)
		if u, is := o.(*unstructured.Unstructured); is {
			found.(*unstructured.Unstructured).SetGroupVersionKind(u.GroupVersionKind())
		}
		if s.Get(ctx, client.ObjectKeyFromObject(o), found) != nil {
			return nil
		}
		return found
	}
	before := read()
	if before != nil && o.GetGeneration() == 0 {
		o.SetGeneration(before.GetGeneration()) // a writer that does not set it means the present one
	}
	if err := do(); err != nil {
		return err
	}
	after := read()
	for _, h := range s.handlers[kind] {
		switch {
		case after == nil && before != nil:
			h.OnDelete(before)
		case before == nil:
			h.OnAdd(after, false)
		default:
			h.OnUpdate(before, after)
		}
	}
	return nil
}

// informer tells of one kind.
type informer struct {
	cache.Informer
	store *store
	kind  client.Object
}

// GetInformer implements hub.Informers and member.Informers.
func (s *store) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return &informer{store: s, kind: o}, nil
}

// AddEventHandler implements cache.Informer. It tells what there is, and then of changes.
func (i *informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.store.mu.Lock()
	defer i.store.mu.Unlock()
	kinds, _, err := i.store.Scheme().ObjectKinds(i.kind)
	if err != nil {
		return nil, err
	}
	kind := kinds[0]
	kind.Kind += "List"
	list, err := i.store.Scheme().New(kind)
	if err != nil {
		return nil, err
	}
	if u, is := list.(*unstructured.UnstructuredList); is {
		u.SetGroupVersionKind(kind)
	}
	if err := i.store.List(context.Background(), list.(client.ObjectList)); err != nil {
		return nil, err
	}
	if err := meta.EachListItem(list, func(o runtime.Object) error { h.OnAdd(o, true); return nil }); err != nil {
		return nil, err
	}
	r := &registration{ResourceEventHandler: h}
	i.store.handlers[reflect.TypeOf(i.kind)] = append(i.store.handlers[reflect.TypeOf(i.kind)], r)
	return r, nil
}
