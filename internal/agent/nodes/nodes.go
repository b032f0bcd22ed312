// Package nodes reads the Nodes of a cluster as agents need them.
//
// It owns what of a Node an agent holds in memory, and promises that a text that is no address or
// range is left out. Its functions keep nothing and may be called from any goroutine.
package nodes

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent/network"
)

// Trim leaves of a Node what agents need. It is a cache.TransformFunc.
func Trim(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	out := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, CreationTimestamp: n.CreationTimestamp, Labels: n.Labels},
		Spec:       corev1.NodeSpec{PodCIDR: n.Spec.PodCIDR, PodCIDRs: n.Spec.PodCIDRs},
		Status:     corev1.NodeStatus{Addresses: n.Status.Addresses},
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	for _, name := range []string{cloudv1alpha1.AnnotationWireGuardKey, cloudv1alpha1.AnnotationIPsecIdentity} {
		if value := n.Annotations[name]; value != "" {
			if out.Annotations == nil {
				out.Annotations = map[string]string{}
			}
			out.Annotations[name] = value
		}
	}
	return out, nil
}

// Ready reports whether the kubelet of a Node says that it is.
func Ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// Of are the Nodes of a store, sorted by their names.
func Of(list []any) []network.Node {
	var out []network.Node
	for _, o := range list {
		n, ok := o.(*corev1.Node)
		if !ok {
			continue
		}
		x := network.Node{
			Name: n.Name, Since: n.CreationTimestamp.Time, PublicKey: n.Annotations[cloudv1alpha1.AnnotationWireGuardKey],
			Identity: cloudv1alpha1.IPsecIdentity(n.Name, n.UID), PublishedIdentity: n.Annotations[cloudv1alpha1.AnnotationIPsecIdentity],
		}
		for _, text := range n.Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				x.PodCIDRs = append(x.PodCIDRs, p.Masked())
			}
		}
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
				x.Addresses = append(x.Addresses, ip.Unmap().WithZone(""))
			}
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b network.Node) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
