package apiserver_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/egress"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// TestEgressGroupsOnTheWire: agents list and watch which Pods Egresses apply to, in both encodings.
func TestEgressGroupsOnTheWire(t *testing.T) {
	t.Parallel()
	groups := egress.NewGroups(7)
	w := &world{store: watchstore.New(watchstore.Options{}), reports: &reportBook{}, dir: t.TempDir(), queries: &answers{ready: true}, book: stats.New(clock.RealClock{}), egress: groups}
	w.start(t, "127.0.0.1:0")
	w.store.Publish(watchstore.Changes{})
	of := &egress.World{Egresses: []v1beta1.Egress{{ObjectMeta: metav1.ObjectMeta{Name: "out", UID: "u"}, Spec: v1beta1.EgressSpec{
		AppliedTo: v1beta1.EgressAppliedTo{PodSelector: &metav1.LabelSelector{}}, ExternalIPPool: "p",
	}}}}
	pod := func(name, node, at string) egress.Pod {
		return egress.Pod{Namespace: "n", Name: name, Node: node, Addresses: []netip.Addr{netip.MustParseAddr(at)}}
	}
	for name, contentType := range encodings {
		c := w.client(t, "agent", contentType)
		of.Pods = []egress.Pod{pod("a", "n1", "10.0.0.1")}
		groups.Set(of)
		var list v1beta2.EgressGroupList
		if err := c.Get().Resource("egressgroups").Do(t.Context()).Into(&list); err != nil || len(list.Items) != 1 || len(list.Items[0].GroupMembers) != 1 || list.Items[0].UID != "u" {
			t.Fatalf("%s: %+v %v", name, list, err)
		}
		client, err := enforcer.NewClient(enforcer.ClientOptions{Config: func() (*rest.Config, error) { return w.config("agent", contentType), nil }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		stream, err := client.Watch(ctx, "egressgroups", "n1")
		if err != nil {
			t.Fatal(err)
		}
		next := func(want watch.EventType) watch.Event {
			t.Helper()
			e, err := stream.Next(ctx)
			if err != nil || e.Type != want {
				t.Fatalf("%s: %+v %v, want %s", name, e, err, want)
			}
			return e
		}
		if g, ok := next(watch.Added).Object.(*v1beta2.EgressGroup); !ok || len(g.GroupMembers) != 1 || g.GroupMembers[0].Pod.Name != "a" {
			t.Errorf("%s: %+v", name, g)
		}
		next(watch.Bookmark)
		of.Pods = append(of.Pods, pod("b", "n2", "10.0.0.2"))
		groups.Set(of)
		if p, ok := next(watch.Modified).Object.(*v1beta2.EgressGroupPatch); !ok || len(p.AddedGroupMembers) != 1 || p.AddedGroupMembers[0].Pod.Name != "b" || len(p.RemovedGroupMembers) > 0 {
			t.Errorf("%s: %+v", name, p)
		}
		of.Pods = of.Pods[1:] // none of the Node is left
		groups.Set(of)
		next(watch.Deleted)
		stream.Stop()
		cancel()
	}
}
