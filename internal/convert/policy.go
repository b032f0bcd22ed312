package convert

import (
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
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
		Kind: kind, Namespace: m.Namespace, Name: m.Name, UID: string(m.UID), Generation: m.Generation, Set: ofSet(&m),
		Tier: tierName(s.Tier), Priority: s.Priority,
		AppliedTo: appliedTo(s.AppliedTo),
		Ingress:   rules(s.Ingress, policy.Ingress),
		Egress:    rules(s.Egress, policy.Egress),
	}
}

// Spread reports whether a policy is for several clusters, and for which: then it is not for the
// one that it is in.
func Spread(m metav1.Object) (selector string, is bool) {
	selector, is = m.GetAnnotations()[setv1alpha1.AnnotationClusters]
	return selector, is
}

// FromHub reports whether an object is one that the hub has sent.
func FromHub(m metav1.Object) bool { return m.GetLabels()[setv1alpha1.LabelFromHub] == "true" }

func ofSet(m metav1.Object) bool {
	_, spread := Spread(m)
	return spread || FromHub(m)
}

// tierName returns the present name of a system tier for the capitalised one that it had of old,
// which is still accepted.
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

// antreaPort leaves a protocol that is not given open, which the engine takes for TCP: the name of
// a rule without one is a hash over what is given.
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
	var out policy.Policy
	kubernetesPolicy(&out, p)
	return out
}

// KubernetesSource is a NetworkPolicy of networking.k8s.io as a source of what
// KubernetesNetworkPolicy returns.
type KubernetesSource networkingv1.NetworkPolicy

// Ref implements policy.PolicySource.
func (s *KubernetesSource) Ref() policy.PolicyRef {
	return policy.PolicyRef{Kind: policy.KubernetesNetworkPolicy, Namespace: s.Namespace, Name: s.Name, UID: string(s.UID)}
}

// Policy implements policy.PolicySource.
func (s *KubernetesSource) Policy(scratch *policy.Policy) *policy.Policy {
	kubernetesPolicy(scratch, (*networkingv1.NetworkPolicy)(s))
	return scratch
}

// kubernetesPolicy makes the policy in out, using the lists and selectors there again.
func kubernetesPolicy(out *policy.Policy, p *networkingv1.NetworkPolicy) {
	out.Kind, out.Namespace, out.Name, out.UID = policy.KubernetesNetworkPolicy, p.Namespace, p.Name, string(p.UID)
	out.Generation = p.Generation
	out.AppliedTo = resized(out.AppliedTo, 1)
	out.AppliedTo[0] = policy.AppliedTo{PodSelector: selectorAgain(out.AppliedTo[0].PodSelector, &p.Spec.PodSelector)}
	out.PolicyTypes, out.OtherTypes = out.PolicyTypes[:0], out.OtherTypes[:0]
	for _, t := range p.Spec.PolicyTypes {
		switch t {
		case networkingv1.PolicyTypeIngress:
			out.PolicyTypes = append(out.PolicyTypes, policy.Ingress)
		case networkingv1.PolicyTypeEgress:
			out.PolicyTypes = append(out.PolicyTypes, policy.Egress)
		default:
			// To leave it out would change what is isolated.
			out.OtherTypes = append(out.OtherTypes, string(t))
		}
	}
	out.Ingress = resized(out.Ingress, len(p.Spec.Ingress))
	for i := range p.Spec.Ingress {
		kubernetesRule(&out.Ingress[i], p.Spec.Ingress[i].From, p.Spec.Ingress[i].Ports)
	}
	out.Egress = resized(out.Egress, len(p.Spec.Egress))
	for i := range p.Spec.Egress {
		kubernetesRule(&out.Egress[i], p.Spec.Egress[i].To, p.Spec.Egress[i].Ports)
	}
}

// resized returns a list of n elements, in the place of the former list if it fits there, with what
// its elements were.
func resized[T any](list []T, n int) []T { return slices.Grow(list[:0], n)[:n] }

func kubernetesRule(out *policy.Rule, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) {
	out.Peers, out.Ports = resized(out.Peers, len(peers)), resized(out.Ports, len(ports))
	for i := range peers {
		p, q := &peers[i], &out.Peers[i]
		*q = policy.Peer{
			PodSelector: selectorAgain(q.PodSelector, p.PodSelector), NamespaceSelector: selectorAgain(q.NamespaceSelector, p.NamespaceSelector),
		}
		if p.IPBlock != nil {
			q.IPBlock = &policy.IPBlock{CIDR: p.IPBlock.CIDR, Except: p.IPBlock.Except}
		}
	}
	for i := range ports {
		p := &ports[i]
		out.Ports[i] = policy.Port{Protocol: policy.TCP, Port: portRef(p.Port), EndPort: p.EndPort}
		if p.Protocol != nil {
			out.Ports[i].Protocol = policy.Protocol(*p.Protocol)
		}
	}
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

func selector(s *metav1.LabelSelector) *policy.Selector { return selectorAgain(nil, s) }

// selectorAgain converts a selector in the place of a former one, if there is any.
func selectorAgain(out *policy.Selector, s *metav1.LabelSelector) *policy.Selector {
	if s == nil {
		return nil
	}
	if out == nil {
		out = &policy.Selector{}
	}
	out.MatchLabels, out.MatchExpressions = s.MatchLabels, out.MatchExpressions[:0]
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
