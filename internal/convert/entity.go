package convert

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/internal/policy"
)

const (
	// annotationLogPolicies on a Namespace turns on logging for its Kubernetes NetworkPolicies.
	annotationLogPolicies = "networkpolicy.antrea.io/enable-logging"
	// annotationTransportAddresses on a Node lists further addresses, separated by commas.
	annotationTransportAddresses = "node.antrea.io/transport-addresses"
	// kindExternalNode is the kind of owner that makes an ExternalEntity belong to an agent.
	kindExternalNode = "ExternalNode"
)

// Namespace converts a Namespace. The label with its name is set, whatever it says, as the API
// server does.
func Namespace(n *corev1.Namespace) policy.Namespace {
	labels := n.Labels
	if labels[corev1.LabelMetadataName] != n.Name {
		labels = maps.Clone(labels)
		if labels == nil {
			labels = map[string]string{}
		}
		labels[corev1.LabelMetadataName] = n.Name
	}
	return policy.Namespace{
		Name: n.Name, Labels: labels, LogNetworkPolicies: strings.EqualFold(n.Annotations[annotationLogPolicies], "true"),
	}
}

// Node converts a Node. Its addresses are one that it reports per family, see nodeAddresses, the
// gateway of each of its Pod CIDRs (the first address), and its transport addresses.
func Node(n *corev1.Node) (policy.Entity, []policy.FieldError) {
	e := policy.Entity{EntityRef: policy.EntityRef{Kind: policy.KindNode, Name: n.Name}, Labels: n.Labels}
	addrs, errs := nodeAddresses(n)
	cidrs := n.Spec.PodCIDRs
	if len(cidrs) == 0 && n.Spec.PodCIDR != "" {
		cidrs = []string{n.Spec.PodCIDR}
	}
	for i, c := range cidrs {
		p, err := netip.ParsePrefix(c)
		if err != nil {
			errs = append(errs, policy.FieldError{Field: fmt.Sprintf("spec.podCIDRs[%d]", i), Value: c, Want: "a CIDR"})
			continue
		}
		addrs = append(addrs, p.Masked().Addr().Next())
	}
	if list := n.Annotations[annotationTransportAddresses]; list != "" {
		for _, a := range strings.Split(list, ",") {
			addrs, errs = appendAddress(addrs, errs, "metadata.annotations["+annotationTransportAddresses+"]", strings.TrimSpace(a))
		}
	}
	slices.SortFunc(addrs, func(a, b netip.Addr) int { return strings.Compare(a.String(), b.String()) })
	e.Addresses = slices.Compact(addrs)
	return e, errs
}

// nodeAddresses returns, per address family, the first InternalIP that a Node reports, or the first
// ExternalIP if it reports no InternalIP. A public address beside an internal one is not the Node's
// own: a rule that allows Nodes must not admit what comes from there.
func nodeAddresses(n *corev1.Node) (addrs []netip.Addr, errs []policy.FieldError) {
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for i, a := range n.Status.Addresses {
			if a.Type != kind {
				continue
			}
			var found []netip.Addr
			found, errs = appendAddress(nil, errs, fmt.Sprintf("status.addresses[%d].address", i), a.Address)
			for _, addr := range found {
				if !slices.ContainsFunc(addrs, func(known netip.Addr) bool { return known.Is4() == addr.Is4() }) {
					addrs = append(addrs, addr)
				}
			}
		}
	}
	return addrs, errs
}

// ExternalEntity converts an ExternalEntity. Its host is spec.externalNode, or "namespace/name" of
// the ExternalNode that owns it. A host of another Namespace is refused: an author of
// ExternalEntities in one Namespace could otherwise bring policies to the hosts of all others, or
// confuse their agents, which expect one entity.
func ExternalEntity(x *v1alpha2.ExternalEntity) (policy.Entity, []policy.FieldError) {
	e := policy.Entity{
		EntityRef: policy.EntityRef{Kind: policy.KindExternalEntity, Namespace: x.Namespace, Name: x.Name},
		Labels:    x.Labels,
		Host:      x.Spec.ExternalNode,
	}
	if e.Host != "" && len(x.OwnerReferences) > 0 && x.OwnerReferences[0].Kind == kindExternalNode {
		e.Host = x.Namespace + "/" + x.Spec.ExternalNode
	}
	var errs []policy.FieldError
	// Keys of accounts have three parts. They may be named from anywhere: an account takes only the
	// entities that it has made itself.
	if namespace, name, qualified := strings.Cut(e.Host, "/"); qualified && namespace != x.Namespace && !strings.Contains(name, "/") {
		errs = append(errs, policy.FieldError{Field: "spec.externalNode", Value: x.Spec.ExternalNode, Want: "a host of Namespace " + x.Namespace})
		e.Host = ""
	}
	for _, p := range x.Spec.Ports {
		e.Ports = append(e.Ports, namedPort(p.Name, string(p.Protocol), p.Port))
	}
	for i, endpoint := range x.Spec.Endpoints {
		e.Addresses, errs = appendAddress(e.Addresses, errs, fmt.Sprintf("spec.endpoints[%d].ip", i), endpoint.IP)
	}
	return e, errs
}

// EntityOfExternalNode returns the ExternalEntity of an ExternalNode: its first
// interface, owned by it. It returns nil for an ExternalNode without interface.
func EntityOfExternalNode(n *v1alpha1.ExternalNode) *v1alpha2.ExternalEntity {
	if len(n.Spec.Interfaces) == 0 {
		return nil
	}
	nic := n.Spec.Interfaces[0]
	yes := true
	x := &v1alpha2.ExternalEntity{
		ObjectMeta: metav1.ObjectMeta{
			Name: externalNodeEntityName(n.Name, nic.Name), Namespace: n.Namespace, Labels: maps.Clone(n.Labels),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion().String(), Kind: kindExternalNode, Name: n.Name, UID: n.UID, Controller: &yes,
			}},
		},
		Spec: v1alpha2.ExternalEntitySpec{ExternalNode: n.Name},
	}
	for _, ip := range nic.IPs {
		x.Spec.Endpoints = append(x.Spec.Endpoints, v1alpha2.Endpoint{IP: ip, Name: nic.Name})
	}
	return x
}

func externalNodeEntityName(node, nic string) string {
	if nic == "" {
		return node
	}
	sum := sha1.Sum([]byte(nic))
	return node + "-" + hex.EncodeToString(sum[:])[:5]
}

// Service converts a Service.
func Service(s *corev1.Service) policy.Service {
	return policy.Service{Namespace: s.Namespace, Name: s.Name, Selector: s.Spec.Selector}
}

func namedPort(name, protocol string, port int32) policy.NamedPort {
	if protocol == "" {
		protocol = string(policy.TCP)
	}
	return policy.NamedPort{Name: name, Protocol: policy.Protocol(protocol), Port: port}
}

// appendAddress parses one address. An IPv4 address in IPv6 form counts as IPv4; a zone is not an
// address of an entity.
func appendAddress(addrs []netip.Addr, errs []policy.FieldError, field, text string) ([]netip.Addr, []policy.FieldError) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return addrs, append(errs, policy.FieldError{Field: field, Value: text, Want: "an IPv4 or IPv6 address"})
	}
	return append(addrs, a.Unmap()), errs
}
