package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft/nfttest"
)

var (
	// pluginProgram is bin/nephele-cni; without it the program of the tests stands in, which takes
	// longer to start.
	pluginProgram = flag.String("cni-plugin", "", "the CNI plugin to measure, such as bin/nephele-cni")
	// referencePlugins are the plugins of github.com/containernetworking/plugins.
	referencePlugins = flag.String("cni-reference", "", "a directory with the plugins bridge, host-local and portmap, to compare with")
)

// path is from somebody to an address of somebody else.
type path struct {
	name     string
	from, to *nfttest.Host
	at       netip.Addr
}

// benchPort is where the far end of a path is sent to.
const benchPort = 5001

// listen takes connections to the far end of a path until the benchmark ends.
func (p *path) listen(b *testing.B, port uint16, each func(net.Conn)) {
	b.Helper()
	var l net.Listener
	if err := p.to.Do(func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(p.at, port).String())
		return err
	}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				each(c)
			}()
		}
	}()
}

// send sends so many bytes over one connection, and waits until the other end has had them all.
func (p *path) send(size int64) error {
	return p.from.Do(func() error {
		c, err := net.Dial("tcp", netip.AddrPortFrom(p.at, benchPort).String())
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		chunk := make([]byte, 1<<20)
		for range size / int64(len(chunk)) {
			if _, err := c.Write(chunk); err != nil {
				return err
			}
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			return err
		}
		_, err = io.ReadFull(c, chunk[:1]) // that it has all
		return err
	})
}

// open makes connections, by four at once.
func (p *path) open(each int) error {
	const workers = 4
	var running sync.WaitGroup
	errs := make([]error, workers)
	for worker := range workers {
		running.Go(func() {
			errs[worker] = p.from.Do(func() error {
				for range each {
					c, err := net.Dial("tcp", netip.AddrPortFrom(p.at, benchPort+1).String())
					if err != nil {
						return err
					}
					_ = c.(*net.TCPConn).SetLinger(0) // so that ports are free again at once
					if err := c.Close(); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// compared measures something on a path between two measurements on the one that it is compared
// with, again and again, and reports the medians of the shares by the clock and by processor time.
// Neighbours in time have about the same of what else the machine does, and processor time does not
// count it.
func compared(b *testing.B, name string, pairs int, of, with *path, once func(*path) error) {
	measure := func(p *path) (rate, perProcessor float64) {
		begun, busy := time.Now(), busyTime(b)
		if err := once(p); err != nil {
			b.Fatalf("%s: %s: %v", name, p.name, err)
		}
		return 1 / time.Since(begun).Seconds(), 1 / (busyTime(b) - busy).Seconds()
	}
	measure(with) // what is learned with the first packet is known
	measure(of)
	var clock, processor []float64
	before, busyBefore := measure(with)
	for range pairs {
		rate, busy := measure(of)
		after, busyAfter := measure(with)
		clock, processor = append(clock, 200*rate/(before+after)), append(processor, 200*busy/(busyBefore+busyAfter))
		before, busyBefore = after, busyAfter // each follows one of the other kind
	}
	for unit, values := range map[string][]float64{"%": clock, "cpu-%": processor} {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], name+"-"+unit)
	}
}

// busyTime is the processor time of this process, which is both ends of each path.
func busyTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bareNode makes a host one that hands packets on between links, and does nothing else.
func bareNode(b *testing.B, h *nfttest.Host) {
	b.Helper()
	if err := h.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644) }); err != nil {
		b.Fatal(err)
	}
}

// barePod joins a host without anything to a Node, by a link and a route.
func barePod(b *testing.B, node *nfttest.Host, subnet int) (*nfttest.Host, netip.Addr) {
	b.Helper()
	pod := nfttest.NewHost(b)
	gateway, own := netip.AddrFrom4([4]byte{10, 99, byte(subnet), 1}), netip.AddrFrom4([4]byte{10, 99, byte(subnet), 2})
	nfttest.Connect(b, node, pod, []netip.Prefix{netip.PrefixFrom(gateway, 24)}, []netip.Prefix{netip.PrefixFrom(own, 24)})
	_, all, _ := net.ParseCIDR("0.0.0.0/0")
	if err := pod.Handle.RouteAdd(&netlink.Route{Dst: all, Gw: gateway.AsSlice()}); err != nil {
		b.Fatal(err)
	}
	return pod, own
}

// bareTunnel gives a Node a VXLAN device to another one, behind which a subnet is.
func bareTunnel(b *testing.B, own, other *netNode, subnet int) {
	b.Helper()
	under, err := own.host.Handle.LinkByName("eth0")
	own.site.must(err)
	mac := func(n *netNode) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 9, n.at[0].As4()[3]} }
	own.site.must(own.host.Handle.LinkAdd(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "bare", MTU: 1450, HardwareAddr: mac(own)},
		VxlanId: 77, VtepDevIndex: under.Attrs().Index, SrcAddr: own.at[0].AsSlice(), Port: 4790}))
	device, err := own.host.Handle.LinkByName("bare")
	own.site.must(err)
	own.site.must(own.host.Handle.LinkSetUp(device))
	index, far := device.Attrs().Index, net.IPv4(10, 98, 0, byte(subnet))
	own.site.must(own.host.Handle.NeighSet(&netlink.Neigh{LinkIndex: index, Family: unix.AF_BRIDGE, State: unix.NUD_PERMANENT, Flags: unix.NTF_SELF, IP: other.at[0].AsSlice(), HardwareAddr: mac(other)}))
	own.site.must(own.host.Handle.NeighSet(&netlink.Neigh{LinkIndex: index, State: unix.NUD_PERMANENT, IP: far, HardwareAddr: mac(other)}))
	_, to, err := net.ParseCIDR(fmt.Sprintf("10.99.%d.0/24", subnet))
	own.site.must(err)
	own.site.must(own.host.Handle.RouteAdd(&netlink.Route{LinkIndex: index, Dst: to, Gw: far, Flags: int(netlink.FLAG_ONLINK)}))
}

// BenchmarkNetwork compares the network that the agent makes with the least that the kernel needs
// for the same: between Pods of a Node with two links and routes, between Nodes with a VXLAN device
// and entries made by hand. Each sends 256 MB over one connection, and opens 3,000 connections.
func BenchmarkNetwork(b *testing.B) {
	of := siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1, 1}, cidrs: []string{"10.244.N.0/24"}, four: true}
	s := newSite(b, of)
	here, there := s.nodes[0], s.nodes[1]
	for i := range 2 {
		s.join(2+i, 1, of) // without an agent
		s.must(s.client.CoreV1().Nodes().Delete(b.Context(), fmt.Sprintf("node%d", 2+i), metav1.DeleteOptions{}))
	}
	one, two, far := here.pod("free"), here.pod("free"), there.pod("free")
	left, right := s.nodes[2], s.nodes[3]
	bareNode(b, left.host)
	bareNode(b, right.host)
	bareOne, _ := barePod(b, left.host, 1)
	bareTwo, atTwo := barePod(b, left.host, 2)
	bareFar, atFar := barePod(b, right.host, 3)
	bareTunnel(b, left, right, 3)
	bareTunnel(b, right, left, 1)
	for _, c := range []struct {
		name     string
		of, with *path
	}{
		{"node", &path{"ours", one.Host, two.Host, two.family(false)}, &path{"bare", bareOne, bareTwo, atTwo}},
		{"between", &path{"ours", one.Host, far.Host, far.family(false)}, &path{"bare", bareOne, bareFar, atFar}},
	} {
		for _, p := range []*path{c.of, c.with} {
			p.listen(b, benchPort, func(c net.Conn) {
				if _, err := io.Copy(io.Discard, c); err == nil {
					_, _ = c.Write([]byte{1})
				}
			})
			p.listen(b, benchPort+1, func(net.Conn) {})
		}
		compared(b, c.name+"-bytes", 15*b.N, c.of, c.with, func(p *path) error { return p.send(256 << 20) })
		compared(b, c.name+"-connections", 15*b.N, c.of, c.with, func(p *path) error { return p.open(750) })
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkKnownNodes starts the agent of a Node in a cluster of 1,000 others, and waits until all
// of them are in the kernel: a neighbour, an entry of the VXLAN device and a route for each.
func BenchmarkKnownNodes(b *testing.B) {
	const many = 1000
	for range b.N {
		s := newSite(b, siteOf{})
		of := siteOf{config: network.Config{Mode: network.Encap}, cidrs: []string{"10.0.N.0/24"}, four: true}
		s.join(0, 1, of)
		for i := 1; i <= many; i++ {
			address := fmt.Sprintf("192.168.%d.%d", 2+i/250, 1+i%250)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node%d", i)}, Spec: corev1.NodeSpec{PodCIDRs: []string{fmt.Sprintf("10.%d.%d.0/24", i/250, i%250)}},
				Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}}}
			_, err := s.client.CoreV1().Nodes().Create(b.Context(), node, metav1.CreateOptions{})
			s.must(err)
		}
		n, begun, busy := s.nodes[0], time.Now(), busyTime(b)
		n.serve()
		n.eventually("all Nodes are in the kernel", func() bool { return n.agent.Status().Network.Tunnels == many })
		b.ReportMetric(time.Since(begun).Seconds(), "s")
		b.ReportMetric((busyTime(b) - busy).Seconds(), "cpu-s")
		device, err := n.host.Handle.LinkByName(network.Device)
		s.must(err)
		routes, err := n.host.Handle.RouteList(device, netlink.FAMILY_V4)
		s.must(err)
		if len(routes) < many {
			b.Fatalf("%d routes", len(routes))
		}
		n.ended()
	}
	b.ReportMetric(0, "ns/op")
}

// reference runs a plugin of others on a host, and returns what it says.
func reference(b *testing.B, h *nfttest.Host, plugin, command, container string, pod *nfttest.Host, config map[string]any) json.RawMessage {
	b.Helper()
	stdin, err := json.Marshal(config)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(*referencePlugins, plugin))
	cmd.Env = append(os.Environ(), "CNI_COMMAND="+command, "CNI_IFNAME=eth0", "CNI_PATH="+*referencePlugins, "CNI_CONTAINERID="+container, "CNI_NETNS="+pod.Path())
	cmd.Stdin = bytes.NewReader(stdin)
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := h.Do(cmd.Run); err != nil {
		b.Fatalf("%s %s: %v: %s %s", plugin, command, err, &out, &failed)
	}
	return out.Bytes()
}

// podWaits is for how long the Pods of a Node have waited for their policies, added up.
func podWaits(b *testing.B, n *netNode) time.Duration {
	b.Helper()
	return time.Duration(gathered(b, n.agent)["nephele_agent_pod_wait_seconds"].sum * float64(time.Second))
}

// BenchmarkAdd gives Pods their network, alternately by our plugin, which asks the agent, and by
// the plugins bridge, host-local and portmap, and reports the medians. No policy selects the Pods;
// the agent looks for some all the same before it lets them begin. How long it takes for that is
// reported by itself and left out of the share, because those plugins wait for no policies.
func BenchmarkAdd(b *testing.B) {
	if *pluginProgram == "" || *referencePlugins == "" {
		b.Skip("needs -cni-plugin and -cni-reference")
	}
	s := newSite(b, siteOf{config: network.Config{Mode: network.Encap}, subnets: []int{1}, cidrs: []string{"10.244.N.0/24"}, four: true})
	node, other := s.nodes[0], nfttest.NewHost(b)
	bareNode(b, other)
	bridge := map[string]any{"cniVersion": "1.0.0", "name": "bench", "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
		"ipam": map[string]any{"type": "host-local", "dataDir": b.TempDir(), "ranges": [][]map[string]string{{{"subnet": "10.97.0.0/16"}}}}}
	ports := map[string]any{"cniVersion": "1.0.0", "name": "bench", "type": "portmap", "backend": "nftables", "snat": true}
	var ours, waits, theirs []time.Duration
	for i := range 40 * b.N {
		p := node.newPod("free")
		before := podWaits(b, node)
		begun := time.Now()
		if said := node.add(p); !said.ok() {
			b.Fatalf("ADD: %+v", said)
		}
		took, wait := time.Since(begun), podWaits(b, node)-before
		ours, waits = append(ours, took-wait), append(waits, wait)
		node.remove(p)
		container, pod := fmt.Sprintf("reference%d", i), nfttest.NewHost(b)
		begun = time.Now()
		ports["prevResult"] = reference(b, other, "bridge", "ADD", container, pod, bridge)
		reference(b, other, "portmap", "ADD", container, pod, ports)
		theirs = append(theirs, time.Since(begun))
		reference(b, other, "portmap", "DEL", container, pod, ports)
		reference(b, other, "bridge", "DEL", container, pod, bridge)
	}
	slices.Sort(ours)
	slices.Sort(waits)
	slices.Sort(theirs)
	mid := len(ours) / 2
	b.ReportMetric(float64(waits[mid].Microseconds())/1000, "wait-ms")
	b.ReportMetric(float64(ours[mid].Microseconds())/1000, "ms")
	b.ReportMetric(float64(theirs[mid].Microseconds())/1000, "reference-ms")
	b.ReportMetric(100*ours[mid].Seconds()/theirs[mid].Seconds(), "%")
	b.ReportMetric(0, "ns/op")
}
