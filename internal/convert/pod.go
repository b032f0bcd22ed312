package convert

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
)

// TrimmedPod is what matters of a Pod, in a tenth of the memory: clusters have a hundred thousand
// of them. Informers hold it in place of the Pod; only they read its
// ObjectMeta. It is not modified once made.
type TrimmedPod struct {
	Namespace, Name string
	// ResourceVersion tells informers whether an object has changed.
	ResourceVersion string
	Labels          map[string]string
	// Node, ServiceAccount and IP are spec.nodeName, spec.serviceAccountName and the first address.
	Node, ServiceAccount, IP string
	// UID is that by which the runtime of the Node knows the Pod.
	UID string
	// Created is when the Pod was made, in seconds of Unix.
	Created int64
	// HostNetwork and Ended tell that the Pod is in no group: it shares its Node's addresses, or
	// has succeeded or failed.
	HostNetwork, Ended bool
	// more is nil for most Pods.
	more *morePod
}

// morePod is what few Pods have.
type morePod struct {
	// ips are the addresses but the first.
	ips   []string
	ports []policy.NamedPort
	// hostPorts are ports of the Node that lead to the Pod.
	hostPorts []analysis.HostPort
	// ingress and egress are what its annotations say of its bandwidth.
	ingress, egress string
}

// maxRateText is how long what says a bandwidth may be. Of a longer text so much is kept, with a
// mark that makes it none.
const maxRateText = 64

// TrimPod returns what matters of a Pod. It shares the texts and the labels of the Pod.
func TrimPod(p *corev1.Pod) *TrimmedPod {
	out := &TrimmedPod{
		Namespace: p.Namespace, Name: p.Name, ResourceVersion: p.ResourceVersion, Labels: p.Labels,
		Node: p.Spec.NodeName, ServiceAccount: p.Spec.ServiceAccountName, IP: p.Status.PodIP,
		UID: string(TrueUID(p)), Created: p.CreationTimestamp.Unix(), HostNetwork: p.Spec.HostNetwork,
		Ended: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
	}
	var more morePod
	for i, ip := range p.Status.PodIPs {
		if i == 0 {
			out.IP = ip.IP
		} else {
			more.ips = append(more.ips, ip.IP)
		}
	}
	add := func(c *corev1.Container) {
		for _, port := range c.Ports {
			if port.Name != "" {
				more.ports = append(more.ports, namedPort(port.Name, string(port.Protocol), port.ContainerPort))
			}
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
		more.hostPorts = appendHostPorts(more.hostPorts, p.Spec.Containers[i].Ports)
	}
	for i := range p.Spec.InitContainers { // sidecars run beside the others; the rest has ended before
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	more.ingress, more.egress = rateText(p.Annotations[analysis.AnnotationIngressBandwidth]), rateText(p.Annotations[analysis.AnnotationEgressBandwidth])
	if len(more.ips)+len(more.ports)+len(more.hostPorts)+len(more.ingress)+len(more.egress) > 0 {
		out.more = &more
	}
	return out
}

// TrueUID is the UID by which the runtime of the Node knows a Pod: that of a static Pod is not that
// of the object that shows it in the API.
func TrueUID(p *corev1.Pod) types.UID {
	if static := p.Annotations[corev1.MirrorPodAnnotationKey]; static != "" {
		return types.UID(static)
	}
	return p.UID
}

func appendHostPorts(to []analysis.HostPort, ports []corev1.ContainerPort) []analysis.HostPort {
	for _, p := range ports {
		if p.HostPort >= 1 && p.HostPort <= 65535 && p.ContainerPort >= 1 && p.ContainerPort <= 65535 {
			to = append(to, analysis.HostPort{Protocol: string(p.Protocol), Address: p.HostIP, Port: p.HostPort, ContainerPort: p.ContainerPort})
		}
	}
	return to
}

func rateText(s string) string {
	if len(s) > maxRateText {
		return strings.ToValidUTF8(s[:maxRateText], "") + "..."
	}
	return s
}

// OnNode returns the Pod as the agent of its Node has it; nil if there is nothing to do for it
// there, because it is on no Node, shares the addresses of its Node, or has ended.
func (p *TrimmedPod) OnNode() *analysis.LocalPod {
	if p.Node == "" || p.HostNetwork || p.Ended {
		return nil
	}
	out := &analysis.LocalPod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID), CreationTimestamp: metav1.Unix(p.Created, 0)},
		PodVersion: p.ResourceVersion,
	}
	if p.IP != "" {
		out.Addresses = append(out.Addresses, p.IP)
	}
	if p.more != nil {
		out.Addresses = append(out.Addresses, p.more.ips...)
		out.HostPorts, out.IngressBandwidth, out.EgressBandwidth = p.more.hostPorts, p.more.ingress, p.more.egress
	}
	return out
}

// SameOnNode reports whether OnNode says the same of two Pods, but for their versions.
func (p *TrimmedPod) SameOnNode(q *TrimmedPod) bool {
	if p.Node != q.Node || p.UID != q.UID || p.Created != q.Created || p.IP != q.IP || p.HostNetwork != q.HostNetwork || p.Ended != q.Ended {
		return false
	}
	var none morePod
	a, b := cmp.Or(p.more, &none), cmp.Or(q.more, &none)
	return slices.Equal(a.ips, b.ips) && slices.Equal(a.hostPorts, b.hostPorts) && a.ingress == b.ingress && a.egress == b.egress
}

// GetObjectMeta implements metav1.ObjectMetaAccessor: name, version and labels are all there is.
func (p *TrimmedPod) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, ResourceVersion: p.ResourceVersion, Labels: p.Labels}
}

// Ref returns the entity that the Pod is.
func (p *TrimmedPod) Ref() policy.EntityRef {
	return policy.EntityRef{Kind: policy.KindPod, Namespace: p.Namespace, Name: p.Name}
}

// Entity converts the Pod.
func (p *TrimmedPod) Entity() (policy.Entity, []policy.FieldError) { return p.EntityWith(nil) }

// EntityWith is Entity that appends the addresses to an empty list.
func (p *TrimmedPod) EntityWith(addresses []netip.Addr) (policy.Entity, []policy.FieldError) {
	addrs, errs := p.appendAddresses(addresses)
	e := policy.Entity{
		EntityRef: p.Ref(), Labels: p.Labels, Host: p.Node, ServiceAccount: p.ServiceAccount, HostNetwork: p.HostNetwork, Terminated: p.Ended,
	}
	if e.ServiceAccount == "" {
		e.ServiceAccount = "default"
	}
	if p.more != nil {
		e.Ports = p.more.ports
	}
	e.Addresses = addrs
	return e, errs
}

// Addresses appends the addresses of the Pod to a list, without what is none.
func (p *TrimmedPod) Addresses(to []netip.Addr) []netip.Addr {
	to, _ = p.appendAddresses(to)
	return to
}

func (p *TrimmedPod) appendAddresses(to []netip.Addr) ([]netip.Addr, []policy.FieldError) {
	var errs []policy.FieldError
	if p.IP != "" {
		to, errs = appendAddress(to, errs, "status.podIPs[0].ip", p.IP)
	}
	if p.more != nil {
		for i, ip := range p.more.ips {
			to, errs = appendAddress(to, errs, fmt.Sprintf("status.podIPs[%d].ip", i+1), ip)
		}
	}
	return to, errs
}

// Pod converts a Pod.
func Pod(p *corev1.Pod) (policy.Entity, []policy.FieldError) { return TrimPod(p).Entity() }
