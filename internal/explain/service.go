package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
)

// frontend is a port of a Service, as a flow reaches it.
type frontend struct {
	service *corev1.Service
	port    *corev1.ServicePort
}

// backend is an endpoint that a Service may choose.
type backend struct {
	end
	address netip.Addr
	port    uint16
}

// findService finds the Service that the user names as the destination.
func (who finder) findService(flag, text, namespace, name string) (end, error) {
	if flag != "to" {
		return end{}, wrong(flag, " %q: a Service sends nothing; name a Pod behind it", text)
	}
	s := who.c.services().service(policy.NamespacedName{Namespace: namespace, Name: name})
	if s == nil || !who.c.view.Entity(policy.EntityRef{Kind: policy.KindService, Namespace: namespace, Name: name}) {
		return end{}, wrong(flag, " %q: there is no Service of this name", text)
	}
	out := end{ref: policy.EntityRef{Kind: policy.KindService, Namespace: namespace, Name: name}, service: s}
	out.at = out.ref
	for _, ip := range s.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(ip); err == nil {
			out.addresses = append(out.addresses, a)
		}
	}
	if a, err := netip.ParseAddr(s.Spec.ClusterIP); err == nil && len(out.addresses) == 0 {
		out.addresses = append(out.addresses, a)
	}
	for _, p := range s.Spec.Ports {
		out.ports = append(out.ports, policy.NamedPort{Name: p.Name, Protocol: portProtocol(&p), Port: p.Port})
	}
	return out, nil
}

// services knows the endpoints of a Service, and the addresses that lead to them.
type services struct{ c *Computation }

func (c *Computation) services() services { return services{c} }

// service returns the Service of a name; nil if there is none.
func (svc services) service(name policy.NamespacedName) *corev1.Service {
	i := slices.IndexFunc(svc.c.Objects.Services, func(s *corev1.Service) bool { return nameOf(s) == name })
	if i < 0 {
		return nil
	}
	return svc.c.Objects.Services[i]
}

func nameOf(s *corev1.Service) policy.NamespacedName {
	return policy.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

func serviceText(n policy.NamespacedName) string {
	return refText(policy.EntityRef{Kind: policy.KindService, Namespace: n.Namespace, Name: n.Name})
}

func portProtocol(p *corev1.ServicePort) policy.Protocol {
	return policy.Protocol(cmp.Or(p.Protocol, corev1.ProtocolTCP))
}

// balanced reports whether the Service has an address of its own, at which load balancing takes its
// packets.
func balanced(s *corev1.Service) bool {
	return s.Spec.ClusterIP != corev1.ClusterIPNone && s.Spec.Type != corev1.ServiceTypeExternalName
}

// addressesOf returns the addresses that the Service is reached at, as far as they are known.
func addressesOf(s *corev1.Service) []netip.Addr {
	texts := append([]string{s.Spec.ClusterIP}, s.Spec.ClusterIPs...)
	texts = append(texts, s.Spec.ExternalIPs...)
	for _, in := range s.Status.LoadBalancer.Ingress {
		texts = append(texts, in.IP)
	}
	var out []netip.Addr
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, a.Unmap())
		}
	}
	return out
}

// throughService finds the Service that a flow is sent to. The note tells of one that has the
// address, but not the port.
func (svc services) throughService(to end, f evaluate.Flow) (through *frontend, note string, err error) {
	if to.service != nil {
		if i := slices.IndexFunc(to.service.Spec.Ports, func(p corev1.ServicePort) bool { return serves(&p, f) }); i >= 0 && balanced(to.service) {
			return &frontend{to.service, &to.service.Spec.Ports[i]}, "", nil
		}
		if !balanced(to.service) {
			return nil, "", wrong("to", ": %s has no address of its own; name one of its endpoints", to)
		}
		return nil, "", wrong("to", ": %s has no %s; it has %s", to, flowText(f), portsText(to.service))
	}
	for _, s := range svc.c.Objects.Services {
		if !svc.c.view.Entity(policy.EntityRef{Kind: policy.KindService, Namespace: s.Namespace, Name: s.Name}) {
			continue
		}
		hasAddress := to.byAddress && slices.Contains(addressesOf(s), to.addresses[0])
		for i := range s.Spec.Ports {
			p := &s.Spec.Ports[i]
			switch {
			case hasAddress && serves(p, f):
				return &frontend{s, p}, "", nil
			case to.ref.Kind == policy.KindNode && p.NodePort != 0 && p.NodePort == int32(f.Port) && portProtocol(p) == f.Protocol:
				return &frontend{s, p}, "", nil
			}
		}
		if hasAddress {
			note = fmt.Sprintf("%s has this address, but no %s: it is decided as an address like others", serviceText(nameOf(s)), flowText(f))
		}
	}
	return nil, note, nil
}

func serves(p *corev1.ServicePort, f evaluate.Flow) bool {
	return portProtocol(p) == f.Protocol && p.Port == int32(f.Port)
}

func flowText(f evaluate.Flow) string {
	if f.Protocol == policy.ICMP || f.Protocol == policy.IGMP {
		return string(f.Protocol)
	}
	return fmt.Sprintf("%s port %d", f.Protocol, f.Port)
}

func portsText(s *corev1.Service) string {
	texts := make([]string, len(s.Spec.Ports))
	for i := range s.Spec.Ports {
		texts[i] = fmt.Sprintf("%s port %d", portProtocol(&s.Spec.Ports[i]), s.Spec.Ports[i].Port)
	}
	return strings.Join(texts, ", ")
}

// behind returns the endpoints of a Service, of the same family as an address; of any family if
// that is not valid.
func (svc services) behind(via *frontend, family netip.Addr) []backend {
	suits := func(a netip.Addr) bool { return !family.IsValid() || a.Is4() == family.Is4() }
	var out []backend
	if told := svc.slicesOf(via.service); len(told) > 0 {
		for _, s := range told {
			out = append(out, svc.inSlice(s, via, suits)...)
		}
	} else {
		for _, p := range svc.podsOf(via.service) {
			e := svc.c.Ends[p.ref]
			port, i := targetPort(via.port, e.Ports), slices.IndexFunc(e.Addresses, suits)
			if port != 0 && i >= 0 && !e.Terminated && (p.ready || via.service.Spec.PublishNotReadyAddresses) {
				out = append(out, backend{svc.c.endOf(e), e.Addresses[i], port})
			}
		}
	}
	slices.SortFunc(out, func(a, b backend) int {
		return cmp.Or(strings.Compare(a.String(), b.String()), a.address.Compare(b.address), cmp.Compare(a.port, b.port))
	})
	return out
}

// slicesOf returns the EndpointSlices of a Service.
func (svc services) slicesOf(s *corev1.Service) []*discoveryv1.EndpointSlice {
	var out []*discoveryv1.EndpointSlice
	for _, slice := range svc.c.Objects.Slices {
		if slice.Namespace == s.Namespace && slice.Labels[discoveryv1.LabelServiceName] == s.Name {
			out = append(out, slice)
		}
	}
	return out
}

// inSlice returns the endpoints in an EndpointSlice for a port of a Service, except those that are
// not ready.
func (svc services) inSlice(s *discoveryv1.EndpointSlice, via *frontend, suits func(netip.Addr) bool) []backend {
	var out []backend
	for _, p := range s.Ports {
		protocol := policy.Protocol(cmp.Or(value(p.Protocol), corev1.ProtocolTCP))
		if value(p.Name) != via.port.Name || protocol != portProtocol(via.port) || p.Port == nil {
			continue
		}
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, text := range e.Addresses {
				if a, err := netip.ParseAddr(text); err == nil && suits(a) {
					out = append(out, backend{svc.ownerOf(e.TargetRef, a), a, uint16(*p.Port)})
				}
			}
		}
	}
	return out
}

func value[T any](p *T) T {
	if p == nil {
		var none T
		return none
	}
	return *p
}

// ownerOf returns the end that has the address according to an EndpointSlice, else the holder of
// the address, else the address alone.
func (svc services) ownerOf(ref *corev1.ObjectReference, a netip.Addr) end {
	if ref != nil && ref.Kind == "Pod" {
		if e, ok := svc.c.Ends[policy.EntityRef{Kind: policy.KindPod, Namespace: ref.Namespace, Name: ref.Name}]; ok {
			return svc.c.endOf(e)
		}
	}
	if e, err := svc.c.finder().findAddress("to", a); err == nil {
		return e
	}
	return end{addresses: []netip.Addr{a}}
}

// selectedPod is a Pod that a Service selects.
type selectedPod struct {
	ref   policy.EntityRef
	ready bool
}

// podsOf returns the Pods that a Service selects.
func (svc services) podsOf(s *corev1.Service) []selectedPod {
	if len(s.Spec.Selector) == 0 {
		return nil
	}
	var out []selectedPod
	selector := labels.SelectorFromSet(s.Spec.Selector)
	for _, p := range svc.c.Objects.Pods {
		if p.Namespace == s.Namespace && selector.Matches(labels.Set(p.Labels)) {
			out = append(out, selectedPod{podRef(p), ready(p)})
		}
	}
	for _, p := range svc.c.Objects.TrimmedPods {
		if p.Namespace == s.Namespace && selector.Matches(labels.Set(p.Labels)) {
			out = append(out, selectedPod{p.Ref(), true})
		}
	}
	return out
}

// ready reports whether a Pod is not known not to be ready: manifests say nothing about it.
func ready(p *corev1.Pod) bool {
	return !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse
	})
}

// targetPort returns the port of a Pod with these named ports; 0 if it has none of the name.
func targetPort(p *corev1.ServicePort, named []policy.NamedPort) uint16 {
	switch {
	case p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal != 0:
		return uint16(p.TargetPort.IntVal)
	case p.TargetPort.Type == intstr.Int:
		return uint16(p.Port)
	}
	for _, n := range named {
		if n.Name == p.TargetPort.StrVal && n.Protocol == portProtocol(p) {
			return uint16(n.Port)
		}
	}
	return 0
}

// mayLead reports whether a packet to the end may have been sent to the Service, if the user does
// not say by which address it goes. It is what the evaluator is given to judge toServices.
func (svc services) mayLead(name policy.NamespacedName, f *evaluate.Flow) bool {
	s := svc.service(name)
	switch {
	case s == nil:
		return svc.c.Objects.Partial // a cluster has no others than those that were read
	case !balanced(s):
		return false
	}
	to := f.Destination.EntityRef
	if to == (policy.EntityRef{}) { // an address: not one that the Service is known to have
		return len(addressesOf(s)) == 0 && slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return serves(&p, *f) })
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if portProtocol(p) != f.Protocol {
			continue
		}
		if svc.hidden(s) && (p.Port == int32(f.Port) || targetPort(p, svc.c.Ends[to].Ports) == f.Port) {
			return true
		}
		for _, b := range svc.behind(&frontend{s, p}, netip.Addr{}) {
			if b.at == to && (p.Port == int32(f.Port) || b.port == f.Port) {
				return true
			}
		}
	}
	return false
}

// hidden reports whether the endpoints of the Service are unknown.
func (svc services) hidden(s *corev1.Service) bool {
	return len(s.Spec.Selector) == 0 && len(svc.slicesOf(s)) == 0
}

func podRef(p *corev1.Pod) policy.EntityRef {
	return policy.EntityRef{Kind: policy.KindPod, Namespace: p.Namespace, Name: p.Name}
}

// appliedToService returns the policies that have rules for a Service.
func (svc services) appliedToService(name policy.NamespacedName) []analysis.Policy {
	ref := policy.EntityRef{Kind: policy.KindService, Namespace: name.Namespace, Name: name.Name}
	groups := map[string]bool{}
	for _, g := range svc.c.Listing.AppliedToGroups {
		if slices.ContainsFunc(g.Members, func(m *policy.Member) bool { return m.EntityRef == ref }) {
			groups[g.Name] = true
		}
	}
	var out []analysis.Policy
	applied := func(list []string) bool { return slices.ContainsFunc(list, func(g string) bool { return groups[g] }) }
	for _, p := range svc.c.Listing.Policies {
		if applied(p.AppliedToGroups) || slices.ContainsFunc(p.Rules, func(r policy.ComputedRule) bool { return applied(r.AppliedToGroups) }) {
			out = append(out, svc.c.Policy(explainPolicy(p.Source)))
		}
	}
	return out
}
