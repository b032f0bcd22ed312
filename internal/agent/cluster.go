package agent

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// Cluster is the cluster of a Node.
type Cluster interface {
	// Follow returns what lists and watches the objects of a kind in a Namespace, or in all: those
	// that the options leave which only has filled in.
	Follow(of schema.GroupVersionResource, namespace string, only func(*metav1.ListOptions)) cache.ListerWatcher
}
