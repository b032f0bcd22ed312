package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver/roster"
	"github.com/nephele-io/nephele/internal/apiserver/storage"
)

// localPods serves each Node the Pods that run there.
type localPods struct {
	storage.Resource
	index *roster.Index
	gate  gate
}

var (
	_ rest.Lister  = (*localPods)(nil)
	_ rest.Watcher = (*localPods)(nil)
)

func newLocalPods(b *roster.Index, g gate) rest.Storage {
	group := schema.GroupResource{Group: analysis.GroupName, Resource: "localpods"}
	return &localPods{storage.New(group, "localpod", true, func() runtime.Object { return &analysis.LocalPod{} }), b, g}
}

// NewList implements rest.Lister.
func (*localPods) NewList() runtime.Object { return &analysis.LocalPodList{} }

// node is the Node whose agent asks.
func (n *localPods) node(ctx context.Context, o *internalversion.ListOptions) (string, error) {
	f, err := storage.NewFilter(o)
	switch {
	case err != nil:
		return "", err
	case request.NamespaceValue(ctx) != "":
		return "", apierrors.NewBadRequest("a list of LocalPods is of all Namespaces together: ask for localpods without one")
	case o != nil && o.LabelSelector != nil && !o.LabelSelector.Empty():
		return "", apierrors.NewBadRequest("labelSelector: a LocalPod has no labels")
	case f.Key == "" || strings.Contains(f.Key, "/"):
		return "", apierrors.NewBadRequest(fmt.Sprintf("fieldSelector: nodeName is %q, want the name of a Node", f.Key))
	}
	return f.Key, n.gate.allow(ctx, n.Group, "", f.Key)
}

// List implements rest.Lister.
func (n *localPods) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	name, err := n.node(ctx, o)
	if err != nil {
		return nil, err
	}
	list, err := n.index.List(name)
	if err != nil {
		return nil, rosterError(err)
	}
	if err := storage.CheckList(o, list.ResourceVersion); err != nil {
		return nil, err
	}
	return list, nil
}

// Watch implements rest.Watcher.
func (n *localPods) Watch(ctx context.Context, o *internalversion.ListOptions) (watch.Interface, error) {
	name, err := n.node(ctx, o)
	if err != nil {
		return nil, err
	}
	position, err := storage.ResumeAt(o)
	if err != nil {
		return nil, err
	}
	leave, err := n.gate.watches.Enter(ctx, n.Group, name)
	if err != nil {
		return nil, err
	}
	w, err := n.index.Watch(ctx, name, roster.WatchOptions{Position: position, Bookmark: o != nil && o.AllowWatchBookmarks, Marks: storage.MarksInitialEvents(o), Ended: leave})
	if err != nil {
		leave()
		return nil, rosterError(err)
	}
	return w, nil
}

func rosterError(err error) error {
	if errors.Is(err, roster.ErrExpired) {
		return apierrors.NewResourceExpired(err.Error())
	}
	return apierrors.NewServiceUnavailable(err.Error())
}
