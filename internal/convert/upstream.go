package convert

import (
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/nephele-io/nephele/internal/policy"
)

// The kinds of policy.networking.k8s.io are read alike. Each peer, and each entry
// of ports or protocols, becomes one of the engine's. What is not understood, because the object
// was written for a later version of the API, makes its rule stricter, never wider, and appears
// in the policy's warnings:
//
//   - an Allow (Accept) rule goes on with the peers and protocols that are understood; if there are
//     none it matches nothing,
//   - a Deny rule applies to all peers, or all protocols,
//   - so does a Pass rule, and it becomes a Deny rule: what follows might allow what it was not to
//     be asked for,
//   - an unknown action is Deny, an unknown tier is Admin.

// baselinePriority is the priority of the one BaselineAdminNetworkPolicy, which has none of its
// own.
const baselinePriority = 1

// upstreamWords are the words of a kind.
type upstreamWords struct {
	allow   string
	actions []string
	ports   string
	peers   map[policy.Direction]string
}

var (
	adminPeers         = map[policy.Direction]string{policy.Ingress: "namespaces or pods", policy.Egress: "namespaces, pods, nodes, networks or domainNames"}
	clusterPolicyWords = upstreamWords{"Accept", []string{"Accept", "Deny", "Pass"}, "protocols", adminPeers}
	adminWords         = upstreamWords{"Allow", []string{"Allow", "Deny", "Pass"}, "ports", adminPeers}
	baselineWords      = upstreamWords{"Allow", []string{"Allow", "Deny"}, "ports",
		map[policy.Direction]string{policy.Ingress: "namespaces or pods", policy.Egress: "namespaces, pods, nodes or networks"}}
)

// Upstream converts a policy of any upstream kind; false for an object of another kind.
func Upstream(o runtime.Object) (policy.Policy, bool) {
	switch o := o.(type) {
	case *v1alpha1.AdminNetworkPolicy:
		return AdminNetworkPolicy(o), true
	case *v1alpha1.BaselineAdminNetworkPolicy:
		return BaselineAdminNetworkPolicy(o), true
	case *v1alpha2.ClusterNetworkPolicy:
		return UpstreamClusterNetworkPolicy(o), true
	}
	return policy.Policy{}, false
}

// UpstreamClusterNetworkPolicy converts a ClusterNetworkPolicy of policy.networking.k8s.io.
func UpstreamClusterNetworkPolicy(o *v1alpha2.ClusterNetworkPolicy) policy.Policy {
	tier := policy.AdminTierPriority
	if o.Spec.Tier == v1alpha2.BaselineTier {
		tier = policy.UpstreamBaselineTierPriority
	}
	u := newUpstream(policy.ClusterNetworkPolicy, o.ObjectMeta, clusterPolicyWords, tier, float64(o.Spec.Priority))
	if o.Spec.Tier != v1alpha2.AdminTier && o.Spec.Tier != v1alpha2.BaselineTier {
		u.warn("spec.tier", string(o.Spec.Tier), "Admin or Baseline; it is taken for Admin")
	}
	u.subject(o.Spec.Subject.Namespaces, (*upstreamPods)(o.Spec.Subject.Pods))
	for i, r := range o.Spec.Ingress {
		peers := make([]upstreamPeer, len(r.From))
		for j, p := range r.From {
			peers[j] = upstreamPeer{namespaces: p.Namespaces, pods: (*upstreamPods)(p.Pods)}
		}
		u.rule(policy.Ingress, upstreamRule{i, r.Name, string(r.Action), peers, clusterPolicyPorts(r.Protocols)})
	}
	for i, r := range o.Spec.Egress {
		peers := make([]upstreamPeer, len(r.To))
		for j, p := range r.To {
			peers[j] = upstreamPeer{p.Namespaces, (*upstreamPods)(p.Pods), p.Nodes, texts(p.Networks), texts(p.DomainNames)}
		}
		u.rule(policy.Egress, upstreamRule{i, r.Name, string(r.Action), peers, clusterPolicyPorts(r.Protocols)})
	}
	return u.out
}

// AdminNetworkPolicy converts an AdminNetworkPolicy of policy.networking.k8s.io.
func AdminNetworkPolicy(o *v1alpha1.AdminNetworkPolicy) policy.Policy {
	u := newUpstream(policy.AdminNetworkPolicy, o.ObjectMeta, adminWords, policy.AdminNetworkPolicyTierPriority, float64(o.Spec.Priority))
	u.subject(o.Spec.Subject.Namespaces, adminPods(o.Spec.Subject.Pods))
	for i, r := range o.Spec.Ingress {
		u.rule(policy.Ingress, upstreamRule{i, r.Name, string(r.Action), adminSources(r.From), adminPorts(r.Ports)})
	}
	for i, r := range o.Spec.Egress {
		peers := make([]upstreamPeer, len(r.To))
		for j, p := range r.To {
			peers[j] = upstreamPeer{p.Namespaces, adminPods(p.Pods), p.Nodes, texts(p.Networks), texts(p.DomainNames)}
		}
		u.rule(policy.Egress, upstreamRule{i, r.Name, string(r.Action), peers, adminPorts(r.Ports)})
	}
	return u.out
}

// BaselineAdminNetworkPolicy converts a BaselineAdminNetworkPolicy of policy.networking.k8s.io.
func BaselineAdminNetworkPolicy(o *v1alpha1.BaselineAdminNetworkPolicy) policy.Policy {
	u := newUpstream(policy.BaselineAdminNetworkPolicy, o.ObjectMeta, baselineWords, policy.UpstreamBaselineTierPriority, baselinePriority)
	u.subject(o.Spec.Subject.Namespaces, adminPods(o.Spec.Subject.Pods))
	for i, r := range o.Spec.Ingress {
		u.rule(policy.Ingress, upstreamRule{i, r.Name, string(r.Action), adminSources(r.From), adminPorts(r.Ports)})
	}
	for i, r := range o.Spec.Egress {
		peers := make([]upstreamPeer, len(r.To))
		for j, p := range r.To {
			peers[j] = upstreamPeer{p.Namespaces, adminPods(p.Pods), p.Nodes, texts(p.Networks), nil}
		}
		u.rule(policy.Egress, upstreamRule{i, r.Name, string(r.Action), peers, adminPorts(r.Ports)})
	}
	return u.out
}

// upstreamPods, upstreamPeer, upstreamPort and upstreamRule are the parts that the kinds share,
// each with its own Go type.
type upstreamPods v1alpha2.NamespacedPod

type upstreamPeer struct {
	namespaces *metav1.LabelSelector
	pods       *upstreamPods
	nodes      *metav1.LabelSelector
	networks   []string
	names      []string
}

// upstreamPort is understood unless it has neither protocol nor name.
type upstreamPort struct {
	protocol policy.Protocol
	name     string
	// some is false for all ports; to is nil for a single one.
	some bool
	from int32
	to   *int32
}

type upstreamRule struct {
	index        int
	name, action string
	peers        []upstreamPeer
	ports        []upstreamPort
}

func texts[T ~string](in []T) []string {
	var out []string
	for _, s := range in {
		out = append(out, string(s))
	}
	return out
}

func adminPods(p *v1alpha1.NamespacedPod) *upstreamPods {
	return (*upstreamPods)((*v1alpha2.NamespacedPod)(p))
}

func adminSources(in []v1alpha1.AdminNetworkPolicyIngressPeer) []upstreamPeer {
	out := make([]upstreamPeer, len(in))
	for i, p := range in {
		out[i] = upstreamPeer{namespaces: p.Namespaces, pods: adminPods(p.Pods)}
	}
	return out
}

func adminPorts(in *[]v1alpha1.AdminNetworkPolicyPort) []upstreamPort {
	if in == nil {
		return nil
	}
	out := make([]upstreamPort, len(*in))
	for i, p := range *in {
		switch {
		case p.PortNumber != nil:
			out[i] = upstreamPort{protocol: orTCP(string(p.PortNumber.Protocol)), some: true, from: p.PortNumber.Port}
		case p.PortRange != nil:
			out[i] = upstreamPort{protocol: orTCP(string(p.PortRange.Protocol)), some: true, from: p.PortRange.Start, to: &p.PortRange.End}
		case p.NamedPort != nil:
			out[i] = upstreamPort{name: *p.NamedPort}
		}
	}
	return out
}

func orTCP(protocol string) policy.Protocol {
	if protocol == "" {
		return policy.TCP
	}
	return policy.Protocol(protocol)
}

func clusterPolicyPorts(in []v1alpha2.ClusterNetworkPolicyProtocol) []upstreamPort {
	var out []upstreamPort
	for _, p := range in {
		var q upstreamPort
		var port *v1alpha2.Port
		switch {
		case p.TCP != nil:
			q.protocol, port = policy.TCP, p.TCP.DestinationPort
		case p.UDP != nil:
			q.protocol, port = policy.UDP, p.UDP.DestinationPort
		case p.SCTP != nil:
			q.protocol, port = policy.SCTP, p.SCTP.DestinationPort
		default:
			q.name = p.DestinationNamedPort
		}
		switch {
		case port == nil:
		case port.Range != nil:
			q.some, q.from, q.to = true, port.Range.Start, &port.Range.End
		case port.Number == 0:
			q = upstreamPort{} // a port that is given in a way we do not know
		default:
			q.some, q.from = true, port.Number
		}
		out = append(out, q)
	}
	return out
}

// upstream puts a policy of an upstream kind together.
type upstream struct {
	out   policy.Policy
	words upstreamWords
}

func newUpstream(kind policy.PolicyKind, m metav1.ObjectMeta, words upstreamWords, tier int32, priority float64) *upstream {
	return &upstream{words: words, out: policy.Policy{
		Kind: kind, Name: m.Name, UID: string(m.UID), Generation: m.Generation, TierPriority: &tier, Priority: priority,
	}}
}

func (u *upstream) warn(field, value, want string) {
	e := policy.FieldError{Field: field, Value: value, Want: want}
	if value == "" {
		e.Given = "nothing that is understood"
	}
	u.out.Warnings = append(u.out.Warnings, e)
}

// subject sets what the policy applies to; nothing if it is not understood, which admission
// refuses.
func (u *upstream) subject(namespaces *metav1.LabelSelector, pods *upstreamPods) {
	switch {
	case pods != nil:
		u.out.AppliedTo = []policy.AppliedTo{{NamespaceSelector: selector(&pods.NamespaceSelector), PodSelector: selector(&pods.PodSelector)}}
	case namespaces != nil:
		u.out.AppliedTo = []policy.AppliedTo{{NamespaceSelector: selector(namespaces)}}
	}
}

func (u *upstream) rule(d policy.Direction, in upstreamRule) {
	path, side := "spec.ingress["+strconv.Itoa(in.index)+"]", ".from"
	if d == policy.Egress {
		path, side = "spec.egress["+strconv.Itoa(in.index)+"]", ".to"
	}
	r := policy.Rule{Name: in.name, Action: u.action(in.action, path), NoPeers: true}
	closed := u.peers(&r, d, in.peers, path+side)
	closed = u.ports(&r, in.ports, path+"."+u.words.ports) || closed
	if closed && r.Action == policy.Pass {
		r.Action = policy.Drop
	}
	if d == policy.Ingress {
		u.out.Ingress = append(u.out.Ingress, r)
	} else {
		u.out.Egress = append(u.out.Egress, r)
	}
}

func (u *upstream) action(action, path string) policy.Action {
	for i, known := range u.words.actions {
		if action == known {
			return []policy.Action{policy.Allow, policy.Drop, policy.Pass}[i]
		}
	}
	u.warn(path+".action", action, "one of "+strings.Join(u.words.actions, ", ")+"; it is taken for Deny")
	return policy.Drop
}

// instead says what becomes of a rule of which a part is not understood.
func (u *upstream) instead(a policy.Action, what string) string {
	switch a {
	case policy.Allow:
		return "; the rule allows nothing for it"
	case policy.Pass:
		return "; the rule denies all " + what + " instead of passing them on"
	}
	return "; the rule denies all " + what
}

// peers sets the peers of a rule and reports whether one of them is not understood.
func (u *upstream) peers(r *policy.Rule, d policy.Direction, in []upstreamPeer, path string) (closed bool) {
	if len(in) == 0 {
		u.warn(path, "", "at least one peer; the rule matches nothing")
	}
	for i := range in {
		p := &in[i]
		switch {
		case p.pods != nil:
			r.Peers = append(r.Peers, policy.Peer{NamespaceSelector: selector(&p.pods.NamespaceSelector), PodSelector: selector(&p.pods.PodSelector)})
		case p.namespaces != nil:
			r.Peers = append(r.Peers, policy.Peer{NamespaceSelector: selector(p.namespaces)})
		case p.nodes != nil:
			r.Peers = append(r.Peers, policy.Peer{NodeSelector: selector(p.nodes)})
		case len(p.networks) > 0:
			r.Peers = append(r.Peers, policy.Peer{Networks: p.networks})
		case len(p.names) > 0:
			if r.Action != policy.Allow {
				u.warn(path+"["+strconv.Itoa(i)+"].domainNames", p.names[0],
					"domainNames in rules that "+strings.ToLower(u.words.allow)+" only; it holds for the addresses that the enforcer has seen the name resolve to")
			}
			r.Peers = append(r.Peers, policy.Peer{DomainNames: p.names})
		default:
			closed = true
			u.warn(path+"["+strconv.Itoa(i)+"]", "", u.words.peers[d]+u.instead(r.Action, "peers"))
		}
	}
	if closed && r.Action != policy.Allow {
		r.Peers, r.NoPeers = nil, false
	}
	return closed
}

// ports sets the ports of a rule and reports whether one of them is not understood.
func (u *upstream) ports(r *policy.Rule, in []upstreamPort, path string) (closed bool) {
	for i, p := range in {
		switch {
		case p.name != "":
			r.Ports = append(r.Ports, policy.Port{AnyProtocol: true, Port: &policy.PortRef{Name: p.name}})
		case p.protocol == "":
			closed = true
			u.warn(path+"["+strconv.Itoa(i)+"]", "", "a protocol, a port or the name of a port"+u.instead(r.Action, "protocols"))
		default:
			port := policy.Port{Protocol: p.protocol}
			if p.some {
				port.Port, port.EndPort = &policy.PortRef{Number: p.from}, p.to
			}
			r.Ports = append(r.Ports, port)
		}
	}
	switch {
	case !closed:
	case r.Action != policy.Allow:
		r.Ports = nil
	case len(r.Ports) == 0:
		r.Peers, r.NoPeers = nil, true
	}
	return closed
}
