// Package proxybench measures how the agent leads to Services beside kube-proxy in its mode
// nftables, in one run: each in a network namespace of its own, with the same Services, a Pod that
// connects and a Pod that answers.
package proxybench

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	kubeproxy "k8s.io/kubernetes/pkg/proxy/nftables"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"

	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
	"github.com/nephele-io/nephele/internal/agent/proxy"
)

var (
	connections = flag.Int("connections", 3000, "how many connections are made each time")
	rounds      = flag.Int("rounds", 40, "how many times each is measured, in turns")
)

// node is the network of a Node with two Pods.
type node struct{ client, host, server *nfttest.Host }

func newNode(b *testing.B) *node {
	b.Helper()
	n := &node{nfttest.NewHost(b), nfttest.NewHost(b), nfttest.NewHost(b)}
	one := func(text string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(text)} }
	nfttest.Connect(b, n.client, n.host, one("10.244.1.2/24"), one("10.244.1.1/24"))
	nfttest.Connect(b, n.server, n.host, one("10.244.2.2/24"), one("10.244.2.1/24"))
	for h, gateway := range map[*nfttest.Host]string{n.client: "10.244.1.1", n.server: "10.244.2.1"} {
		if err := h.Handle.RouteAdd(&netlink.Route{Gw: net.ParseIP(gateway)}); err != nil {
			b.Fatal(err)
		}
	}
	if err := n.host.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }); err != nil {
		b.Fatal(err)
	}
	for port := 8080; port < 8082; port++ {
		var l net.Listener
		if err := n.server.Do(func() (err error) { l, err = net.Listen("tcp", fmt.Sprintf("10.244.2.2:%d", port)); return err }); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.Close()
			}
		}()
	}
	return n
}

func clusterIP(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}) }

// rate makes connections through the Services in turn, and returns how many it made per second, by
// the clock and by the processor time of its thread, in which the kernel does nearly all of it.
func (n *node) rate(b *testing.B, services int) (clock, processor float64) {
	b.Helper()
	var took, worked time.Duration
	if err := n.client.Do(func() error {
		begun, before := time.Now(), threadTime()
		for i := range *connections {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			err = errors.Join(unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}),
				unix.Connect(fd, &unix.SockaddrInet4{Port: 80, Addr: clusterIP(i * 7 % services).As4()}), unix.Close(fd))
			if err != nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
		}
		took, worked = time.Since(begun), threadTime()-before
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	return float64(*connections) / took.Seconds(), float64(*connections) / worked.Seconds()
}

// threadTime is the processor time that the thread has taken.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0 // every kernel has it
	}
	return time.Duration(t.Nano())
}

// objects are Services with two endpoints each.
func objects(n int) (services []*corev1.Service, endpoints []*discoveryv1.EndpointSlice) {
	tcp, name, yes := corev1.ProtocolTCP, "http", true
	for i := range n {
		meta := metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("s%d", i), UID: types.UID(fmt.Sprint(i))}
		services = append(services, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			ClusterIP: clusterIP(i).String(), ClusterIPs: []string{clusterIP(i).String()}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Type: corev1.ServiceTypeClusterIP,
			SessionAffinity: corev1.ServiceAffinityNone, Ports: []corev1.ServicePort{{Name: name, Protocol: tcp, Port: 80}},
		}})
		for k := range 2 { // of one port each
			port := int32(8080 + k)
			m := *meta.DeepCopy()
			m.Name = fmt.Sprintf("%s-%d", meta.Name, k)
			m.Labels = map[string]string{discoveryv1.LabelServiceName: meta.Name}
			endpoints = append(endpoints, &discoveryv1.EndpointSlice{ObjectMeta: m, AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.2.2"}, Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes}}},
				Ports:     []discoveryv1.EndpointPort{{Name: &name, Protocol: &tcp, Port: &port}}})
		}
	}
	return services, endpoints
}

// kubeProxy leads to Services, and returns how long it took from nothing.
func (n *node) kubeProxy(b *testing.B, services []*corev1.Service, endpoints []*discoveryv1.EndpointSlice) (took time.Duration) {
	b.Helper()
	if err := n.host.Do(func() error {
		p, err := kubeproxy.NewProxier(b.Context(), corev1.IPv4Protocol, time.Hour, time.Second, false, 14, proxyutil.NewNoOpLocalDetector(), "node",
			net.ParseIP("10.244.1.1"), events.NewFakeRecorder(100), nil, nil, false)
		if err != nil {
			return err
		}
		begun := time.Now()
		for _, s := range services {
			p.OnServiceAdd(s)
		}
		for _, e := range endpoints {
			p.OnEndpointSliceAdd(e)
		}
		p.OnEndpointSlicesSynced()
		p.OnServiceSynced()
		took = time.Since(begun)
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	return took
}

// ours does the same as the agent does.
func (n *node) ours(b *testing.B, services []*corev1.Service, endpoints []*discoveryv1.EndpointSlice) time.Duration {
	b.Helper()
	var table *kernel.Table
	if err := n.host.Do(func() (err error) { table, err = kernel.Open(kernel.DefaultTable); return err }); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = table.Close() })
	pods := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
	begun := time.Now()
	balanced := proxy.Balance(proxy.Input{Node: proxy.Node{Name: "node"}, Services: services, Slices: endpoints})
	if _, err := table.Apply(new(nft.Compiler).Compile(nft.Input{Node: &nft.Node{Network: &nft.Network{Own: pods, Keep: pods}}, Balanced: balanced}).Program); err != nil {
		b.Fatal(err)
	}
	return time.Since(begun)
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// BenchmarkServices reports new connections per second through a Service, and how long it takes
// until all Services are led to from nothing, both beside kube-proxy.
func BenchmarkServices(b *testing.B) {
	if _, err := exec.LookPath("nft"); err != nil {
		b.Skip("THIS DID NOT RUN: kube-proxy needs the program nft (Debian: nftables)")
	}
	for _, count := range []int{10, 10_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			services, endpoints := objects(count)
			theirs, own := newNode(b), newNode(b)
			began, ended := theirs.kubeProxy(b, services, endpoints), own.ours(b, services, endpoints)
			for range b.N {
				var clock, processor [2][]float64
				for range *rounds {
					for i, n := range []*node{theirs, own} {
						c, p := n.rate(b, count)
						clock[i], processor[i] = append(clock[i], c), append(processor[i], p)
					}
				}
				t, o := median(clock[0]), median(clock[1])
				b.ReportMetric(o, "conn/s")
				b.ReportMetric(t, "kube-proxy-conn/s")
				b.ReportMetric(100*o/t, "%")
				b.ReportMetric(100*median(processor[1])/median(processor[0]), "cpu-%")
			}
			b.ReportMetric(float64(ended.Milliseconds()), "sync-ms")
			b.ReportMetric(float64(began.Milliseconds()), "kube-proxy-sync-ms")
			b.ReportMetric(began.Seconds()/ended.Seconds(), "times")
		})
	}
}
