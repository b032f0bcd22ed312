// Package clustertest has a cluster for tests of what follows its objects.
//
// It owns the translation from a fake client to what an agent follows. It knows only the kinds that
// agents follow: others panic. It is safe for concurrent use as the client is.
package clustertest

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// Cluster is one whose objects a fake client holds.
type Cluster struct{ *fake.Clientset }

// Follow implements cluster.API.
func (c Cluster) Follow(of schema.GroupVersionResource, namespace string, only func(*metav1.ListOptions)) cache.ListerWatcher {
	list, watching := c.kind(of.Resource, namespace)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, l metav1.ListOptions) (runtime.Object, error) {
			only(&l)
			return list(ctx, l)
		},
		WatchFuncWithContext: func(ctx context.Context, l metav1.ListOptions) (watch.Interface, error) {
			only(&l)
			return watching(ctx, l)
		},
	}, c.Clientset)
}

type (
	lister  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watcher func(context.Context, metav1.ListOptions) (watch.Interface, error)
)

func (c Cluster) kind(resource, namespace string) (lister, watcher) {
	switch resource {
	case "pods":
		of := c.CoreV1().Pods(namespace)
		return func(ctx context.Context, l metav1.ListOptions) (runtime.Object, error) { return of.List(ctx, l) }, of.Watch
	case "nodes":
		of := c.CoreV1().Nodes()
		return func(ctx context.Context, l metav1.ListOptions) (runtime.Object, error) { return of.List(ctx, l) }, of.Watch
	case "services":
		of := c.CoreV1().Services(namespace)
		return func(ctx context.Context, l metav1.ListOptions) (runtime.Object, error) { return of.List(ctx, l) }, of.Watch
	case "endpointslices":
		of := c.DiscoveryV1().EndpointSlices(namespace)
		return func(ctx context.Context, l metav1.ListOptions) (runtime.Object, error) { return of.List(ctx, l) }, of.Watch
	}
	panic(fmt.Sprintf("the agent follows %s, which this cluster does not have", resource))
}
