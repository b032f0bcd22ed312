package convert

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
}

// TrimPod returns what matters of a Pod. It shares the texts and the labels of the Pod.
func TrimPod(p *corev1.Pod) *TrimmedPod {
	out := &TrimmedPod{
		Namespace: p.Namespace, Name: p.Name, ResourceVersion: p.ResourceVersion, Labels: p.Labels,
		Node: p.Spec.NodeName, ServiceAccount: p.Spec.ServiceAccountName, IP: p.Status.PodIP,
		HostNetwork: p.Spec.HostNetwork,
		Ended:       p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
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
	}
	for i := range p.Spec.InitContainers { // sidecars run beside the others; the rest has ended before
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	if len(more.ips)+len(more.ports) > 0 {
		out.more = &more
	}
	return out
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
