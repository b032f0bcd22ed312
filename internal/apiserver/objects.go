package apiserver

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/storage"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// objects serves one kind of computed object.
type objects struct {
	rest.TableConvertor
	resource watchstore.Resource
	singular string
	store    *watchstore.Store
	gate     gate
	metrics  *Metrics
}

var (
	_ rest.Getter               = (*objects)(nil)
	_ rest.Lister               = (*objects)(nil)
	_ rest.Watcher              = (*objects)(nil)
	_ rest.Scoper               = (*objects)(nil)
	_ rest.SingularNameProvider = (*objects)(nil)
)

func newObjects(r watchstore.Resource, singular string, store *watchstore.Store, g gate, m *Metrics) *objects {
	return &objects{
		TableConvertor: rest.NewDefaultTableConvertor(groupResource(r)), resource: r, singular: singular, store: store, gate: g, metrics: m,
	}
}

func groupResource(r watchstore.Resource) schema.GroupResource {
	return schema.GroupResource{Group: v1beta2.GroupName, Resource: string(r)}
}

// New implements rest.Storage.
func (o *objects) New() runtime.Object {
	switch o.resource {
	case watchstore.AddressGroups:
		return &v1beta2.AddressGroup{}
	case watchstore.AppliedToGroups:
		return &v1beta2.AppliedToGroup{}
	default:
		return &v1beta2.NetworkPolicy{}
	}
}

// NewList implements rest.Lister.
func (o *objects) NewList() runtime.Object {
	switch o.resource {
	case watchstore.AddressGroups:
		return &v1beta2.AddressGroupList{}
	case watchstore.AppliedToGroups:
		return &v1beta2.AppliedToGroupList{}
	default:
		return &v1beta2.NetworkPolicyList{}
	}
}

// Destroy implements rest.Storage.
func (o *objects) Destroy() {}

// NamespaceScoped implements rest.Scoper: computed objects have no namespace, even if their policy
// has one.
func (o *objects) NamespaceScoped() bool { return false }

// GetSingularName implements rest.SingularNameProvider.
func (o *objects) GetSingularName() string { return o.singular }

// Get implements rest.Getter.
func (o *objects) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if err := o.gate.allow(ctx, groupResource(o.resource), name, ""); err != nil {
		return nil, err
	}
	object, ok, err := o.store.Get(o.resource, name)
	if err != nil {
		return nil, unavailable(err)
	}
	if !ok {
		return nil, apierrors.NewNotFound(groupResource(o.resource), name)
	}
	return private(object), nil
}

// List implements rest.Lister.
func (o *objects) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	f, err := storage.NewFilter(options)
	if err != nil {
		return nil, err
	}
	if err := o.gate.allow(ctx, groupResource(o.resource), "", f.Key); err != nil {
		return nil, err
	}
	found, revision, err := o.store.List(o.resource, f.Key)
	if err != nil {
		return nil, unavailable(err)
	}
	position := watchstore.Position(revision)
	if err := storage.CheckList(options, position); err != nil {
		return nil, err
	}
	meta := metav1.ListMeta{ResourceVersion: position}
	switch o.resource {
	case watchstore.AddressGroups:
		return &v1beta2.AddressGroupList{ListMeta: meta, Items: chosen[v1beta2.AddressGroup](f, found)}, nil
	case watchstore.AppliedToGroups:
		return &v1beta2.AppliedToGroupList{ListMeta: meta, Items: chosen[v1beta2.AppliedToGroup](f, found)}, nil
	default:
		return &v1beta2.NetworkPolicyList{ListMeta: meta, Items: chosen[v1beta2.NetworkPolicy](f, found)}, nil
	}
}

// chosen copies those objects that the storage.Filter wants. What they point at stays shared.
func chosen[T any](f storage.Filter, found []runtime.Object) []T {
	items := make([]T, 0, len(found))
	for _, object := range found {
		if f.Wants(object.(metav1.Object).GetName()) {
			items = append(items, *any(object).(*T))
		}
	}
	return items
}

// private copies the outermost struct of an object that the store shares, because encoding it
// writes its kind into it.
func private(object runtime.Object) runtime.Object {
	switch x := object.(type) {
	case *v1beta2.NetworkPolicy:
		c := *x
		return &c
	case *v1beta2.AddressGroup:
		c := *x
		return &c
	case *v1beta2.AddressGroupPatch:
		c := *x
		return &c
	case *v1beta2.AppliedToGroup:
		c := *x
		return &c
	case *v1beta2.AppliedToGroupPatch:
		c := *x
		return &c
	}
	return object.DeepCopyObject()
}

// Watch implements rest.Watcher.
func (o *objects) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	f, err := storage.NewFilter(options)
	if err != nil {
		return nil, err
	}
	if err := o.gate.allow(ctx, groupResource(o.resource), "", f.Key); err != nil {
		return nil, err
	}
	position, err := storage.ResumeAt(options)
	if err != nil {
		return nil, err
	}
	leave, err := o.gate.watches.Enter(ctx, groupResource(o.resource), f.Key)
	if err != nil {
		return nil, err
	}
	source, err := o.source(f.Key, position)
	if err != nil {
		leave()
		return nil, err
	}
	return startStream(ctx, source, f, storage.MarksInitialEvents(options), o.metrics, leave), nil
}

// source begins a watch of the store, at a position or with everything.
func (o *objects) source(key, position string) (source *watchstore.Watcher, err error) {
	if position == "" {
		source, err = o.store.Watch(o.resource, key)
	} else {
		source, err = o.store.Resume(o.resource, key, position)
	}
	switch {
	case errors.Is(err, watchstore.ErrExpired):
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("resourceVersion %s: %v", position, err))
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	}
	return source, nil
}

// unavailable converts an error of the store.
func unavailable(err error) error {
	if errors.Is(err, watchstore.ErrNotReady) {
		return apierrors.NewServiceUnavailable(err.Error())
	}
	return apierrors.NewInternalError(err)
}
