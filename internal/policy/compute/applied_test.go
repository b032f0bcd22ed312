package compute_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
)

// TestChildGroupsBringNoNodes: a group is applied to the Nodes that it selects itself, and admits
// the Nodes of its child groups too.
func TestChildGroupsBringNoNodes(t *testing.T) {
	e := compute.New(compute.Options{})
	node := policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindNode, Name: "n1"}, Host: "n1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
	pod := policy.Entity{
		EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: "app", Name: "p"}, Host: "n2", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
	}
	e.PutEntity(node)
	e.PutEntity(pod)
	e.PutGroup(policy.Group{Name: "nodes", UID: "nodes", NodeSelector: &policy.Selector{}})
	e.PutGroup(policy.Group{Name: "pods", UID: "pods", PodSelector: &policy.Selector{}})
	e.PutGroup(policy.Group{Name: "both", UID: "both", ChildGroups: []string{"nodes", "pods"}})
	p := valid("p")
	p.Namespace, p.Kind, p.AppliedTo = "", policy.AntreaClusterNetworkPolicy, []policy.AppliedTo{{Group: "both"}}
	p.Ingress[0].Peers = []policy.Peer{{Group: "both"}}
	e.PutPolicy(p)
	e.Commit()
	listing := e.Listing()
	if got := listing.Policies[0].Span; !slices.Equal(got, []string{"n2"}) {
		t.Errorf("the policy is for %v, want n2 only", got)
	}
	if got := listing.AppliedToGroups[0].Members; len(got) != 1 || got[0].Kind != policy.KindPod {
		t.Errorf("the policy is applied to %v, want the Pod only", got)
	}
	if got := listing.AddressGroups[0].Members; len(got) != 2 {
		t.Errorf("peers are %v, want the Pod and the Node", got)
	}
}

// TestAppliedToIsUsedOrNotThere: a policy does not concern Namespaces that no copy of its rules is
// for, wherever appliedTo stands.
func TestAppliedToIsUsedOrNotThere(t *testing.T) {
	for _, perRule := range []bool{true, false} {
		e := compute.New(compute.Options{})
		for _, n := range []policy.Namespace{{Name: "labelled", Labels: map[string]string{"team": "a"}}, {Name: "plain"}} {
			e.PutNamespace(n)
			e.PutEntity(policy.Entity{
				EntityRef: policy.EntityRef{Kind: policy.KindPod, Namespace: n.Name, Name: "p"}, Host: "on-" + n.Name,
				Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
			})
		}
		p := valid("p")
		p.Namespace, p.Kind = "", policy.AntreaClusterNetworkPolicy
		p.AppliedTo = []policy.AppliedTo{{NamespaceSelector: &policy.Selector{}}}
		p.Ingress[0].Peers = []policy.Peer{{Namespaces: &policy.PeerNamespaces{SameLabels: []string{"team"}}}}
		want := []string{"on-labelled"}
		if perRule {
			p.Ingress[0].AppliedTo, p.AppliedTo = p.AppliedTo, nil
		}
		e.PutPolicy(p)
		e.Commit()
		listing := e.Listing()
		if got := listing.Policies[0].Span; !slices.Equal(got, want) || len(listing.AppliedToGroups) != len(want) {
			t.Errorf("appliedTo in the rule: %t: the policy is for %v with %d groups, want %v", perRule, got, len(listing.AppliedToGroups), want)
		}
	}
}
