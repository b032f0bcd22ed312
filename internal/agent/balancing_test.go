package agent_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
)

// named lets a Pod answer on port 8080, by TCP and UDP, with its name and the address of the
// client.
func (p *netPod) named() *netPod {
	s := p.node.site
	s.inside(p.Host, func() error {
		l, err := net.Listen("tcp", ":8080")
		if err != nil {
			return err
		}
		s.t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = fmt.Fprintf(c, "%s %s", p.name, c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap())
				_ = c.Close()
			}
		}()
		for _, a := range p.at {
			u, err := net.ListenPacket("udp", netip.AddrPortFrom(a, 8080).String())
			if err != nil {
				return err
			}
			s.t.Cleanup(func() { _ = u.Close() })
			go func() {
				b := make([]byte, 10)
				for {
					_, from, err := u.ReadFrom(b)
					if err != nil {
						return
					}
					_, _ = u.WriteTo([]byte(p.name), from)
				}
			}()
		}
		return nil
	})
	return p
}

// answer is the name of the Pod that answers a new connection and the address that the Pod sees, or
// how the connection fails.
func (s *site) answer(from *nfttest.Host, at string, limit time.Duration) (who, seen string) {
	s.t.Helper()
	s.inside(from, func() error {
		c, err := net.DialTimeout("tcp", at, limit)
		if err != nil {
			who = "silent"
			if strings.Contains(err.Error(), "refused") {
				who = "refused"
			}
			return nil
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(patient))
		text, err := io.ReadAll(c)
		who, seen, _ = strings.Cut(string(text), " ")
		return err
	})
	return who, seen
}

// answers counts the Pods that answer some new connections.
func (s *site) answers(from *nfttest.Host, at string, times int) map[string]int {
	s.t.Helper()
	out := map[string]int{}
	for range times {
		who, _ := s.answer(from, at, patient)
		out[who]++
	}
	return out
}

// put makes a Service, or changes it, with endpoints of Pods.
func (s *site) put(service *corev1.Service, pods ...*netPod) {
	s.t.Helper()
	service.Namespace = "n1"
	for i := range service.Spec.Ports {
		service.Spec.Ports[i].Name = fmt.Sprint(i)
	}
	services := s.client.CoreV1().Services("n1")
	if _, err := services.Create(s.t.Context(), service, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		_, err = services.Update(s.t.Context(), service, metav1.UpdateOptions{})
		s.must(err)
	}
	for _, six := range []bool{false, true} {
		x := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: service.Name + "-4", Labels: map[string]string{discoveryv1.LabelServiceName: service.Name}}, AddressType: discoveryv1.AddressTypeIPv4}
		if six {
			x.Name, x.AddressType = service.Name+"-6", discoveryv1.AddressTypeIPv6
		}
		for i := range service.Spec.Ports {
			p, port := &service.Spec.Ports[i], int32(8080)
			x.Ports = append(x.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &port})
		}
		for _, p := range pods {
			if a := p.family(six); a.IsValid() {
				x.Endpoints = append(x.Endpoints, discoveryv1.Endpoint{Addresses: []string{a.String()}, NodeName: &p.node.name})
			}
		}
		slices := s.client.DiscoveryV1().EndpointSlices("n1")
		if _, err := slices.Create(s.t.Context(), x, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			_, err = slices.Update(s.t.Context(), x, metav1.UpdateOptions{})
			s.must(err)
		}
	}
}

// serviceOf is a Service of a type, by TCP and UDP on port 80.
func serviceOf(name string, kind corev1.ServiceType, number int, change func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: kind, ClusterIPs: []string{fmt.Sprintf("10.96.0.%d", number), fmt.Sprintf("fd96::%d", number)},
		Ports: []corev1.ServicePort{{Protocol: "TCP", Port: 80}, {Protocol: "UDP", Port: 80}}}}
	if kind != corev1.ServiceTypeClusterIP {
		s.Spec.Ports[0].NodePort, s.Spec.Ports[1].NodePort = int32(30000+number), int32(30000+number)
	}
	if change != nil {
		change(&s.Spec)
	}
	return s
}

// TestServices leads connections to Services by the rules of the agent, with no kube-proxy.
func TestServices(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1, 2}, cidrs: []string{"10.244.N.0/24", "fd00:N::/64"}, four: true, six: true, services: true})
	here, there := s.nodes[0], s.nodes[1]
	client, a, b := here.pod("free"), here.pod("free").named(), there.pod("free").named()
	local := func(spec *corev1.ServiceSpec) { spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }
	s.put(serviceOf("web", corev1.ServiceTypeNodePort, 1, nil), a, b)
	s.put(serviceOf("itself", corev1.ServiceTypeClusterIP, 2, nil), a)
	s.put(serviceOf("local", corev1.ServiceTypeNodePort, 3, local), b)
	s.put(serviceOf("none", corev1.ServiceTypeNodePort, 4, nil))
	s.put(serviceOf("sticky", corev1.ServiceTypeClusterIP, 5, func(spec *corev1.ServiceSpec) { spec.SessionAffinity = corev1.ServiceAffinityClientIP }), a, b)
	balanced := serviceOf("balanced", corev1.ServiceTypeLoadBalancer, 6, func(spec *corev1.ServiceSpec) {
		spec.LoadBalancerSourceRanges = []string{"192.168.1.0/24"}
		spec.ExternalIPs = []string{"203.0.113.6"}
	})
	checked := serviceOf("checked", corev1.ServiceTypeLoadBalancer, 7, local)
	checked.Spec.HealthCheckNodePort = 31007
	s.put(checked, b)
	balanced.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.6"}}
	s.put(balanced, a, b)
	for _, n := range s.nodes {
		n.eventually("the Services are led", func() bool {
			who, _ := s.answer(n.host, "198.51.100.6:80", impatient)
			return who == a.name || who == b.name || n == there && who == "silent" && s.answers(n.host, "10.96.0.6:80", 1)["silent"] == 0
		})
	}
	both := func(what string, got map[string]int) {
		t.Helper()
		if got[a.name] == 0 || got[b.name] == 0 || len(got) != 2 {
			t.Errorf("%s: answered by %v, want both of %s and %s", what, got, a.name, b.name)
		}
	}
	for _, family := range []struct{ service, node, outside string }{{"10.96.0.%d", here.at[0].String(), "192.168.2.254"}, {"[fd96::%d]", "[" + here.at[1].String() + "]", "2001:db8:2::fe"}} {
		at := func(n int) string { return fmt.Sprintf(family.service+":80", n) }
		both("a Pod at "+at(1), s.answers(client.Host, at(1), 30))
		both("the Node at "+at(1), s.answers(here.host, at(1), 30))
		both("from outside by the Node", s.answers(s.router, family.node+":30001", 30))
		both("a Pod by the Node", s.answers(client.Host, family.node+":30001", 30))
		if got := s.answers(a.Host, at(2), 5); got[a.name] != 5 {
			t.Errorf("a Pod that reaches itself: %v", got)
		}
		if who, seen := s.answer(client.Host, at(2), patient); who != a.name || seen != client.family(strings.Contains(seen, ":")).String() {
			t.Errorf("%s sees %s, want the Pod itself", who, seen)
		}
		for _, from := range []*nfttest.Host{client.Host, here.host} {
			if who, _ := s.answer(from, at(4), patient); who != "refused" {
				t.Errorf("without endpoints: %s, want refused", who)
			}
			if who, _ := s.answer(from, fmt.Sprintf(family.service+":81", 1), patient); who != "refused" {
				t.Errorf("a port that the Service does not have: %s, want refused", who)
			}
		}
		if who, _ := s.answer(s.router, family.node+":30004", patient); who != "refused" {
			t.Errorf("from outside, without endpoints: %s, want refused", who)
		}
		if who, _ := s.answer(s.router, family.node+":30003", impatient); who != "silent" {
			t.Errorf("a Node without an endpoint of its own: %s, want silent", who)
		}
		if got := s.answers(client.Host, family.node+":30003", 3); got[b.name] != 3 {
			t.Errorf("a Pod by a Node without an endpoint of its own: %v, want that of the other Node", got)
		}
		got := s.answers(client.Host, at(5), 20)
		if len(got) != 1 {
			t.Errorf("a client that stays: %v", got)
		}
	}
	if who, seen := s.answer(s.router, there.at[0].String()+":30003", patient); who != b.name || seen != "192.168.2.254" {
		t.Errorf("%s sees %s, want the address of the client", who, seen)
	}
	both("an external address", s.answers(client.Host, "203.0.113.6:80", 30))

	// What a load balancer hears: if the Node has an endpoint, and if it takes connections.
	health := func(n *netNode, port, path string) (code int, text string) {
		t.Helper()
		s.inside(s.router, func() error {
			c, err := net.DialTimeout("tcp", n.at[0].String()+":"+port, patient)
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			_, _ = io.WriteString(c, "GET "+path+" HTTP/1.0\r\n\r\n") // reading tells
			r, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				return err
			}
			defer func() { _ = r.Body.Close() }()
			raw, err := io.ReadAll(r.Body)
			code, text = r.StatusCode, string(raw)
			return err
		})
		return code, text
	}
	for n, want := range map[*netNode]int{here: http.StatusServiceUnavailable, there: http.StatusOK} {
		if code, text := health(n, "31007", "/"); code != want || !strings.Contains(text, `"localEndpoints"`) {
			t.Errorf("%s says %d %s to a load balancer, want %d", n.name, code, text, want)
		}
		if code, text := health(n, "10256", "/healthz"); code != http.StatusOK || !strings.Contains(text, `"nodeEligible":true`) {
			t.Errorf("%s says of itself %d %s", n.name, code, text)
		}
	}
	node, err := s.client.CoreV1().Nodes().Get(t.Context(), there.name, metav1.GetOptions{})
	s.must(err)
	node.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
	_, err = s.client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{})
	s.must(err)
	there.eventually("a Node that is about to go says so", func() bool {
		code, _ := health(there, "10256", "/healthz")
		return code == http.StatusServiceUnavailable
	})
	if code, _ := health(there, "10256", "/livez"); code != http.StatusOK {
		t.Errorf("the agent of a Node that is about to go says that it does not live: %d", code)
	}

	// Somebody else leads to Services, too.
	beside := &nftables.Table{Name: "kube-proxy", Family: nftables.TableFamilyIPv4}
	change := func(do func(c *nftables.Conn)) {
		s.inside(here.host, func() error {
			c, err := nftables.New()
			if err == nil {
				do(c)
				err = c.Flush()
			}
			return err
		})
	}
	change(func(c *nftables.Conn) { c.AddChain(&nftables.Chain{Name: "services", Table: c.AddTable(beside)}) })
	here.eventually("kube-proxy is told of", func() bool {
		return strings.Contains(here.agent.Status().Network.Trouble(), "kube-proxy leads to Services as well, or has left what does (table ip kube-proxy)")
	})
	change(func(c *nftables.Conn) { c.DelTable(beside) })
	here.eventually("kube-proxy is gone", func() bool { return here.agent.Status().Network.Trouble() == "" })

	// The ranges that the load balancer admits.
	route(s, here, "198.51.100.6/32")
	if got := s.answers(s.router, "198.51.100.6:80", 5); got["silent"] > 0 {
		t.Errorf("the load balancer admits %v", got)
	}
	if who, _ := s.answer(there.host, "198.51.100.6:80", impatient); who != "silent" {
		t.Errorf("from a range that the load balancer does not admit: %s", who)
	}

	// An endpoint goes: clients with affinity to it, and a UDP conversation, go to the other one.
	var talk net.Conn
	s.inside(client.Host, func() (err error) { talk, err = net.Dial("udp", "10.96.0.5:80"); return err })
	defer func() { _ = talk.Close() }()
	ask := func() string {
		_ = talk.SetDeadline(time.Now().Add(impatient))
		if _, err := talk.Write([]byte("?")); err != nil {
			return err.Error()
		}
		answer := make([]byte, 20)
		n, err := talk.Read(answer)
		if err != nil {
			return err.Error()
		}
		return string(answer[:n])
	}
	first := ask()
	left, gone := a, b
	if first == a.name {
		left, gone = b, a
	}
	if first != gone.name {
		t.Fatalf("by UDP: %s", first)
	}
	sticky := serviceOf("sticky", corev1.ServiceTypeClusterIP, 5, func(spec *corev1.ServiceSpec) { spec.SessionAffinity = corev1.ServiceAffinityClientIP })
	s.put(sticky, left)
	here.eventually("the conversation goes to the other endpoint", func() bool { return ask() == left.name })
	if got := s.answers(client.Host, "10.96.0.5:80", 5); got[left.name] != 5 {
		t.Errorf("a client that stayed with an endpoint that is gone: %v", got)
	}

	// Agents go and come: nothing is lost, and nothing is written. All changes have come to them
	// before: the last one is that of the IPv6 endpoints of "none", after all others.
	s.put(serviceOf("none", corev1.ServiceTypeNodePort, 4, nil), left)
	for _, n := range s.nodes {
		n.eventually("the last change is in force", func() bool {
			who, _ := s.answer(n.host, "[fd96::4]:80", impatient)
			return who == left.name
		})
	}
	probe := s.askService(client.Host, "10.96.0.1:80")
	for _, n := range s.nodes {
		n.ended() // what follows a change ends with it
		var before uint32
		s.inside(n.host, func() error {
			another, err := kernel.Open("nephele")
			if err != nil {
				return err
			}
			defer func() { _ = another.Close() }()
			before, err = another.Generation()
			return err
		})
		n.serve()
		n.eventually("the Services are known again", func() bool { return n.agent.Status().State == agent.StateEnforcing })
		// The process takes the table over, and that is all.
		if after, err := n.table.Generation(); err != nil || after > before+1 {
			t.Errorf("%s: %d transactions after a restart, %v", n.name, after-before, err)
		}
	}
	probe.none(t, "restarts of agents that lead to Services")
	both("after a restart", s.answers(client.Host, "10.96.0.1:80", 30))

	s.leadsPorts(here)
}

// route leads a range to a Node, as a load balancer does.
func route(s *site, n *netNode, to string) {
	s.t.Helper()
	_, dst, err := net.ParseCIDR(to)
	s.must(err)
	s.must(s.router.Handle.RouteAdd(&netlink.Route{Dst: dst, Gw: n.at[0].AsSlice()}))
}

// askService begins to make new connections to a Service.
func (s *site) askService(from *nfttest.Host, at string) *stream {
	p := &stream{stop: make(chan struct{})}
	p.done.Go(func() {
		for {
			select {
			case <-p.stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			p.mu.Lock()
			p.sent++
			p.mu.Unlock()
			if err := from.Do(func() error { return dialAtOnce(at) }); err != nil {
				p.mu.Lock()
				p.lost++
				p.first = err.Error()
				p.mu.Unlock()
			}
		}
	})
	return p
}

// leadsPorts adds a Pod that wants a port of the Node, and reaches it from outside.
func (s *site) leadsPorts(here *netNode) {
	s.t.Helper()
	p := here.newPod("free")
	pods := s.client.CoreV1().Pods("n1")
	object, err := pods.Get(s.t.Context(), p.name, metav1.GetOptions{})
	s.must(err)
	object.Spec.Containers = []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{HostPort: 8443, ContainerPort: 8080, Protocol: "TCP"}}}}
	_, err = pods.Update(s.t.Context(), object, metav1.UpdateOptions{})
	s.must(err)
	if got := here.add(p); !got.ok() {
		s.t.Fatalf("ADD: %+v", got)
	}
	p.named()
	here.eventually("the port of the Node leads to the Pod", func() bool {
		who, _ := s.answer(s.router, here.at[0].String()+":8443", impatient)
		return who == p.name
	})
}

// TestPortsBesideKubeProxy leads ports of the Node to Pods where kube-proxy leads to Services, also
// after a restart of the agent, at which nothing is lost.
func TestPortsBesideKubeProxy(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1}, cidrs: []string{"10.244.N.0/24"}, four: true})
	here := s.nodes[0]
	s.leadsPorts(here)
	change := func(do func(c *nftables.Conn)) {
		s.inside(here.host, func() error {
			c, err := nftables.New()
			if err == nil {
				do(c)
				err = c.Flush()
			}
			return err
		})
	}
	change(func(c *nftables.Conn) {
		c.AddTable(&nftables.Table{Name: "kube-proxy", Family: nftables.TableFamilyIPv4})
	})
	probe := s.askService(s.router, here.at[0].String()+":8443")
	for range 3 {
		here.ended()
		here.serve()
		here.eventually("it enforces again", func() bool { return here.agent.Status().State == agent.StateEnforcing })
	}
	probe.none(t, "restarts of an agent that leads ports")
	if trouble := here.agent.Status().Network.Trouble(); trouble != "" {
		t.Errorf("beside kube-proxy: %s", trouble)
	}
}
