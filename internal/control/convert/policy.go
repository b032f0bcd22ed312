package convert

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/policy"
)

// Tier converts a Tier.
func Tier(t *v1beta1.Tier) policy.Tier {
	return policy.Tier{Name: t.Name, Priority: t.Spec.Priority}
}

// Group converts a Group.
func Group(g *v1beta1.Group) policy.Group { return group(g.ObjectMeta, g.Spec) }

// ClusterGroup converts a ClusterGroup.
func ClusterGroup(g *v1beta1.ClusterGroup) policy.Group { return group(g.ObjectMeta, g.Spec) }

func group(m metav1.ObjectMeta, s v1beta1.GroupSpec) policy.Group {
	g := policy.Group{
		Namespace: m.Namespace, Name: m.Name, UID: string(m.UID),
		PodSelector:            selector(s.PodSelector),
		NamespaceSelector:      selector(s.NamespaceSelector),
		ExternalEntitySelector: selector(s.ExternalEntitySelector),
		NodeSelector:           selector(s.NodeSelector),
		ServiceReference:       namespacedName(s.ServiceReference),
		ChildGroups:            s.ChildGroups,
	}
	for _, b := range s.IPBlocks {
		g.IPBlocks = append(g.IPBlocks, policy.IPBlock{CIDR: b.CIDR, Except: b.Except})
	}
	return g
}

// NetworkPolicy converts an Antrea NetworkPolicy.
func NetworkPolicy(p *v1beta1.NetworkPolicy) policy.Policy {
	return antreaPolicy(policy.AntreaNetworkPolicy, p.ObjectMeta, p.Spec)
}

// ClusterNetworkPolicy converts an Antrea ClusterNetworkPolicy.
func ClusterNetworkPolicy(p *v1beta1.ClusterNetworkPolicy) policy.Policy {
	return antreaPolicy(policy.AntreaClusterNetworkPolicy, p.ObjectMeta, p.Spec)
}

func antreaPolicy(kind policy.PolicyKind, m metav1.ObjectMeta, s v1beta1.NetworkPolicySpec) policy.Policy {
	return policy.Policy{
		Kind: kind, Namespace: m.Namespace, Name: m.Name, UID: string(m.UID), Generation: m.Generation,
		Tier: tierName(s.Tier), Priority: s.Priority,
		AppliedTo: appliedTo(s.AppliedTo),
		Ingress:   rules(s.Ingress, policy.Ingress),
		Egress:    rules(s.Egress, policy.Egress),
	}
}

// tierName returns the present name of a system tier for the capitalised one that it had of old, which is still accepted.
func tierName(name string) string {
	switch name {
	case "Emergency", "SecurityOps", "NetworkOps", "Platform", "Application", "Baseline":
		return strings.ToLower(name)
	}
	return name
}

func rules(in []v1beta1.Rule, direction policy.Direction) []policy.Rule {
	out := make([]policy.Rule, 0, len(in))
	for i := range in {
		r := &in[i]
		p := policy.Rule{
			Name: r.Name, Action: policy.Action(r.Action), EnableLogging: r.EnableLogging, LogLabel: r.LogLabel,
			AppliedTo: appliedTo(r.AppliedTo), L7Protocols: l7Protocols(r.L7Protocols),
		}
		peers := r.From
		if direction == policy.Egress {
			peers = r.To
		}
		for j := range peers {
			p.Peers = append(p.Peers, peer(&peers[j]))
		}
		for _, s := range r.ToServices {
			p.ToServices = append(p.ToServices, policy.ServicePeer{Namespace: s.Namespace, Name: s.Name, Scope: string(s.Scope)})
		}
		for _, port := range r.Ports {
			p.Ports = append(p.Ports, antreaPort(port))
		}
		for _, x := range r.Protocols {
			p.Protocols = append(p.Protocols, ruleProtocol(x))
		}
		out = append(out, p)
	}
	return out
}

// antreaPort leaves a protocol that is not given open, which the engine takes for TCP: the name of a rule without one is a hash over
// what is given.
func antreaPort(p v1beta1.NetworkPolicyPort) policy.Port {
	out := policy.Port{Port: portRef(p.Port), EndPort: p.EndPort, SourcePort: p.SourcePort, SourceEndPort: p.SourceEndPort}
	if p.Protocol != nil {
		out.Protocol = policy.Protocol(*p.Protocol)
	}
	return out
}

func ruleProtocol(p v1beta1.NetworkPolicyProtocol) policy.RuleProtocol {
	var out policy.RuleProtocol
	if p.ICMP != nil {
		out.ICMP = &policy.ICMPMatch{Type: p.ICMP.ICMPType, Code: p.ICMP.ICMPCode}
	}
	if p.IGMP != nil {
		out.IGMP = &policy.IGMPMatch{Type: p.IGMP.IGMPType, GroupAddress: p.IGMP.GroupAddress}
	}
	return out
}

func l7Protocols(in []v1beta1.L7Protocol) []policy.L7Protocol {
	var out []policy.L7Protocol
	for _, p := range in {
		var l policy.L7Protocol
		if p.HTTP != nil {
			l.HTTP = &policy.HTTPMatch{Host: p.HTTP.Host, Method: p.HTTP.Method, Path: p.HTTP.Path}
		}
		if p.TLS != nil {
			l.TLS = &policy.TLSMatch{SNI: p.TLS.SNI}
		}
		out = append(out, l)
	}
	return out
}

func peer(p *v1beta1.NetworkPolicyPeer) policy.Peer {
	out := policy.Peer{
		PodSelector:            selector(p.PodSelector),
		NamespaceSelector:      selector(p.NamespaceSelector),
		ExternalEntitySelector: selector(p.ExternalEntitySelector),
		NodeSelector:           selector(p.NodeSelector),
		Group:                  p.Group,
		ServiceAccount:         namespacedName(p.ServiceAccount),
		FQDN:                   p.FQDN,
		Scope:                  string(p.Scope),
	}
	if p.IPBlock != nil {
		out.IPBlock = &policy.IPBlock{CIDR: p.IPBlock.CIDR, Except: p.IPBlock.Except}
	}
	if p.Namespaces != nil {
		out.Namespaces = &policy.PeerNamespaces{Match: string(p.Namespaces.Match), SameLabels: p.Namespaces.SameLabels}
	}
	return out
}

func appliedTo(in []v1beta1.AppliedTo) []policy.AppliedTo {
	var out []policy.AppliedTo
	for _, a := range in {
		out = append(out, policy.AppliedTo{
			PodSelector:            selector(a.PodSelector),
			NamespaceSelector:      selector(a.NamespaceSelector),
			ExternalEntitySelector: selector(a.ExternalEntitySelector),
			NodeSelector:           selector(a.NodeSelector),
			Group:                  a.Group,
			ServiceAccount:         namespacedName(a.ServiceAccount),
			Service:                namespacedName(a.Service),
		})
	}
	return out
}

// KubernetesNetworkPolicy converts a NetworkPolicy of networking.k8s.io.
func KubernetesNetworkPolicy(p *networkingv1.NetworkPolicy) policy.Policy {
	out := policy.Policy{
		Kind: policy.KubernetesNetworkPolicy, Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Generation: p.Generation,
		AppliedTo: []policy.AppliedTo{{PodSelector: selector(&p.Spec.PodSelector)}},
	}
	if n := len(p.Spec.PolicyTypes); n > 0 {
		out.PolicyTypes = make([]policy.Direction, 0, n)
	}
	for _, t := range p.Spec.PolicyTypes {
		switch t {
		case networkingv1.PolicyTypeIngress:
			out.PolicyTypes = append(out.PolicyTypes, policy.Ingress)
		case networkingv1.PolicyTypeEgress:
			out.PolicyTypes = append(out.PolicyTypes, policy.Egress)
		}
	}
	for _, r := range p.Spec.Ingress {
		out.Ingress = append(out.Ingress, kubernetesRule(r.From, r.Ports))
	}
	for _, r := range p.Spec.Egress {
		out.Egress = append(out.Egress, kubernetesRule(r.To, r.Ports))
	}
	return out
}

func kubernetesRule(peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) policy.Rule {
	var r policy.Rule
	if len(peers) > 0 {
		r.Peers = make([]policy.Peer, 0, len(peers))
	}
	for _, p := range peers {
		q := policy.Peer{PodSelector: selector(p.PodSelector), NamespaceSelector: selector(p.NamespaceSelector)}
		if p.IPBlock != nil {
			q.IPBlock = &policy.IPBlock{CIDR: p.IPBlock.CIDR, Except: p.IPBlock.Except}
		}
		r.Peers = append(r.Peers, q)
	}
	for _, p := range ports {
		port := policy.Port{Protocol: policy.TCP, Port: portRef(p.Port), EndPort: p.EndPort}
		if p.Protocol != nil && *p.Protocol != "" {
			port.Protocol = policy.Protocol(*p.Protocol)
		}
		r.Ports = append(r.Ports, port)
	}
	return r
}

func portRef(p *intstr.IntOrString) *policy.PortRef {
	switch {
	case p == nil:
		return nil
	case p.Type == intstr.String:
		return &policy.PortRef{Name: p.StrVal}
	default:
		return &policy.PortRef{Number: p.IntVal}
	}
}

func selector(s *metav1.LabelSelector) *policy.Selector {
	if s == nil {
		return nil
	}
	out := &policy.Selector{MatchLabels: s.MatchLabels}
	for _, r := range s.MatchExpressions {
		out.MatchExpressions = append(out.MatchExpressions, policy.Requirement{Key: r.Key, Operator: string(r.Operator), Values: r.Values})
	}
	return out
}

func namespacedName(n *v1beta1.NamespacedName) *policy.NamespacedName {
	if n == nil {
		return nil
	}
	return &policy.NamespacedName{Namespace: n.Namespace, Name: n.Name}
}
