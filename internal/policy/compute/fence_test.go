package compute_test

import (
	"net/netip"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// TestFences holds when a Group may be what a policy of its Namespace is applied to, as its members
// come and go.
func TestFences(t *testing.T) {
	e := compute.New(compute.Options{})
	pod := func(namespace, role string) policy.Entity {
		return policy.Entity{
			EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: namespace, Name: "p"}, Labels: map[string]string{"role": role},
			Host: "n1", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		}
	}
	web := &policy.Selector{MatchLabels: map[string]string{"role": "web"}}
	p := valid("p")
	p.AppliedTo = []policy.AppliedTo{{Group: "g"}}
	wide := valid("wide")
	wide.Namespace, wide.Kind, wide.AppliedTo = "", policy.AntreaClusterNetworkPolicy, []policy.AppliedTo{{Group: "cg"}}
	peer := valid("peer")
	peer.Ingress[0].Peers = []policy.Peer{{Group: "g"}}
	for _, policy := range []policy.Policy{p, wide, peer} {
		e.PutPolicy(policy)
	}
	e.PutGroup(policy.Group{Name: "cg", UID: "cg", NamespaceSelector: &policy.Selector{}, PodSelector: web})
	group := policy.Group{Namespace: "vms", Name: "g", UID: "g", NamespaceSelector: &policy.Selector{}, PodSelector: web}
	for _, step := range []struct {
		name     string
		change   func()
		computed bool
	}{
		{"a group of nobody", func() { e.PutGroup(group) }, true},
		{"a member at home", func() { e.PutEntity(pod("vms", "web")) }, true},
		{"a stranger", func() { e.PutEntity(pod("app", "web")) }, false},
		{"a second one", func() { e.PutEntity(pod("app2", "web")) }, false},
		{"the first is none any more", func() { e.PutEntity(pod("app", "db")) }, false},
		{"the second is gone", func() { e.DeleteEntity(pod("app2", "").EntityRef) }, true},
		{"one again", func() { e.PutEntity(pod("app", "web")) }, false},
		{"the group selects at home only", func() {
			e.PutGroup(policy.Group{Namespace: "vms", Name: "g", UID: "g", PodSelector: web})
		}, true},
		{"by a child it selects everywhere", func() {
			e.PutGroup(policy.Group{Namespace: "vms", Name: "child", UID: "c", NamespaceSelector: &policy.Selector{}, PodSelector: web})
			e.PutGroup(policy.Group{Namespace: "vms", Name: "g", UID: "g", ChildGroups: []string{"child"}})
		}, false},
		{"a Service in another Namespace", func() {
			e.PutService(policy.Service{Namespace: "app", Name: "s", Selector: map[string]string{"role": "web"}})
			e.PutGroup(policy.Group{Namespace: "vms", Name: "g", UID: "g", ServiceReference: &policy.NamespacedName{Namespace: "app", Name: "s"}})
		}, false},
		{"the group is gone", func() { e.DeleteGroup(policy.NamespacedName{Namespace: "vms", Name: "g"}) }, true},
	} {
		step.change()
		e.Commit()
		computed := 0
		for _, c := range e.Listing().Policies {
			if c.Source.Name == "p" {
				computed++
			}
		}
		if (computed == 1) != step.computed {
			t.Errorf("%s: computed %d times", step.name, computed)
		}
		if n := len(e.Listing().Policies) - computed; n != 2 {
			t.Errorf("%s: of a policy of the cluster and one with the group as peer, %d are computed", step.name, n)
		}
	}
}
