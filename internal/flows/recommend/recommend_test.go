package recommend_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/flows/recommend"
	"github.com/nephele-io/nephele/internal/policy"
)

// TestMachineWithoutLabels: no selector is empty, since that would select the whole namespace. Such
// a machine gets no policy and a remark, and rules name it by its address.
func TestMachineWithoutLabels(t *testing.T) {
	web := policy.EntityRef{Kind: policy.KindPod, Namespace: "shop", Name: "web"}
	bare := policy.EntityRef{Kind: policy.KindPod, Namespace: "shop", Name: "bare"}
	entities := map[policy.EntityRef]policy.Entity{
		web:  {EntityRef: web, Labels: map[string]string{"app": "web"}},
		bare: {EntityRef: bare},
	}
	addr := netip.MustParseAddr("10.0.0.7")
	out := recommend.Policies([]recommend.Edge{
		{Machine: web, Direction: cloud.Ingress, Peer: bare, Address: addr, Protocol: 6, Port: 80, Connections: 1},
		{Machine: bare, Direction: cloud.Ingress, Peer: web, Address: netip.MustParseAddr("10.0.0.8"), Protocol: 6, Port: 22, Connections: 1},
	}, entities, recommend.Options{Namespace: "shop", Keys: []string{"app"}})
	if len(out.Policies) != 1 {
		t.Fatalf("%d policies, want that of web alone", len(out.Policies))
	}
	p := out.Policies[0]
	if s := p.Spec.AppliedTo[0].PodSelector; s == nil || s.MatchLabels["app"] != "web" {
		t.Errorf("applied to %+v, want app=web", p.Spec.AppliedTo)
	}
	if b := p.Spec.Ingress[0].From[0].IPBlock; b == nil || b.CIDR != "10.0.0.7/32" {
		t.Errorf("from %+v, want the address of the machine without labels", p.Spec.Ingress[0].From)
	}
	if want := "bare has no label that a policy could select it by: no policy is written for it"; !slices.Contains(out.Remarks, want) {
		t.Errorf("remarks %q, want %q", out.Remarks, want)
	}
}

// TestPeerOnTheNetworkOfItsNode: such a Pod is in no group, so a rule names its address.
func TestPeerOnTheNetworkOfItsNode(t *testing.T) {
	web := policy.EntityRef{Kind: policy.KindPod, Namespace: "shop", Name: "web"}
	proxy := policy.EntityRef{Kind: policy.KindPod, Namespace: "shop", Name: "proxy"}
	entities := map[policy.EntityRef]policy.Entity{
		web:   {EntityRef: web, Labels: map[string]string{"app": "web"}},
		proxy: {EntityRef: proxy, Labels: map[string]string{"app": "proxy"}, HostNetwork: true},
	}
	out := recommend.Policies([]recommend.Edge{
		{Machine: web, Direction: cloud.Ingress, Peer: proxy, Address: netip.MustParseAddr("10.0.0.7"), Protocol: 6, Port: 80, Connections: 1},
	}, entities, recommend.Options{Namespace: "shop", Keys: []string{"app"}})
	if len(out.Policies) != 1 {
		t.Fatalf("%d policies, want one", len(out.Policies))
	}
	if b := out.Policies[0].Spec.Ingress[0].From[0].IPBlock; b == nil || b.CIDR != "10.0.0.7/32" {
		t.Errorf("from %+v, want the address of the proxy", out.Policies[0].Spec.Ingress[0].From)
	}
}
