package policytest

import (
	"fmt"
	"net/netip"

	"github.com/nephele-io/nephele/internal/policy"
)

// Scale is a large world for benchmarks, as objects in the order in which they are put.
type Scale struct {
	Name    string
	Objects []Object
}

// hostsOf spreads entities over this many enforcers.
const scaleHosts = 1000

func (s *Scale) add(o Object) { s.Objects = append(s.Objects, o) }

func (s *Scale) entity(kind policy.EntityKind, namespace string, n int, labels map[string]string) {
	s.add(policy.Entity{
		EntityRef: policy.EntityRef{Kind: kind, Namespace: namespace, Name: fmt.Sprintf("e%d", n)},
		Labels:    labels,
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})},
		Host:      fmt.Sprintf("host-%d", n%scaleHosts),
	})
}

func (s *Scale) namespace(name string, labels map[string]string) {
	s.add(policy.Namespace{Name: name, Labels: labels})
}

// kubernetes adds a Kubernetes NetworkPolicy that lets peers in to what it selects, and nothing
// out; a nil peer denies all.
func (s *Scale) kubernetes(namespace string, n int, applied *policy.Selector, peer *policy.Peer) {
	p := policy.Policy{
		Kind: policy.KubernetesNetworkPolicy, Namespace: namespace, Name: fmt.Sprintf("p%d", n),
		UID:         fmt.Sprintf("%s-p%d", namespace, n),
		AppliedTo:   []policy.AppliedTo{{PodSelector: applied}},
		PolicyTypes: []policy.Direction{policy.Ingress, policy.Egress},
	}
	if peer != nil {
		p.Ingress = []policy.Rule{{Peers: []policy.Peer{*peer}}}
	}
	s.add(p)
}

func selectLabel(k, v string) *policy.Selector {
	return &policy.Selector{MatchLabels: map[string]string{k: v}}
}

// SmallNamespaces: n Namespaces of 4 Pods, 3 policies each: default deny, and two that select by
// one label on both sides.
func SmallNamespaces(n int) *Scale {
	s := &Scale{Name: "SmallNamespaces"}
	for i := range n {
		ns := fmt.Sprintf("ns-%d", i)
		s.namespace(ns, map[string]string{"name": ns})
		for j := range 4 {
			s.entity(policy.KindPod, ns, i*4+j, map[string]string{"app": fmt.Sprintf("app-%d", j%2)})
		}
		s.kubernetes(ns, 0, &policy.Selector{}, nil)
		for j := range 2 {
			sel := selectLabel("app", fmt.Sprintf("app-%d", j))
			s.kubernetes(ns, 1+j, sel, &policy.Peer{PodSelector: sel})
		}
	}
	return s
}

// LargeNamespaces: n Namespaces of 1,000 Pods, 101 policies each: default deny, and one for each of
// 100 labels.
func LargeNamespaces(n int) *Scale {
	s := &Scale{Name: "LargeNamespaces"}
	for i := range n {
		ns := fmt.Sprintf("ns-%d", i)
		s.namespace(ns, map[string]string{"name": ns})
		for j := range 1000 {
			s.entity(policy.KindPod, ns, i*1000+j, map[string]string{"app": fmt.Sprintf("app-%d", j%100)})
		}
		s.kubernetes(ns, 0, &policy.Selector{}, nil)
		for j := range 100 {
			sel := selectLabel("app", fmt.Sprintf("app-%d", j))
			s.kubernetes(ns, 1+j, sel, &policy.Peer{PodSelector: sel})
		}
	}
	return s
}

// OneNamespace: n Pods and n policies that each select every Pod on both sides.
func OneNamespace(n int) *Scale {
	s := &Scale{Name: "OneNamespace"}
	s.namespace("ns", nil)
	for i := range n {
		s.entity(policy.KindPod, "ns", i, map[string]string{"app": "x"})
	}
	for i := range n {
		sel := selectLabel("app", "x")
		s.kubernetes("ns", i, sel, &policy.Peer{PodSelector: sel})
	}
	return s
}

// PolicyPerPod: n Pods in one Namespace, each with its own label and a policy that admits one other
// Pod.
func PolicyPerPod(n int) *Scale {
	s := &Scale{Name: "PolicyPerPod"}
	s.namespace("ns", nil)
	for i := range n {
		s.entity(policy.KindPod, "ns", i, map[string]string{"id": fmt.Sprintf("id-%d", i)})
	}
	for i := range n {
		s.kubernetes("ns", i, selectLabel("id", fmt.Sprintf("id-%d", i)),
			&policy.Peer{PodSelector: selectLabel("id", fmt.Sprintf("id-%d", (i+1)%n))})
	}
	return s
}

// PolicyPerEntity: the same with ExternalEntities and Antrea policies.
func PolicyPerEntity(n int) *Scale {
	s := &Scale{Name: "PolicyPerEntity"}
	s.namespace("ns", nil)
	for i := range n {
		s.entity(policy.KindExternalEntity, "ns", i, map[string]string{"id": fmt.Sprintf("id-%d", i)})
	}
	for i := range n {
		s.add(policy.Policy{
			Kind: policy.AntreaNetworkPolicy, Namespace: "ns", Name: fmt.Sprintf("p%d", i), UID: fmt.Sprintf("uid-%d", i),
			Priority:  5,
			AppliedTo: []policy.AppliedTo{{ExternalEntitySelector: selectLabel("id", fmt.Sprintf("id-%d", i))}},
			Ingress: []policy.Rule{{
				Action: policy.Allow, Name: "r",
				Peers: []policy.Peer{{ExternalEntitySelector: selectLabel("id", fmt.Sprintf("id-%d", (i+1)%n))}},
			}},
		})
	}
	return s
}

// ClusterScoped: n Namespaces of 100 Pods, 10 policies each; the peers are the Pods with one label
// of 10 Namespaces that have a label in common: 100 Pods.
func ClusterScoped(n int) *Scale {
	s := &Scale{Name: "ClusterScoped"}
	for i := range n {
		ns := fmt.Sprintf("ns-%d", i)
		s.namespace(ns, map[string]string{"name": ns, "team": fmt.Sprintf("team-%d", i/10)})
		for j := range 100 {
			s.entity(policy.KindPod, ns, i*100+j, map[string]string{"app": fmt.Sprintf("app-%d", j%10)})
		}
		for j := range 10 {
			s.kubernetes(ns, j, selectLabel("app", fmt.Sprintf("app-%d", j)), &policy.Peer{
				PodSelector:       selectLabel("app", fmt.Sprintf("app-%d", j)),
				NamespaceSelector: selectLabel("team", fmt.Sprintf("team-%d", i/10)),
			})
		}
	}
	return s
}

// Hub: n Namespaces of 100 Pods, one half of each in front of the other, 2 policies each: default
// deny, and one that lets the Pods in front reach the others. 10,000 Namespaces are a million Pods,
// as the hub of a set of clusters has them.
func Hub(n int) *Scale {
	s := &Scale{Name: "Hub"}
	sides := [2]string{"front", "back"}
	for i := range n {
		ns := fmt.Sprintf("ns-%d", i)
		s.namespace(ns, map[string]string{"name": ns})
		for j := range 100 {
			s.entity(policy.KindPod, ns, i*100+j, map[string]string{"app": fmt.Sprintf("app-%d", j%10), "side": sides[j%2]})
		}
		s.kubernetes(ns, 0, &policy.Selector{}, nil)
		s.kubernetes(ns, 1, selectLabel("side", "back"), &policy.Peer{PodSelector: selectLabel("side", "front")})
	}
	return s
}
