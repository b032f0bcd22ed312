package traceflow

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

const icmp, tcp, udp, icmp6 = 1, 6, 17, 58

// end is one end of what is traced.
type end struct {
	node      string
	addresses []netip.Addr
}

// family is its address of a family; not valid if it has none.
func (e *end) family(six bool) netip.Addr {
	for _, a := range e.addresses {
		if a.Is6() == six {
			return a
		}
	}
	return netip.Addr{}
}

// refusal is why a Traceflow cannot run, for its author.
type refusal string

func (r refusal) Error() string { return string(r) }

// resolve finds out what a Traceflow is about. An error that is a refusal ends it, others are
// tried again.
func resolve(ctx context.Context, r client.Reader, t *v1beta1.Traceflow) (*v1beta1.TraceflowTraced, error) {
	s := &t.Spec
	var source, destination end
	var err error
	if s.Source.Pod != "" {
		if source, err = podOf(ctx, r, "source", s.Source.Namespace, s.Source.Pod); err != nil {
			return nil, err
		}
	} else if s.Source.IP != "" {
		if source, err = address("source", s.Source.IP); err != nil {
			return nil, err
		}
	}
	protocol, from, to := transport(&s.Packet)
	switch {
	case s.Destination.Pod != "":
		destination, err = podOf(ctx, r, "destination", s.Destination.Namespace, s.Destination.Pod)
	case s.Destination.Service != "":
		destination, err = serviceOf(ctx, r, s, &protocol, &to)
	case s.Destination.IP != "":
		destination, err = address("destination", s.Destination.IP)
	}
	if err != nil {
		return nil, err
	}
	if source.node == "" && destination.node == "" {
		return nil, refusal("want a Pod as source or destination")
	}
	six, err := family(s, &source, &destination)
	if err != nil {
		return nil, err
	}
	switch {
	case protocol == 0 && !s.LiveTraffic || protocol == icmp || protocol == icmp6:
		if protocol, to = icmp, 0; six {
			protocol = icmp6
		}
	case (protocol == tcp || protocol == udp) && to == 0 && !s.LiveTraffic:
		return nil, refusal("packet.transportHeader: want the port, dstPort of tcp or udp")
	}
	out := &v1beta1.TraceflowTraced{Node: source.node, Receiver: destination.node, Protocol: protocol, SourcePort: from, DestinationPort: to}
	if out.Node == "" {
		out.Node = destination.node
	}
	if a := source.family(six); a.IsValid() {
		out.SourceIP = a.String()
	}
	if a := destination.family(six); a.IsValid() {
		out.DestinationIP = a.String()
	}
	return out, nil
}

// address is an end outside of Pods. Where Antrea's own kind is installed, nothing but this has
// looked at it.
func address(which, ip string) (end, error) {
	a, err := netip.ParseAddr(ip)
	if err != nil || a.Zone() != "" {
		return end{}, refusal(fmt.Sprintf("%s.ip: %q is no IPv4 or IPv6 address", which, ip))
	}
	return end{addresses: []netip.Addr{a.Unmap()}}, nil
}

// transport is what the packet of a Traceflow says; a header counts before the number of its
// protocol.
func transport(p *v1beta1.TraceflowPacket) (protocol, from, to int32) {
	switch h := &p.TransportHeader; {
	case h.TCP != nil:
		return tcp, h.TCP.SrcPort, h.TCP.DstPort
	case h.UDP != nil:
		return udp, h.UDP.SrcPort, h.UDP.DstPort
	case h.ICMP != nil:
		return icmp, 0, 0
	case p.IPv6Header != nil && p.IPv6Header.NextHeader != nil:
		return *p.IPv6Header.NextHeader, 0, 0
	case p.IPHeader != nil:
		return p.IPHeader.Protocol, 0, 0
	}
	return 0, 0, 0
}

// family reports whether IPv6 is meant: as the packet says, or an end that has only one family,
// else IPv4.
func family(s *v1beta1.TraceflowSpec, source, destination *end) (six bool, err error) {
	fits := func(six bool) bool {
		has := func(e *end) bool { return len(e.addresses) == 0 || e.family(six).IsValid() }
		return has(source) && has(destination)
	}
	switch {
	case s.Packet.IPv6Header != nil:
		six = true
	case s.Packet.IPHeader != nil:
	default:
		six = !fits(false)
	}
	if !fits(six) {
		return six, refusal("source and destination have no address of the same family, or not of that of the packet")
	}
	return six, nil
}

// podOf finds a Pod.
func podOf(ctx context.Context, r client.Reader, which, namespace, name string) (end, error) {
	var list corev1.PodList
	if err := r.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name}); err != nil {
		return end{}, fmt.Errorf("read Pod %s/%s: %w", namespace, name, err)
	}
	if len(list.Items) != 1 {
		return end{}, refusal(fmt.Sprintf("%s: there is no Pod %s/%s", which, namespace, name))
	}
	p := &list.Items[0]
	if p.Spec.HostNetwork {
		return end{}, refusal(fmt.Sprintf("%s: Pod %s/%s has the network of its Node", which, namespace, name))
	}
	out := end{node: p.Spec.NodeName}
	for _, ip := range p.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			out.addresses = append(out.addresses, a.Unmap())
		}
	}
	if out.node == "" || len(out.addresses) == 0 {
		return end{}, refusal(fmt.Sprintf("%s: Pod %s/%s has no address yet", which, namespace, name))
	}
	return out, nil
}

// serviceOf finds a Service, and which of its ports is meant: of a protocol and a port that are not
// given, its first one.
func serviceOf(ctx context.Context, r client.Reader, s *v1beta1.TraceflowSpec, protocol, to *int32) (end, error) {
	namespace, name := s.Destination.Namespace, s.Destination.Service
	var list corev1.ServiceList
	if err := r.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name}); err != nil {
		return end{}, fmt.Errorf("read Service %s/%s: %w", namespace, name, err)
	}
	var out end
	if len(list.Items) == 1 {
		for _, text := range list.Items[0].Spec.ClusterIPs {
			if a, err := netip.ParseAddr(text); err == nil {
				out.addresses = append(out.addresses, a.Unmap())
			}
		}
	}
	if len(out.addresses) == 0 {
		return out, refusal(fmt.Sprintf("destination: there is no Service %s/%s with a ClusterIP", namespace, name))
	}
	for _, p := range list.Items[0].Spec.Ports {
		number := map[corev1.Protocol]int32{corev1.ProtocolTCP: tcp, corev1.ProtocolUDP: udp}[p.Protocol]
		if number != 0 && *to == 0 && (*protocol == 0 || *protocol == number) {
			*protocol, *to = number, p.Port
		}
	}
	return out, nil
}
