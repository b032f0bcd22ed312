package apiserver_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// A group that stands for a Group of a Namespace has a slash in its name. No path leads to it,
// escaped or not; selectors do, in lists and watches, and so do selectors of keys with slashes.
func TestNamesWithSlashes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill()
	const key = "cloud/vms/prod"
	change := watchstore.GroupChange{Name: "vms/web", UID: "u", Added: []watchstore.Member{pod(1, "")}, SpanAdded: []string{key}}
	w.store.Publish(watchstore.Changes{AddressGroups: []watchstore.GroupChange{change}})
	for _, contentType := range encodings {
		c := w.client(t, "agent", contentType)
		for _, selector := range []string{"metadata.name=vms/web", "nodeName=" + key, "nodeName=" + key + ",metadata.name=vms/web"} {
			var list v1beta2.AddressGroupList
			if err := c.Get().Resource("addressgroups").Param("fieldSelector", selector).Do(t.Context()).Into(&list); err != nil {
				t.Fatal(err)
			}
			if len(list.Items) != 1 || list.Items[0].Name != "vms/web" {
				t.Errorf("%s: got %+v", selector, list.Items)
			}
			s := w.open(t, contentType, "addressgroups", "fieldSelector", selector)
			if e := next(t, s); e.Type != watch.Added || e.Object.(*v1beta2.AddressGroup).Name != "vms/web" {
				t.Errorf("%s: got %v", selector, e)
			}
			if e := next(t, s); e.Type != watch.Bookmark {
				t.Errorf("%s: got %v", selector, e)
			}
		}
	}
	c := w.client(t, "agent", runtime.ContentTypeJSON)
	for _, path := range []string{"vms/web", "vms%2Fweb", "vms%2fweb/status", "%00"} {
		// Both are right: there is no such subresource, and no such object.
		err := c.Get().RequestURI("/apis/controlplane.antrea.io/v1beta2/addressgroups/" + path).Do(t.Context()).Error()
		if !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
			t.Errorf("%s: got %v", path, err)
		}
	}
	status := &v1beta2.NetworkPolicyStatus{Nodes: []v1beta2.NetworkPolicyNodeStatus{{NodeName: key, Generation: 1}}}
	status.Name = "u9"
	w.store.Publish(watchstore.Changes{Policies: []watchstore.PolicyChange{policyChange(status.Name, 1, key)}})
	if err := c.Post().Resource("networkpolicies").Name(status.Name).SubResource("status").Body(status).Do(t.Context()).Error(); err != nil {
		t.Error(err)
	}
	if got := w.reports.all(); len(got) != 1 || got[0].Nodes[0].NodeName != key {
		t.Errorf("got %+v", got)
	}
}
