package proxy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/internal/agent/nft"
)

// candidate is an endpoint as the naive reading sees it: one row of a flat table.
type candidate struct {
	at                        string
	ready, serving, ending    bool
	node                      string
	nodeHints, zoneHints      []string
	service, port, proto, fam string
}

// table flattens slices.
func table(in Input) []candidate {
	var out []candidate
	for _, s := range in.Slices {
		if _, headless := s.Labels["service.kubernetes.io/headless"]; headless {
			continue // as kube-proxy does not hear of it
		}
		for _, p := range s.Ports {
			for _, e := range s.Endpoints {
				c := candidate{service: s.Namespace + "/" + s.Labels["kubernetes.io/service-name"], port: *p.Name, proto: string(*p.Protocol), fam: string(s.AddressType)}
				c.at = netip.AddrPortFrom(netip.MustParseAddr(e.Addresses[0]), uint16(*p.Port)).String()
				c.ready = e.Conditions.Ready == nil || *e.Conditions.Ready
				c.serving = c.ready
				if e.Conditions.Serving != nil {
					c.serving = *e.Conditions.Serving
				}
				c.ending = e.Conditions.Terminating != nil && *e.Conditions.Terminating
				if e.NodeName != nil {
					c.node = *e.NodeName
				}
				if e.Hints != nil {
					for _, h := range e.Hints.ForNodes {
						c.nodeHints = append(c.nodeHints, h.Name)
					}
					for _, h := range e.Hints.ForZones {
						c.zoneHints = append(c.zoneHints, h.Name)
					}
				}
				out = append(out, c)
			}
		}
	}
	return out
}

// usable says of one place which endpoints a client may come to, reading the documentation of
// Services sentence by sentence for each endpoint. Local restricts it to the Node.
func usable(all []candidate, node Node, local bool) []string {
	var ready []candidate
	for _, c := range all {
		if c.ready {
			ready = append(ready, c)
		}
	}
	everyHas := func(of func(candidate) []string) bool {
		return !slices.ContainsFunc(ready, func(c candidate) bool { return len(of(c)) == 0 })
	}
	someFor := func(of func(candidate) []string, word string) bool {
		return word != "" && slices.ContainsFunc(ready, func(c candidate) bool { return slices.Contains(of(c), word) })
	}
	nodes, zones := func(c candidate) []string { return c.nodeHints }, func(c candidate) []string { return c.zoneHints }
	may := func(c candidate) bool {
		switch {
		case local:
			return c.node == node.Name
		case everyHas(nodes) && someFor(nodes, node.Name):
			return slices.Contains(c.nodeHints, node.Name)
		case everyHas(zones) && someFor(zones, node.Zone):
			return slices.Contains(c.zoneHints, node.Zone)
		}
		return true
	}
	set := map[string]bool{}
	for _, c := range ready {
		if may(c) {
			set[c.at] = true
		}
	}
	if len(set) == 0 {
		for _, c := range all {
			if c.serving && c.ending && (!local || c.node == node.Name) {
				set[c.at] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// draw makes Services and slices with everything that is looked at.
func draw(random *rand.Rand) Input {
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	chance := func(n int) bool { return random.IntN(n) == 0 }
	in := Input{Node: Node{Name: "here", Zone: pick("a", "b", "")}}
	for n := range 3 {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprintf("s%d", n), CreationTimestamp: metav1.Unix(int64(n), 0)}}
		s.Spec.Type = corev1.ServiceType(pick("ClusterIP", "NodePort", "LoadBalancer"))
		s.Spec.ClusterIPs = []string{fmt.Sprintf("10.96.0.%d", n+1)}
		if chance(2) {
			s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, fmt.Sprintf("fd96::%d", n+1))
		}
		s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
		for p := range 1 + random.IntN(2) {
			port := corev1.ServicePort{Name: fmt.Sprintf("p%d", p), Protocol: corev1.Protocol(pick("TCP", "UDP")), Port: int32(80 + p)}
			if s.Spec.Type != corev1.ServiceTypeClusterIP {
				port.NodePort = int32(30000 + 10*n + p)
			}
			s.Spec.Ports = append(s.Spec.Ports, port)
		}
		if chance(3) {
			s.Spec.ExternalIPs = []string{fmt.Sprintf("203.0.113.%d", n+1)}
		}
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer && chance(2) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: fmt.Sprintf("198.51.100.%d", n+1)}}
			if chance(2) {
				s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24", "2001:db8::/32"}
			}
			if chance(4) {
				mode := corev1.LoadBalancerIPModeProxy
				s.Status.LoadBalancer.Ingress[0].IPMode = &mode
			}
		}
		if chance(2) {
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
		if chance(3) {
			local := corev1.ServiceInternalTrafficPolicyLocal
			s.Spec.InternalTrafficPolicy = &local
		}
		if chance(3) {
			s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		}
		in.Services = append(in.Services, s)
		hints := random.IntN(4)
		for k := range 3 {
			kind, address := discoveryv1.AddressTypeIPv4, "10.244.%d.%d"
			if k == 2 {
				kind, address = discoveryv1.AddressTypeIPv6, "fd00::%d:%d"
			}
			x := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprintf("%s-%d", s.Name, k), Labels: map[string]string{"kubernetes.io/service-name": s.Name}}, AddressType: kind}
			for _, p := range s.Spec.Ports {
				to := 8000 + p.Port
				x.Ports = append(x.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &to})
			}
			for range random.IntN(4) {
				e := discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf(address, n, 1+random.IntN(5))}}
				for _, into := range []**bool{&e.Conditions.Ready, &e.Conditions.Serving, &e.Conditions.Terminating} {
					if b := chance(2); !chance(3) {
						*into = &b
					}
				}
				if where := pick("here", "there", ""); where != "" {
					e.NodeName = &where
				}
				if hints > 0 && !chance(6) {
					e.Hints = &discoveryv1.EndpointHints{}
					if hints != 1 {
						e.Hints.ForZones = []discoveryv1.ForZone{{Name: pick("a", "b")}}
					}
					if hints != 2 {
						e.Hints.ForNodes = []discoveryv1.ForNode{{Name: pick("here", "there")}}
					}
				}
				x.Endpoints = append(x.Endpoints, e)
			}
			if chance(20) {
				x.Labels["service.kubernetes.io/headless"] = pick("", "true")
			}
			in.Slices = append(in.Slices, x)
		}
	}
	return in
}

// TestBalanceOnRandomInput asks about every place of random Services, and compares with a naive
// reading that knows no maps: of one client and one place at a time.
func TestBalanceOnRandomInput(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	seen := map[string]int{}
	for range 20000 {
		in := draw(random)
		got := Balance(in)
		random.Shuffle(len(in.Slices), func(i, j int) { in.Slices[i], in.Slices[j] = in.Slices[j], in.Slices[i] })
		random.Shuffle(len(in.Services), func(i, j int) { in.Services[i], in.Services[j] = in.Services[j], in.Services[i] })
		if again := Balance(in); !reflect.DeepEqual(got, again) {
			t.Fatal("it depends on the order of the input")
		}
		flat, places := table(in), 0
		for _, s := range in.Services {
			for _, p := range s.Spec.Ports {
				for _, family := range []string{"IPv4", "IPv6"} {
					var all []candidate
					for _, c := range flat {
						if c.service == "n/"+s.Name && c.port == p.Name && c.proto == string(p.Protocol) && c.fam == family {
							all = append(all, c)
						}
					}
					anywhere, here := usable(all, in.Node, false), usable(all, in.Node, true)
					for place, kind := range placesOf(s, p, family) {
						places++
						b := got.To.At(place)
						if b == nil {
							t.Fatalf("%v of %s leads nowhere", place, s.Name)
						}
						inside, outside := anywhere, anywhere
						local := kind == "cluster" && s.Spec.InternalTrafficPolicy != nil || kind != "cluster" && s.Spec.ExternalTrafficPolicy == "Local"
						if local {
							outside = here
							if kind == "cluster" {
								inside = here
							}
						}
						answers := "reject"
						if local && len(anywhere) > 0 {
							answers = "drop"
						}
						wantSources := kind == "balancer" && len(s.Spec.LoadBalancerSourceRanges) > 0
						gotInside := b.Backends
						if b.Apart {
							gotInside = b.Inside
						}
						if fmt.Sprint(sorted(b.Backends)) != fmt.Sprint(outside) || fmt.Sprint(sorted(gotInside)) != fmt.Sprint(inside) ||
							len(outside) == 0 && b.Silent != (answers == "drop") || b.KeepsSource != (kind != "cluster" && local) || (b.Sources != nil) != wantSources || (b.Sticky == 10800) != (s.Spec.SessionAffinity != "") {
							t.Fatalf("%s %v of %s on %v: %+v, want outside %v, inside %v, else %s\n%+v", kind, place, s.Name, in.Node, b, outside, inside, answers, all)
						}
						seen[kind]++
						if len(outside) == 0 {
							seen[answers]++
						}
						if b.Apart {
							seen["apart"]++
						}
					}
				}
			}
		}
		var addresses []string
		for _, s := range in.Services {
			addresses = append(addresses, s.Spec.ClusterIPs...)
		}
		var led []string
		for _, a := range got.ClusterIPs {
			led = append(led, a.String())
		}
		slices.Sort(addresses)
		if slices.Sort(led); !slices.Equal(addresses, led) {
			t.Fatalf("addresses %v, want %v", led, addresses)
		}
		if places != got.To.Len() {
			t.Fatalf("%d places, want %d", got.To.Len(), places)
		}
	}
	for _, what := range []string{"cluster", "external", "node", "balancer", "reject", "drop", "apart"} {
		if seen[what] < 100 {
			t.Errorf("%q came up %d times only: %v", what, seen[what], seen)
		}
	}
}

func sorted(list []netip.AddrPort) []string {
	out := []string{}
	for _, a := range list {
		out = append(out, a.String())
	}
	slices.Sort(out)
	return out
}

// placesOf are the places of a port, with their kinds.
func placesOf(s *corev1.Service, p corev1.ServicePort, family string) map[nft.Frontend]string {
	out := map[nft.Frontend]string{}
	protocol := uint8(6)
	if p.Protocol == "UDP" {
		protocol = 17
	}
	of := func(text string) bool { return strings.Contains(text, ":") == (family == "IPv6") }
	has := false
	for _, ip := range s.Spec.ClusterIPs {
		has = has || of(ip)
		if of(ip) {
			out[nft.Frontend{Address: netip.MustParseAddr(ip), Protocol: protocol, Port: uint16(p.Port)}] = "cluster"
		}
	}
	if !has {
		return out
	}
	for _, ip := range s.Spec.ExternalIPs {
		if of(ip) {
			out[nft.Frontend{Address: netip.MustParseAddr(ip), Protocol: protocol, Port: uint16(p.Port)}] = "external"
		}
	}
	for _, i := range s.Status.LoadBalancer.Ingress {
		if of(i.IP) && i.IPMode == nil {
			out[nft.Frontend{Address: netip.MustParseAddr(i.IP), Protocol: protocol, Port: uint16(p.Port)}] = "balancer"
		}
	}
	if p.NodePort > 0 {
		any := netip.IPv4Unspecified()
		if family == "IPv6" {
			any = netip.IPv6Unspecified()
		}
		out[nft.Frontend{Address: any, Protocol: protocol, Port: uint16(p.NodePort)}] = "node"
	}
	return out
}

// TestHealthPorts: only load balancers ask whose Services keep to the endpoints of a Node.
func TestHealthPorts(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	seen := 0
	for range 2000 {
		in := draw(random)
		want := map[uint16]HealthPort{}
		for i, s := range in.Services {
			s.Spec.HealthCheckNodePort = int32(31000 + i)
			if s.Spec.Type != "LoadBalancer" || s.Spec.ExternalTrafficPolicy != "Local" {
				continue
			}
			local := map[string]bool{}
			for _, c := range table(in) {
				if c.service == "n/"+s.Name && c.ready && c.node == "here" {
					local[netip.MustParseAddrPort(c.at).Addr().String()] = true
				}
			}
			want[uint16(31000+i)] = HealthPort{"n", s.Name, len(local)}
			seen += len(local)
		}
		if got := HealthPorts(in); !maps.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	if seen == 0 {
		t.Error("no endpoint was there")
	}
}

// TestBalanceLeavesOut: what cannot be, or is not ours, is left out, and no other one with it.
func TestBalanceLeavesOut(t *testing.T) {
	make := func(change func(s *corev1.Service)) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}}}
		change(s)
		return s
	}
	for name, c := range map[string]struct {
		change func(s *corev1.Service)
		places int
	}{
		"as it is":      {func(*corev1.Service) {}, 2},
		"headless":      {func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }, 0},
		"a label":       {func(s *corev1.Service) { s.Labels = map[string]string{corev1.IsHeadlessService: ""} }, 2}, // it counts on slices
		"another proxy": {func(s *corev1.Service) { s.Labels = map[string]string{labelProxy: "x"} }, 0},
		"none by name":  {func(s *corev1.Service) { s.Labels = map[string]string{labelProxy: ""} }, 0},
		"a name":        {func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }, 0},
		"no address":    {func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.0.1.2" }, 0},
		"odd protocol":  {func(s *corev1.Service) { s.Spec.Ports[0].Protocol = "GRE" }, 0},
		"odd ports":     {func(s *corev1.Service) { s.Spec.Ports[0].NodePort, s.Spec.Ports[0].Port = 70000, 80 }, 1},
		"port zero":     {func(s *corev1.Service) { s.Spec.Ports[0].Port = 0 }, 0},
		"odd external":  {func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"::", "0.0.0.0", "x", "203.0.113.1"} }, 3},
		"not by Node":   {func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }, 1},
	} {
		if got := Balance(Input{Services: []*corev1.Service{make(c.change)}}); got.To.Len() != c.places {
			t.Errorf("%s: %v, want %d places", name, got.To, c.places)
		}
	}
	older, younger := make(func(*corev1.Service) {}), make(func(s *corev1.Service) { s.Name, s.CreationTimestamp = "t", metav1.Unix(9, 0) })
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Labels: map[string]string{"kubernetes.io/service-name": "s"}}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Port: new(int32)}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.1"}}, {}}}
	*slice.Ports[0].Port = 8080
	got := Balance(Input{Services: []*corev1.Service{younger, older}, Slices: []*discoveryv1.EndpointSlice{slice},
		HostPorts: []HostPort{{Port: 30080, To: netip.MustParseAddrPort("10.244.0.9:1")}, {Port: 53, Protocol: "UDP", To: netip.MustParseAddrPort("10.244.0.9:53")}, {Port: 0}, {Port: 9}}})
	for _, b := range []nft.Frontend{{Address: netip.MustParseAddr("10.96.0.1"), Protocol: 6, Port: 80}, {Address: netip.IPv4Unspecified(), Protocol: 6, Port: 30080}} {
		if x := got.To.At(b); x == nil || fmt.Sprint(x.Backends) != "[10.244.0.1:8080]" {
			t.Errorf("%v leads to %+v", b, x)
		}
	}
	if x := got.To.At(nft.Frontend{Address: netip.IPv4Unspecified(), Protocol: 17, Port: 53}); x == nil || got.To.Len() != 3 {
		t.Errorf("%v", got.To)
	}
}

// same reports whether two lead the same way, however they came about.
func same(a, b *nft.Balanced) bool {
	return a.Unknown == b.Unknown && reflect.DeepEqual(maps.Collect(a.To.All()), maps.Collect(b.To.All())) && reflect.DeepEqual(a.ClusterIPs, b.ClusterIPs)
}

// descends reports whether one was made of another one, and fails if it leads elsewhere from a
// place that it does not name.
func descends(t *testing.T, now, former *nft.Balanced) bool {
	t.Helper()
	if former == nil || now == former || now.Descent.From == nil {
		return false
	}
	if now.Descent.From != former.Descent.Mark {
		t.Fatal("it was made of another one than the last one")
	}
	touched := map[nft.Frontend]bool{}
	for _, at := range now.Descent.Touched {
		touched[at] = true
	}
	for _, to := range []*nft.Places{now.To, former.To} {
		for at := range to.All() {
			if !touched[at] && now.To.At(at) != former.To.At(at) {
				t.Fatalf("%v leads elsewhere, and is not named", at)
			}
		}
	}
	return true
}

// TestBalancerKnows changes few objects of random input again and again: what is said is what one
// that knows nothing says.
func TestBalancerKnows(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	taken, contested := 0, 0
	for range 300 {
		in, other := draw(random), draw(random)
		var b Balancer
		var former *nft.Balanced
		for range 10 {
			got, want := b.Balance(in), Balance(in)
			if !same(got, want) {
				t.Fatalf("%+v, want %+v", got, want)
			}
			if descends(t, got, former) {
				taken++
			}
			if len(b.contested) > 0 {
				contested++
			}
			former = got
			in.Services, in.Slices = slices.Clone(in.Services), slices.Clone(in.Slices)
			switch n := random.IntN(5); {
			case n == 0:
				in.Node = other.Node
			case n == 1 && len(in.Services) > 0:
				i := random.IntN(len(in.Services))
				in.Services = slices.Delete(in.Services, i, i+1)
			case n == 2 && len(other.Services) > 0:
				s := other.Services[random.IntN(len(other.Services))]
				in.Services = append(slices.DeleteFunc(in.Services, func(o *corev1.Service) bool { return o.Name == s.Name }), s)
			case n == 3 && len(in.Slices) > 0:
				i := random.IntN(len(in.Slices))
				in.Slices = slices.Delete(in.Slices, i, i+1)
			case len(other.Slices) > 0:
				in.Slices = append(in.Slices, other.Slices[random.IntN(len(other.Slices))])
			}
			if len(in.Services) > 0 && random.IntN(4) == 0 { // one that others have, too
				i := random.IntN(len(in.Services))
				s := in.Services[i].DeepCopy()
				s.Spec.ExternalIPs = []string{"203.0.113.100"}
				in.Services[i] = s
			}
			if random.IntN(10) == 0 { // a port of a Service, perhaps
				in.HostPorts = []HostPort{{Port: uint16(30000 + 10*random.IntN(4)), Protocol: corev1.ProtocolTCP, To: netip.MustParseAddrPort("10.244.0.9:1")}}
			}
		}
	}
	if taken < 300 || contested < 100 {
		t.Errorf("%d were made of the last one, and %d had places that several claim: too few to show anything", taken, contested)
	}
}

// TestBalancerStopped: a panic in the middle leaves nothing that is half known.
func TestBalancerStopped(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		before, in := draw(random), draw(random)
		var b Balancer
		b.Balance(before)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a Service that is none was taken")
				}
			}()
			b.Balance(Input{Node: in.Node, Services: append([]*corev1.Service{nil}, in.Services...), Slices: in.Slices})
		}()
		if got, want := b.Balance(in), Balance(in); !same(got, want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
}
