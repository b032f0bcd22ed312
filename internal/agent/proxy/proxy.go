package proxy

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

const (
	// labelProxy is on Services that another proxy leads, whatever its value.
	labelProxy = "service.kubernetes.io/service-proxy-name"
	// maxEndpoints bounds the endpoints of one port of a Service: those for the Node begin there.
	maxEndpoints = 1 << 16
	// maxAffinity is for how many seconds a client stays with an endpoint at most, usualAffinity by
	// default.
	maxAffinity, usualAffinity = 86400, 10800
)

// Node is the Node that connections go through.
type Node struct {
	Name string
	// Zone is that of the Node; empty if it has none.
	Zone string
	// Leaving tells that it is about to go.
	Leaving bool
}

// HostPort is a port of the Node that leads to a Pod of it.
type HostPort struct {
	// Address is that of the Node; the zero one for all.
	Address  netip.Addr
	Protocol corev1.Protocol
	Port     uint16
	To       netip.AddrPort
}

// Input is what Balance knows.
type Input struct {
	Node     Node
	Services []*corev1.Service
	Slices   []*discoveryv1.EndpointSlice
	// HostPorts count where no Service has the port.
	HostPorts []HostPort
}

// protocolOf is a protocol that is led, as IP numbers it.
func protocolOf(p corev1.Protocol) (uint8, bool) {
	switch p {
	case corev1.ProtocolTCP, "":
		return ruleset.TCP, true
	case corev1.ProtocolUDP:
		return ruleset.UDP, true
	case corev1.ProtocolSCTP:
		return ruleset.SCTP, true
	}
	return 0, false
}

// name identifies a Service.
type name struct{ namespace, name string }

// Balancer says where connections go, time after time: what has not changed it knows. What it was
// given must not change. It is not safe for concurrent use.
type Balancer struct {
	node Node
	// run counts the calls. A Balance that a panic has interrupted is unfinished, and starts again
	// from nothing.
	run        uint64
	unfinished bool
	// services holds the Services of the last time, and order the same by their age: of two that
	// claim the same place the older one has it.
	services map[name]*known
	order    []*known
	// slices are the EndpointSlices of the last time, and bySlice the same by their Services.
	slices  map[*discoveryv1.EndpointSlice]*member
	bySlice map[name][]*discoveryv1.EndpointSlice
	// clusterIPs are the cluster IPs of all Services, sorted.
	clusterIPs []netip.Addr
	// last is the last result, and hostPorts are the ports that it was made with. contested are its
	// places that several claim.
	last      *nft.Balanced
	hostPorts []HostPort
	contested map[nft.Frontend]bool
}

// known is where a Service is led to.
type known struct {
	*corev1.Service
	seen       uint64
	places     []place
	clusterIPs []netip.Addr
}

// place is from where it is led where.
type place struct {
	at nft.Frontend
	to *nft.Balance
}

// member is a slice of a Service.
type member struct {
	of   name
	seen uint64
}

// Balance says where connections go.
func Balance(in Input) *nft.Balanced { return new(Balancer).Balance(in) }

// Balance says where connections go now.
func (b *Balancer) Balance(in Input) *nft.Balanced {
	if b.unfinished {
		*b = Balancer{}
	}
	b.unfinished = true
	if b.run++; b.services == nil {
		b.services, b.slices, b.bySlice = map[name]*known{}, map[*discoveryv1.EndpointSlice]*member{}, map[name][]*discoveryv1.EndpointSlice{}
	}
	stale, all := b.takeSlices(in.Slices), b.node != in.Node
	b.node = in.Node
	d := difference{sameIPs: true, sorted: true}
	count := 0
	for _, s := range in.Services {
		key := name{s.Namespace, s.Name}
		k := b.services[key]
		if k == nil {
			k = &known{}
			b.services[key], b.order = k, append(b.order, k)
		}
		if k.seen != b.run {
			k.seen = b.run
			count++
		}
		if k.Service == s && !stale[key] && !all {
			continue
		}
		d.sorted = d.sorted && k.Service != nil && k.CreationTimestamp.Equal(&s.CreationTimestamp)
		led := &nft.Balanced{To: ruleset.NewLayered[nft.Frontend, *nft.Balance](nil)}
		w := &service{Service: s, node: in.Node, slices: b.bySlice[key], out: led}
		w.lead()
		d.sameIPs = d.sameIPs && slices.Equal(k.clusterIPs, led.ClusterIPs)
		d.was = append(d.was, k.places...)
		k.Service, k.clusterIPs, k.places = s, led.ClusterIPs, nil
		for at, to := range led.To.All() {
			k.places = append(k.places, place{at, to})
		}
		d.now = append(d.now, k.places...)
	}
	if count < len(b.services) {
		gone := func(k *known) bool { return k.seen != b.run }
		maps.DeleteFunc(b.services, func(_ name, k *known) bool {
			if gone(k) {
				d.was = append(d.was, k.places...)
			}
			return gone(k)
		})
		b.order, d.sameIPs = slices.DeleteFunc(b.order, gone), false
	}
	if !d.sorted {
		slices.SortFunc(b.order, func(a, b *known) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
	if !d.sameIPs {
		b.clusterIPs = nil
		for _, k := range b.order {
			b.clusterIPs = append(b.clusterIPs, k.clusterIPs...)
		}
		slices.SortFunc(b.clusterIPs, netip.Addr.Compare)
		b.clusterIPs = slices.Compact(b.clusterIPs)
	}
	if b.last == nil || !slices.Equal(in.HostPorts, b.hostPorts) || !b.change(&d) {
		b.rebuild(in.HostPorts)
	}
	b.unfinished = false
	return b.last
}

// difference is what differs from the last time.
type difference struct {
	// was and now are the places of the Services that have changed.
	was, now []place
	// sameIPs tells that no address of a Service has changed, and sorted that the order by age is
	// that of the last time.
	sameIPs, sorted bool
}

// mostChanged is what part of the places may change for the rest to be taken over: one in two.
const mostChanged = 2

// change makes the next result of the last one. It does nothing, and returns false, if many places
// change, or one that several claim.
func (b *Balancer) change(d *difference) bool {
	if len(d.was)+len(d.now) == 0 && d.sameIPs {
		return true
	}
	if len(d.was)+len(d.now) > b.last.To.Len()/mostChanged {
		return false
	}
	for _, list := range [][]place{d.was, d.now} {
		for _, p := range list {
			if b.contested[p.at] {
				return false
			}
		}
	}
	next := &nft.Balanced{To: b.last.To.Next(), ClusterIPs: b.clusterIPs, Descent: nft.Descent{Mark: new(ruleset.Mark), From: b.last.Descent.Mark}}
	for _, p := range d.was {
		next.To.Delete(p.at)
		next.Descent.Touched = append(next.Descent.Touched, p.at)
	}
	for _, p := range d.now {
		if next.To.At(p.at) != nil { // two claim it from now on
			return false
		}
		next.To.Set(p.at, p.to)
		if b.last.To.At(p.at) == nil {
			next.Descent.Touched = append(next.Descent.Touched, p.at)
		}
	}
	b.last = next
	return true
}

// rebuild makes the result of everything.
func (b *Balancer) rebuild(ports []HostPort) {
	out := &nft.Balanced{To: ruleset.NewLayered(make(map[nft.Frontend]*nft.Balance, 2*len(b.order))), ClusterIPs: b.clusterIPs, Descent: nft.Descent{Mark: new(ruleset.Mark)}}
	b.contested = map[nft.Frontend]bool{}
	claim := func(at nft.Frontend, to *nft.Balance) {
		if out.To.At(at) != nil {
			b.contested[at] = true
			return
		}
		out.To.Set(at, to)
	}
	for _, k := range b.order {
		for _, p := range k.places {
			claim(p.at, p.to)
		}
	}
	for _, h := range ports {
		protocol, known := protocolOf(h.Protocol)
		if !known || h.Port == 0 || !h.To.IsValid() {
			continue
		}
		at := nft.Frontend{Address: h.Address, Protocol: protocol, Port: h.Port}
		if !at.Address.IsValid() || at.Address.IsUnspecified() {
			at.Address = anyAddress(h.To.Addr().Is6())
		}
		if at.Address.Is6() == h.To.Addr().Is6() {
			claim(at, &nft.Balance{Backends: []netip.AddrPort{h.To}})
		}
	}
	b.hostPorts, b.last = slices.Clone(ports), out
}

// takeSlices takes in the slices that there are, and returns the Services whose slices are others.
func (b *Balancer) takeSlices(list []*discoveryv1.EndpointSlice) (stale map[name]bool) {
	stale = map[name]bool{}
	count := 0
	for _, s := range list {
		m := b.slices[s]
		if m == nil {
			of, leads := serviceOf(s)
			if !leads {
				continue
			}
			m = &member{of: of}
			b.slices[s], b.bySlice[m.of], stale[m.of] = m, append(b.bySlice[m.of], s), true
		}
		if m.seen != b.run {
			m.seen = b.run
			count++
		}
	}
	if count == len(b.slices) {
		return stale
	}
	for s, m := range b.slices {
		if m.seen == b.run {
			continue
		}
		delete(b.slices, s)
		stale[m.of] = true
		left := slices.DeleteFunc(b.bySlice[m.of], func(x *discoveryv1.EndpointSlice) bool { return x == s })
		if b.bySlice[m.of] = left; len(left) == 0 {
			delete(b.bySlice, m.of)
		}
	}
	return stale
}

// serviceOf is the Service of a slice; false where no connections go to its endpoints: a slice of
// no Service, and one that is labelled as headless, as the slices of headless Services are.
func serviceOf(s *discoveryv1.EndpointSlice) (of name, leads bool) {
	of = name{s.Namespace, s.Labels[discoveryv1.LabelServiceName]}
	_, headless := s.Labels[corev1.IsHeadlessService]
	return of, of.name != "" && !headless
}

// put adds a place, unless somebody has it.
func put(out *nft.Balanced, at nft.Frontend, to *nft.Balance) {
	if out.To.At(at) == nil {
		out.To.Set(at, to)
	}
}

func anyAddress(six bool) netip.Addr {
	if six {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// service is a Service that is being led.
type service struct {
	*corev1.Service
	node   Node
	slices []*discoveryv1.EndpointSlice
	out    *nft.Balanced
}

// lead says where all ports of the Service lead to.
func (s *service) lead() {
	if s.Spec.Type == corev1.ServiceTypeExternalName || s.Spec.ClusterIP == corev1.ClusterIPNone || elsewhere(s.Service) {
		return
	}
	for _, six := range []bool{false, true} {
		cluster := addressesOf(s.clusterIPs(), six)
		if len(cluster) == 0 {
			continue // the Service is not of this family
		}
		s.out.ClusterIPs = append(s.out.ClusterIPs, cluster...)
		for i := range s.Spec.Ports {
			p := &s.Spec.Ports[i]
			protocol, known := protocolOf(p.Protocol)
			if !known || p.Port < 1 || p.Port > 65535 {
				continue
			}
			s.port(six, cluster, p, protocol)
		}
	}
}

// elsewhere reports whether another proxy leads a Service.
func elsewhere(s *corev1.Service) bool {
	_, labelled := s.Labels[labelProxy]
	return labelled
}

func (s *service) clusterIPs() []string {
	if len(s.Spec.ClusterIPs) > 0 {
		return s.Spec.ClusterIPs
	}
	return []string{s.Spec.ClusterIP}
}

// addressesOf are the addresses of a family.
func addressesOf(texts []string, six bool) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		a, err := netip.ParseAddr(text)
		if a = a.Unmap(); err == nil && a.Zone() == "" && a.Is6() == six && !a.IsUnspecified() {
			out = append(out, a)
		}
	}
	return out
}

// port says where a port leads to, in a family.
func (s *service) port(six bool, cluster []netip.Addr, p *corev1.ServicePort, protocol uint8) {
	e := s.endpoints(six, p, protocol)
	affinity := s.affinity()
	internal := &nft.Balance{Backends: e.cluster, Sticky: affinity}
	if s.Spec.InternalTrafficPolicy != nil && *s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal {
		internal.Backends, internal.Silent = e.local, len(e.cluster) > 0
	}
	for _, a := range cluster {
		put(s.out, nft.Frontend{Address: a, Protocol: protocol, Port: uint16(p.Port)}, internal)
	}
	external := &nft.Balance{Backends: e.cluster, Sticky: affinity}
	if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && s.external() {
		external = &nft.Balance{Backends: e.local, Apart: true, Inside: e.cluster, Sticky: affinity, Silent: len(e.cluster) > 0, KeepsSource: true}
	}
	for _, a := range addressesOf(s.Spec.ExternalIPs, six) {
		put(s.out, nft.Frontend{Address: a, Protocol: protocol, Port: uint16(p.Port)}, external)
	}
	if p.NodePort > 0 && p.NodePort <= 65535 && (s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer) {
		put(s.out, nft.Frontend{Address: anyAddress(six), Protocol: protocol, Port: uint16(p.NodePort)}, external)
	}
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	balancer := *external
	balancer.Sources = s.sources(six)
	for _, i := range s.Status.LoadBalancer.Ingress {
		if i.IPMode != nil && *i.IPMode != corev1.LoadBalancerIPModeVIP {
			continue // the balancer sends to where it likes
		}
		for _, a := range addressesOf([]string{i.IP}, six) {
			put(s.out, nft.Frontend{Address: a, Protocol: protocol, Port: uint16(p.Port)}, &balancer)
		}
	}
}

// external reports whether others than the cluster can reach the Service.
func (s *service) external() bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer || len(s.Spec.ExternalIPs) > 0
}

func (s *service) affinity() uint32 {
	if s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	if c := s.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		return uint32(min(max(*c.ClientIP.TimeoutSeconds, 1), maxAffinity))
	}
	return usualAffinity
}

// sources are the addresses that may connect through the balancer; nil for all. If there are only
// ranges of the other family, none may.
func (s *service) sources(six bool) []netip.Prefix {
	if len(s.Spec.LoadBalancerSourceRanges) == 0 {
		return nil
	}
	out := []netip.Prefix{}
	for _, text := range s.Spec.LoadBalancerSourceRanges {
		if p, err := netip.ParsePrefix(text); err == nil && p.Addr().Is6() == six {
			out = append(out, p.Masked())
		}
	}
	return out
}

// endpoints are where a port can lead to: anywhere, and on the Node.
type endpoints struct{ cluster, local []netip.AddrPort }

// endpoint is an endpoint of a port.
type endpoint struct {
	*discoveryv1.Endpoint
	at netip.AddrPort
}

func stated(b *bool, otherwise bool) bool {
	if b == nil {
		return otherwise
	}
	return *b
}

func (e endpoint) ready() bool { return stated(e.Conditions.Ready, true) }

// lasts reports whether the endpoint serves though it is about to end.
func (e endpoint) lasts() bool {
	return stated(e.Conditions.Serving, e.ready()) && stated(e.Conditions.Terminating, false)
}

func (e endpoint) on(node string) bool { return e.NodeName != nil && *e.NodeName == node }

// endpoints chooses those that may be used.
func (s *service) endpoints(six bool, p *corev1.ServicePort, protocol uint8) endpoints {
	all := s.all(six, p, protocol)
	choose := func(among func(endpoint) bool, ready func(endpoint) bool) []netip.AddrPort {
		for _, fits := range []func(endpoint) bool{func(e endpoint) bool { return e.ready() && ready(e) }, endpoint.lasts} {
			var out []netip.AddrPort
			for _, e := range all {
				if among(e) && fits(e) {
					out = append(out, e.at)
				}
			}
			if len(out) > 0 {
				slices.SortFunc(out, netip.AddrPort.Compare)
				return slices.Compact(out)
			}
		}
		return nil
	}
	any := func(endpoint) bool { return true }
	return endpoints{
		cluster: choose(any, s.near(all)),
		local:   choose(func(e endpoint) bool { return e.on(s.node.Name) }, any),
	}
}

// all are the endpoints of a port, in a family, ready or not.
func (s *service) all(six bool, p *corev1.ServicePort, protocol uint8) []endpoint {
	var out []endpoint
	for _, x := range s.slices {
		if (x.AddressType == discoveryv1.AddressTypeIPv6) != six || x.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for _, port := range x.Ports {
			of := corev1.ProtocolTCP
			if port.Protocol != nil {
				of = *port.Protocol
			}
			number, known := protocolOf(of)
			if !known || number != protocol || text(port.Name) != p.Name || port.Port == nil || *port.Port < 1 || *port.Port > 65535 {
				continue
			}
			for i := range x.Endpoints {
				if len(x.Endpoints[i].Addresses) == 0 || len(out) >= maxEndpoints {
					continue
				}
				for _, a := range addressesOf(x.Endpoints[i].Addresses[:1], six) { // the others mean nothing
					out = append(out, endpoint{&x.Endpoints[i], netip.AddrPortFrom(a, uint16(*port.Port))})
				}
			}
		}
	}
	return out
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// near returns which of the ready endpoints are to be preferred: those with a hint for the Node, or
// else for its zone, if all of them have such hints and at least one is for it.
func (s *service) near(all []endpoint) func(endpoint) bool {
	forNode := func(e endpoint) (has, fits bool) {
		if e.Hints == nil {
			return false, false
		}
		for _, h := range e.Hints.ForNodes {
			has, fits = true, fits || h.Name == s.node.Name
		}
		return has, fits
	}
	forZone := func(e endpoint) (has, fits bool) {
		if e.Hints == nil {
			return false, false
		}
		for _, h := range e.Hints.ForZones {
			has, fits = true, fits || s.node.Zone != "" && h.Name == s.node.Zone
		}
		return has, fits
	}
	for _, hint := range []func(endpoint) (bool, bool){forNode, forZone} {
		every, some := true, false
		for _, e := range all {
			if e.ready() {
				has, fits := hint(e)
				every, some = every && has, some || fits
			}
		}
		if every && some {
			return func(e endpoint) bool { _, fits := hint(e); return fits }
		}
	}
	return func(endpoint) bool { return true }
}

// HealthPort is a port by which a load balancer finds out whether a Node has an endpoint of a
// Service.
type HealthPort struct {
	Namespace, Name string
	// Local is how many endpoints the Node has.
	Local int
}

// HealthPorts are those that the Node is to serve, by their numbers.
func HealthPorts(in Input) map[uint16]HealthPort {
	out := map[uint16]HealthPort{}
	var some []*corev1.Service
	for _, s := range in.Services {
		port := s.Spec.HealthCheckNodePort
		asked := port >= 1 && port <= 65535 && s.Spec.Type == corev1.ServiceTypeLoadBalancer
		if asked && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && !elsewhere(s) {
			some = append(some, s)
		}
	}
	if len(some) == 0 {
		return out
	}
	bySlice := map[name][]*discoveryv1.EndpointSlice{}
	for _, s := range in.Slices {
		if of, leads := serviceOf(s); leads {
			bySlice[of] = append(bySlice[of], s)
		}
	}
	for _, s := range some {
		w := &service{Service: s, node: in.Node, slices: bySlice[name{s.Namespace, s.Name}]}
		local := map[netip.Addr]bool{}
		for i := range s.Spec.Ports {
			protocol, _ := protocolOf(s.Spec.Ports[i].Protocol)
			for _, six := range []bool{false, true} {
				for _, e := range w.all(six, &s.Spec.Ports[i], protocol) {
					if e.ready() && e.on(in.Node.Name) {
						local[e.at.Addr()] = true
					}
				}
			}
		}
		out[uint16(s.Spec.HealthCheckNodePort)] = HealthPort{s.Namespace, s.Name, len(local)}
	}
	return out
}
