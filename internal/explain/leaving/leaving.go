// Package leaving says by which Egress a packet of a Pod leaves the cluster, and with which
// address, as far as objects tell.
//
// It owns which Egress counts and what its status means; which Pods an Egress selects, and for
// which families it counts, is told by its own type, for the controller and agents as well. It
// promises to say that a packet leaves only if a condition of the Egress says that a Node has the
// address.
//
// Everything is pure, and may be called by many goroutines at once as long as the objects do not
// change.
package leaving

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/policy"
)

// What becomes of a packet that an Egress applies to.
const (
	// Leaves: a Node has the address.
	Leaves = "Leaves"
	// Dropped: the Egress has no address of the packet's family, or no Node has it.
	Dropped = "Dropped"
	// Unknown: nobody has told whether a Node has it.
	Unknown = "Unknown"
)

// untold is why it is not known whether a packet leaves.
const untold = "the controller has not told which Node has the address"

// Of says how a packet from an address of a Pod to another address leaves the cluster; nil if it
// stays inside, or no Egress applies.
func Of(in *input.Objects, pod policy.Entity, from, to netip.Addr) *analysis.Leaving {
	if len(in.Leaving.Egresses) == 0 || pod.HostNetwork || pod.Terminated || pod.Host == "" || !from.IsValid() || !to.IsValid() || inside(in, to) {
		return nil
	}
	if n := networkOf(in, pod.Host); n != nil && (!n.made() || slices.ContainsFunc(n.Except, func(p netip.Prefix) bool { return p.Contains(to) })) {
		return nil
	}
	both := slices.ContainsFunc(pod.Addresses, func(a netip.Addr) bool { return a.Is6() != from.Is6() })
	var namespace map[string]string
	if i := slices.IndexFunc(in.Namespaces, func(n *corev1.Namespace) bool { return n.Name == pod.Namespace }); i >= 0 {
		namespace = in.Namespaces[i].Labels
	}
	oldest := slices.SortedFunc(slices.Values(in.Leaving.Egresses), func(a, b *v1beta1.Egress) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, e := range oldest {
		s, ok := e.Spec.AppliedTo.Selector()
		if !ok || !s.Selects(pod.Labels, namespace) {
			continue
		}
		if out := by(in, e, from.Is6(), both); out != nil {
			return out
		}
	}
	return nil
}

// by is how packets of a family leave by an Egress; nil if it has nothing to do with the family.
// Both tells that the Pod has addresses of both.
func by(in *input.Objects, e *v1beta1.Egress, six, both bool) *analysis.Leaving {
	out := &analysis.Leaving{Egress: e.Name}
	from, drops := e.Spec.Families(func(name string) *v1beta1.ExternalIPPool {
		if i := slices.IndexFunc(in.Leaving.Pools, func(p *v1beta1.ExternalIPPool) bool { return p.Name == name }); i >= 0 {
			return in.Leaving.Pools[i]
		}
		return nil
	})
	addresses := e.Spec.Addresses()
	at := slices.IndexFunc(addresses, func(x v1beta1.EgressAddress) bool { return x.Address.IsValid() && x.Address == from[six] })
	status, why := told(&e.Status, v1beta1.IPAllocated)
	if at < 0 {
		switch {
		case len(addresses) > 0 && !drops[six]:
			return nil
		case len(addresses) == 1 && both && len(in.Leaving.Pools) == 0: // which family it is the pool tells, which is not told here
			out.State = Unknown
		default:
			out.State = Dropped
		}
		out.Why = cmp.Or(why, "the Egress has no address yet")
		return out
	}
	address := addresses[at].Address
	out.Address = address.String()
	assigned, reason := told(&e.Status, v1beta1.IPAssigned)
	first := e.Status.EgressNode != "" && e.Status.EgressIP == out.Address
	switch {
	case status == metav1.ConditionFalse:
		out.State, out.Why = Dropped, why
	case first:
		out.State, out.Node = Leaves, e.Status.EgressNode
	case assigned == metav1.ConditionTrue:
		out.State = Leaves
	case assigned == metav1.ConditionFalse && (at == 0 || e.Status.EgressNode != ""):
		out.State, out.Why = Dropped, reason
	default:
		out.State, out.Why = Unknown, cmp.Or(reason, untold)
	}
	return out
}

// told is what a condition says, and why.
func told(s *v1beta1.EgressStatus, t v1beta1.EgressConditionType) (metav1.ConditionStatus, string) {
	for _, c := range s.Conditions {
		if c.Type == t && c.Status != metav1.ConditionTrue {
			return c.Status, c.Message
		} else if c.Type == t {
			return c.Status, ""
		}
	}
	return metav1.ConditionUnknown, ""
}

// inside reports whether packets to an address stay in the cluster: to Pods and Nodes, and on a
// link.
func inside(in *input.Objects, to netip.Addr) bool {
	if to.IsLinkLocalUnicast() || to.IsMulticast() || to.IsLoopback() || to == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return true
	}
	for _, n := range in.Nodes {
		for _, a := range n.Status.Addresses {
			if one, err := netip.ParseAddr(a.Address); err == nil && one.Unmap() == to {
				return true
			}
		}
		for _, text := range n.Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil && p.Contains(to) {
				return true
			}
		}
	}
	return false
}

// nodeNetwork is what the agent of a Node has told about its network, as far as it counts here.
type nodeNetwork struct {
	Mode string `json:"mode"`
	// Except are others than Pods and Nodes to which Pods keep their addresses.
	Except []netip.Prefix `json:"snatExcept"`
}

// made reports whether the agent makes the network of the Node: else no Egress counts.
func (n *nodeNetwork) made() bool { return n.Mode != "" && n.Mode != "networkPolicyOnly" }

// networkOf is what the agent of a Node has told; nil if it has told nothing yet.
func networkOf(in *input.Objects, node string) *nodeNetwork {
	for _, i := range in.AgentInfos {
		if i.NodeRef.Kind != policy.KindNode.String() || i.NodeRef.Name != node || i.Version == "" {
			continue
		}
		out := &nodeNetwork{}
		if json.Unmarshal([]byte(i.Annotations[cloudv1alpha1.AnnotationNetwork]), out) != nil {
			out = &nodeNetwork{} // no agent writes such
		}
		return out
	}
	return nil
}
