package apiserver

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/storage"
)

// idlePosition is the position of lists that never change.
const idlePosition = "1"

// idle is a resource of which there are no objects: enforcers watch it, learn that it is empty, and
// wait. There may be EgressGroups.
type idle struct {
	storage.Resource
	newList func() runtime.Object
	gate    gate
	groups  EgressGroups
}

// EgressGroups are which Pods Egresses apply to; an egress.Groups is some.
type EgressGroups interface {
	List(node string) (list []v1beta2.EgressGroup, version string, known bool)
	Watch(ctx context.Context, node string, bookmark func(*v1beta2.EgressGroup), ended func()) watch.Interface
}

var (
	_ rest.Getter  = (*idle)(nil)
	_ rest.Lister  = (*idle)(nil)
	_ rest.Watcher = (*idle)(nil)
)

func newEgressGroups(groups EgressGroups, g gate) rest.Storage {
	r := storage.New(controlplane("egressgroups"), "egressgroup", false, func() runtime.Object { return &v1beta2.EgressGroup{} })
	return &idle{r, func() runtime.Object { return &v1beta2.EgressGroupList{} }, g, groups}
}

func newSupportBundleCollections(g gate) rest.Storage {
	r := storage.New(controlplane("supportbundlecollections"), "supportbundlecollection", false, func() runtime.Object { return &v1beta2.SupportBundleCollection{} })
	return &idle{r, func() runtime.Object { return &v1beta2.SupportBundleCollectionList{} }, g, nil}
}

// NewList implements rest.Lister.
func (i *idle) NewList() runtime.Object { return i.newList() }

// Get implements rest.Getter.
func (i *idle) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	return nil, apierrors.NewNotFound(i.Group, name)
}

// List implements rest.Lister.
func (i *idle) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	f, err := storage.NewFilter(options)
	if err != nil {
		return nil, err
	}
	if err := i.gate.allow(ctx, i.Group, "", f.Key); err != nil {
		return nil, err
	}
	if i.groups != nil {
		found, version, known := i.groups.List(f.Key)
		if !known {
			return nil, apierrors.NewServiceUnavailable("it is not known yet which Pods Egresses apply to")
		}
		items := slices.DeleteFunc(found, func(g v1beta2.EgressGroup) bool { return !f.Wants(g.Name) })
		return &v1beta2.EgressGroupList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: items}, storage.CheckList(options, version)
	}
	if err := storage.CheckList(options, idlePosition); err != nil {
		return nil, err
	}
	list := i.newList()
	list.(metav1.ListMetaAccessor).GetListMeta().SetResourceVersion(idlePosition)
	return list, nil
}

// Watch implements rest.Watcher: one bookmark, and then nothing until the client goes.
func (i *idle) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	f, err := storage.NewFilter(options)
	if err != nil {
		return nil, err
	}
	if err := i.gate.allow(ctx, i.Group, "", f.Key); err != nil {
		return nil, err
	}
	position, err := storage.ResumeAt(options)
	if err != nil {
		return nil, err
	}
	if position != "" && (position != idlePosition || i.groups != nil) {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("resourceVersion %s: the list has moved on", position))
	}
	leave, err := i.gate.watches.Enter(ctx, i.Group, f.Key)
	if err != nil {
		return nil, err
	}
	if i.groups != nil {
		mark := func(g *v1beta2.EgressGroup) {
			if storage.MarksInitialEvents(options) {
				g.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
			}
		}
		return i.groups.Watch(ctx, f.Key, mark, leave), nil
	}
	bookmark := i.New()
	m := bookmark.(metav1.Object)
	m.SetResourceVersion(idlePosition)
	if storage.MarksInitialEvents(options) {
		m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &silence{out: make(chan watch.Event, 1), cancel: cancel}
	s.out <- watch.Event{Type: watch.Bookmark, Object: bookmark}
	context.AfterFunc(ctx, func() {
		leave()
		close(s.out)
	})
	return s, nil
}

// silence is a watch that says what it has to say at once.
type silence struct {
	out    chan watch.Event
	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (s *silence) Stop() { s.cancel() }

// ResultChan implements watch.Interface.
func (s *silence) ResultChan() <-chan watch.Event { return s.out }

// bundleStatuses takes what enforcers say about support bundles. As none is asked for, it keeps
// nothing.
type bundleStatuses struct {
	gate gate
}

var _ rest.NamedCreater = (*bundleStatuses)(nil)

// New implements rest.Storage.
func (s *bundleStatuses) New() runtime.Object { return &v1beta2.SupportBundleCollectionStatus{} }

// Destroy implements rest.Storage.
func (s *bundleStatuses) Destroy() {}

// Create implements rest.NamedCreater.
func (s *bundleStatuses) Create(ctx context.Context, name string, object runtime.Object, _ rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	status, ok := object.(*v1beta2.SupportBundleCollectionStatus)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T, want a SupportBundleCollectionStatus", object))
	}
	if status.Name != name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("metadata.name is %q, but the path names collection %q", status.Name, name))
	}
	if len(status.Nodes) == 0 {
		return nil, apierrors.NewBadRequest("nodes is empty, want the status of an enforcer")
	}
	for i, n := range status.Nodes {
		if n.NodeName == "" {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("nodes[%d].nodeName is empty, want the name of the enforcer", i))
		}
		key := n.NodeName
		if n.NodeNamespace != "" {
			key = n.NodeNamespace + "/" + key
		}
		if err := s.gate.allow(ctx, controlplane("supportbundlecollections"), name, key); err != nil {
			return nil, err
		}
	}
	return &metav1.Status{Status: metav1.StatusSuccess}, nil
}
