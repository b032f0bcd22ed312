// Package cluster is the way of an agent to the objects of the cluster of its Node.
//
// It owns the one interface by which parts of the agent follow objects. The command that starts the
// agent implements it with its client. An implementation keeps the order of changes, and says when
// all objects are there. It is safe for concurrent use.
package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// API is the cluster of a Node.
type API interface {
	// Follow returns what lists and watches the objects of a kind in a Namespace, or in all: those
	// that the options leave which only has filled in.
	Follow(of schema.GroupVersionResource, namespace string, only func(*metav1.ListOptions)) cache.ListerWatcher
}
