package egress

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// text is a group for comparison.
func text(g *v1beta2.EgressGroup) map[string]string {
	out := map[string]string{}
	for i := range g.GroupMembers {
		m := &g.GroupMembers[i]
		out[m.Pod.Namespace+"/"+m.Pod.Name] = fmt.Sprint(m.IPs)
	}
	return out
}

// TestGroupsFollowed: a receiver that follows changes has what a list has, whatever happens, and
// whatever of it concerns its Node.
func TestGroupsFollowed(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 7))
		g := NewGroups(1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		w := g.Watch(ctx, "n1", func(b *v1beta2.EgressGroup) { b.Annotations = map[string]string{"a": "b"} }, func() { close(ended) })
		has, begun := map[string]map[string]string{}, false
		world := func() *World {
			w := &World{Namespaces: map[string]map[string]string{"a": {"in": "a"}, "b": {"in": "b"}}, Nodes: map[string]map[string]string{"n1": {"e": fmt.Sprint(random.IntN(2))}, "n2": {}}}
			for i := range random.IntN(4) {
				e := v1beta1.Egress{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("e", i), UID: types.UID(fmt.Sprint(random.IntN(6) / 5))}}
				e.Spec.AppliedTo.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"l": fmt.Sprint(random.IntN(2))}}
				if random.IntN(2) == 0 {
					e.Spec.AppliedTo.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"in": "a"}}
				}
				e.Spec.ExternalIPPool = fmt.Sprint("p", random.IntN(2))
				w.Egresses = append(w.Egresses, e)
			}
			w.Pools = []v1beta1.ExternalIPPool{{ObjectMeta: metav1.ObjectMeta{Name: "p1"}, Spec: v1beta1.ExternalIPPoolSpec{NodeSelector: metav1.LabelSelector{MatchLabels: map[string]string{"e": "1"}}}}}
			for i := range random.IntN(8) {
				w.Pods = append(w.Pods, Pod{[]string{"a", "b"}[random.IntN(2)], fmt.Sprint("p", i), fmt.Sprint("n", 1+random.IntN(2)), map[string]string{"l": fmt.Sprint(random.IntN(2))},
					[]netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(random.IntN(2)), byte(i)})}})
			}
			return w
		}
		for round := range 30 {
			now := world()
			g.Set(now)
			list, _, known := g.List("n1")
			if !known {
				t.Fatal("nothing is known after Set")
			}
			want := map[string]map[string]string{}
			for i := range list {
				want[list[i].Name] = text(&list[i])
			}
			// By hand: the groups that concern the Node, and their members.
			byHand := map[string]map[string]string{}
			for _, e := range now.Egresses {
				members, concerns := map[string]string{}, e.Spec.ExternalIPPool == "p1" && now.Nodes["n1"]["e"] == "1"
				for _, p := range now.Pods {
					if p.Labels["l"] == e.Spec.AppliedTo.PodSelector.MatchLabels["l"] && (e.Spec.AppliedTo.NamespaceSelector == nil || p.Namespace == "a") {
						members[p.Namespace+"/"+p.Name] = fmt.Sprint([]v1beta2.IPAddress{p.Addresses[0].AsSlice()})
						concerns = concerns || p.Node == "n1"
					}
				}
				if concerns {
					byHand[e.Name] = members
				}
			}
			if !maps.EqualFunc(want, byHand, maps.Equal) {
				t.Fatalf("seed %d round %d: a list has %v, want %v", seed, round, want, byHand)
			}
			end := time.Now().Add(10 * time.Second)
			for !maps.EqualFunc(has, want, maps.Equal) || !begun {
				select {
				case e := <-w.ResultChan():
					if e.Type == watch.Bookmark {
						if begun || e.Object.(*v1beta2.EgressGroup).Annotations["a"] != "b" {
							t.Fatalf("seed %d: a bookmark %+v", seed, e.Object)
						}
						begun = true
					}
					apply(t, has, e)
				case <-time.After(time.Until(end)):
					t.Fatalf("seed %d round %d: a receiver has %v, want %v", seed, round, has, want)
				}
			}
		}
		cancel()
		for range w.ResultChan() {
		}
		<-ended
	}
}

func apply(t *testing.T, has map[string]map[string]string, e watch.Event) {
	t.Helper()
	switch o := e.Object.(type) {
	case *v1beta2.EgressGroup:
		switch e.Type {
		case watch.Added:
			if has[o.Name] != nil {
				t.Fatalf("%s is added twice", o.Name)
			}
			has[o.Name] = text(o)
		case watch.Deleted:
			delete(has, o.Name)
		}
	case *v1beta2.EgressGroupPatch:
		for i := range o.RemovedGroupMembers {
			delete(has[o.Name], o.RemovedGroupMembers[i].Pod.Namespace+"/"+o.RemovedGroupMembers[i].Pod.Name)
		}
		maps.Copy(has[o.Name], text(&v1beta2.EgressGroup{GroupMembers: o.AddedGroupMembers}))
	}
}

// TestGroupsNotKnown: before anything is known there is no list, and a watch waits.
func TestGroupsNotKnown(t *testing.T) {
	g := NewGroups(1)
	if list, _, known := g.List(""); known || len(list) > 0 {
		t.Errorf("%v", list)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := g.Watch(ctx, "", func(*v1beta2.EgressGroup) {}, func() {})
	select {
	case e := <-w.ResultChan():
		t.Errorf("%+v", e)
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	for range w.ResultChan() {
	}
}

// TestStatus: what an Egress says of itself.
func TestStatus(t *testing.T) {
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	node, nobody := "node1", ""
	lease := func(holder *string, problem string) *coordinationv1.Lease {
		l := &coordinationv1.Lease{}
		l.Spec.HolderIdentity = holder
		if problem != "" {
			l.Annotations = map[string]string{annotationProblem: problem}
		}
		return l
	}
	for name, c := range map[string]struct {
		of         Allocation
		leases     map[string]*coordinationv1.Lease
		node, text string
	}{
		"refused":       {Allocation{Problem: "there is none"}, nil, "", "IPAllocated False Cannot allocate EgressIP: there is none; IPAssigned False There is no address"},
		"on its Node":   {Allocation{Addresses: []netip.Addr{a}}, map[string]*coordinationv1.Lease{leaseName(a): lease(&node, "")}, "node1", "IPAllocated True EgressIP is successfully allocated; IPAssigned True Node node1 has 192.0.2.1"},
		"on none":       {Allocation{Addresses: []netip.Addr{a}}, map[string]*coordinationv1.Lease{leaseName(a): lease(&nobody, "")}, "", "IPAssigned False no Node has 192.0.2.1"},
		"refused there": {Allocation{Addresses: []netip.Addr{a}}, map[string]*coordinationv1.Lease{leaseName(a): lease(&nobody, "Node node1: no link")}, "", "IPAssigned False Node node1: no link; what the Pods send"},
		"one of two":    {Allocation{Addresses: []netip.Addr{a, b}}, map[string]*coordinationv1.Lease{leaseName(a): lease(&node, "")}, "node1", "IPAssigned False no Node has 2001:db8::1"},
	} {
		got := statusOf(&v1beta1.EgressStatus{}, c.of, c.leases, time.Unix(1, 0))
		var words []string
		for _, x := range got.Conditions {
			words = append(words, fmt.Sprintf("%s %s %s", x.Type, x.Status, x.Message))
		}
		if all := strings.Join(words, "; "); got.EgressNode != c.node || !strings.Contains(all, c.text) || (got.EgressIP == "") != (c.node == "") {
			t.Errorf("%s: %+v: %s", name, got, all)
		}
		again := statusOf(&got, c.of, c.leases, time.Unix(99, 0))
		if !slices.Equal(got.Conditions, again.Conditions) {
			t.Errorf("%s: it changes by itself: %+v", name, again)
		}
	}
	spec := v1beta1.EgressSpec{ExternalIPPools: []string{"x", "y"}}
	if fill(&spec, []netip.Addr{a, b}); !slices.Equal(spec.EgressIPs, []string{"192.0.2.1", "2001:db8::1"}) || spec.EgressIP != "" {
		t.Errorf("%+v", spec)
	}
}
